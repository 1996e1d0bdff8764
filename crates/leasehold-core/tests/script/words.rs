//! The words of a script line: what stands alone, and what has a name.

use std::sync::Arc;

use leasehold_core::{
    Ask, Asks, Binding, Compare, Key, KeyRange, LeaderId, LeaseId, LeaseTime, Limits, Mode, Once, Operand, Patience,
    Relation, ResourceName, Revision, Span, Token, Ttl, WriteOp,
};

pub(crate) type Parsed<T> = Result<T, String>;

/// The words of one line after the command.
pub(crate) struct Words<'a> {
    pub(crate) plain: Vec<&'a str>,
    named: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        let (named, plain): (Vec<&str>, Vec<&str>) = line.split_whitespace().partition(|word| word.contains('='));
        Self { plain, named: named.into_iter().filter_map(|word| word.split_once('=')).collect() }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.named.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
    }

    pub(crate) fn number(&self, name: &str) -> Parsed<Option<u64>> {
        self.text(name).map(number).transpose()
    }

    pub(crate) fn span(&self, name: &str) -> Parsed<Option<Span>> {
        self.text(name).map(span).transpose()
    }

    pub(crate) fn lease(&self, name: &str) -> Parsed<Option<LeaseId>> {
        self.text(name).map(lease).transpose()
    }

    pub(crate) fn ttl(&self) -> Parsed<Option<Ttl>> {
        match self.text("ttl") {
            None => Ok(None),
            Some("none") => Ok(Some(Ttl::Endless)),
            Some(text) => Ok(Some(Ttl::For(span(text)?))),
        }
    }

    pub(crate) fn first(&self) -> Parsed<&'a str> {
        self.plain.first().copied().ok_or_else(|| "a word is missing".to_owned())
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.plain.contains(&word)
    }

    pub(crate) fn once(&self) -> Parsed<Option<Once>> {
        let acked = self.number("acked")?.unwrap_or(0);
        Ok(self.number("seq")?.map(|seq| Once { seq, acked }))
    }

    /// The resources named by `names`, each `NAME` or `NAME:shared`, and how they are asked for.
    pub(crate) fn asks(&self, names: &[&str]) -> Parsed<Asks> {
        let all = if self.text("mode") == Some("shared") { Mode::Shared } else { Mode::Exclusive };
        let claims = names.iter().map(|name| {
            let (name, mode) = name.strip_suffix(":shared").map_or((*name, all), |name| (name, Mode::Shared));
            Ok(Ask { resource: resource(name)?, mode })
        });
        let patience = match self.text("patience") {
            None => Patience::None,
            Some("endless") => Patience::Endless,
            Some(text) => Patience::For(span(text)?),
        };
        let priority = self.text("priority").map_or(Ok(0), |text| text.parse::<i32>().map_err(|e| e.to_string()))?;
        let cooldown = self.span("cooldown")?.unwrap_or_default();
        Ok(Asks { claims: claims.collect::<Parsed<_>>()?, patience, priority, cooldown })
    }

    /// Limits with what is named here changed.
    pub(crate) fn limits(&self, mut limits: Limits) -> Parsed<Limits> {
        for (name, text) in &self.named {
            set_limit(&mut limits, name, text)?;
        }
        Ok(limits)
    }
}

fn set_limit(limits: &mut Limits, name: &str, text: &str) -> Parsed<()> {
    let count = || number(text).map(|n| n as u32);
    match name {
        "ttl_min" => limits.ttl_min = span(text)?,
        "ttl_max" => limits.ttl_max = span(text)?,
        "cooldown_max" => limits.cooldown_max = span(text)?,
        "grace" => limits.grace = span(text)?,
        "tombstone_age" => limits.tombstone_age = span(text)?,
        "tombstones" => limits.tombstones = count()?,
        "namespaces" => limits.namespaces = count()?,
        "leases" => limits.leases = count()?,
        "leases_per_identity" => limits.leases_per_identity = count()?,
        "claims_per_lease" => limits.claims_per_lease = count()?,
        "entries_per_lease" => limits.entries_per_lease = count()?,
        "tree_weight" => limits.tree_weight = count()?,
        "tree_depth" => limits.tree_depth = number(text)? as u8,
        "waiters" => limits.waiters = count()?,
        "shared_holders" => limits.shared_holders = count()?,
        "entries" => limits.entries = count()?,
        "value_bytes" => limits.value_bytes = count()?,
        "entry_bytes" => limits.entry_bytes = number(text)?,
        "state_bytes" => limits.state_bytes = number(text)?,
        "write_ops" => limits.write_ops = count()?,
        "range_entries" => limits.range_entries = count()?,
        "metadata_pairs" => limits.metadata_pairs = count()?,
        "metadata_bytes" => limits.metadata_bytes = count()?,
        "history" => limits.history = count()?,
        "idle_resources" => limits.idle_resources = count()?,
        "receipts" => limits.receipts = count()?,
        "renewals" => limits.renewals = count()?,
        "sweep_piece" => limits.sweep_piece = count()?,
        _ => return Err(format!("no limit is named {name}")),
    }
    Ok(())
}

pub(crate) fn number(text: &str) -> Parsed<u64> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

pub(crate) fn lease(text: &str) -> Parsed<LeaseId> {
    LeaseId::new(number(text)?).ok_or_else(|| format!("{text} is no lease id"))
}

pub(crate) fn token(text: &str) -> Parsed<Token> {
    number(text).map(Token)
}

pub(crate) fn resource(text: &str) -> Parsed<ResourceName> {
    ResourceName::new(text).map_err(|e| format!("{text}: {e}"))
}

pub(crate) fn leader(text: &str) -> Parsed<LeaderId> {
    let (term, node) = text.split_once('/').ok_or("a leader is TERM/NODE")?;
    Ok(LeaderId { term: number(term)?, node: number(node)? })
}

pub(crate) fn time(text: &str) -> Parsed<LeaseTime> {
    span(text).map(|span| LeaseTime(span.0))
}

/// A length such as `1m30s`, `250ms` or `10s1ms`.
pub(crate) fn span(text: &str) -> Parsed<Span> {
    let (mut rest, mut total) = (text, 0u64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(|| format!("{text} has no unit"))?;
        let amount = number(&rest[..digits])?;
        rest = &rest[digits..];
        let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("y", 31_536_000_000)];
        let (unit, factor) =
            units.into_iter().find(|(unit, _)| rest.starts_with(unit)).ok_or_else(|| format!("{text} has no unit"))?;
        rest = &rest[unit.len()..];
        total = total.saturating_add(amount.saturating_mul(factor));
    }
    Ok(Span(total))
}

pub(crate) fn key(text: &str) -> Parsed<Key> {
    Key::new(text.as_bytes()).map_err(|e| format!("{text}: {e}"))
}

/// `KEY`, `PREFIX*`, `FROM..TO` or `FROM..`.
pub(crate) fn range(text: &str) -> Parsed<KeyRange> {
    if let Some(prefix) = text.strip_suffix('*') {
        return Ok(KeyRange::Prefix(Arc::from(prefix.as_bytes())));
    }
    match text.split_once("..") {
        Some((from, "")) => Ok(KeyRange::From(key(from)?)),
        Some((from, to)) => Ok(KeyRange::Between(key(from)?, key(to)?)),
        None => Ok(KeyRange::One(key(text)?)),
    }
}

/// `put KEY VALUE [lease=N|keep]`, `delete RANGE`, `get KEY` or `range RANGE [limit=N]`.
pub(crate) fn write_op(line: &str) -> Parsed<WriteOp> {
    let (verb, rest) = line.trim().split_once(' ').ok_or("a step needs a key")?;
    let words = Words::new(rest);
    let first = words.first()?;
    match verb {
        "put" => {
            let value = words.plain.get(1).ok_or("a put needs a value, - keeps it")?;
            let binding = match words.text("lease") {
                None => Binding::None,
                Some("keep") => Binding::Keep,
                Some(id) => Binding::To(lease(id)?),
            };
            let value = (*value != "-").then(|| Arc::from(value.as_bytes()));
            Ok(WriteOp::Put { key: key(first)?, value, binding })
        }
        "delete" => Ok(WriteOp::Delete { range: range(first)? }),
        "get" | "range" => {
            let limit = words.number("limit")?.unwrap_or(100) as u32;
            Ok(WriteOp::Read { range: range(first)?, limit })
        }
        _ => Err(format!("no step is named {verb}")),
    }
}

/// `RANGE.PROPERTY` then `=`, `!=`, `<` or `>`, then a value.
pub(crate) fn compare(text: &str) -> Parsed<Compare> {
    let operators =
        [("!=", Relation::NotEqual), ("=", Relation::Equal), ("<", Relation::Less), (">", Relation::Greater)];
    let (operator, relation) =
        operators.into_iter().find(|(operator, _)| text.contains(operator)).ok_or("a compare needs = != < or >")?;
    let (left, value) = text.split_once(operator).ok_or("a compare has two sides")?;
    let (left, property) = left.rsplit_once('.').ok_or("a compare names KEY.PROPERTY")?;
    let operand = match property {
        "version" => Operand::Version(number(value)?),
        "created" => Operand::Created(Revision(number(value)?)),
        "modified" => Operand::Modified(Revision(number(value)?)),
        "lease" => Operand::Lease(number(value)?),
        "value" => Operand::Value(Arc::from(value.as_bytes())),
        _ => return Err(format!("no property is named {property}")),
    };
    Ok(Compare { range: range(left)?, relation, operand })
}
