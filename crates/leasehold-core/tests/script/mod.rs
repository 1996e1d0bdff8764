//! A state driven line by line.
//!
//! Every command is an entry of its own unless it stands between `{` and `}`. `at` moves time as a healthy leader
//! does: it ticks at every deadline, at least once per second, and until no backlog is left. `stamp` only sets the
//! stamp of the entries that follow. `limits` is `configure` with the right to do so. `restore` goes on from a backup taken
//! just now.

pub(crate) mod text;
pub(crate) mod words;

use leasehold_core::{
    Applied, AskHandover, Caller, Claim, ClaimMarked, Class, Command, Grant, Holder, Identity, KeyRange, LeaderId,
    LeaseFilter, LeaseTime, Leave, Marker, Metadata, Namespace, Record, Release, Renew, Request, Restore, Revision,
    Revoke, Rights, Span, Stamp, State, Ttl, Unclaim, WallTime, Write, WriteOp,
};
use words::{Parsed, Words};

const NAMESPACE: &str = "main";
const LEADER: LeaderId = LeaderId { term: 1, node: 1 };

pub(crate) struct Session {
    state: State,
    now: LeaseTime,
    shown: LeaseTime,
    caller: Caller,
    namespace: Namespace,
    next_lease: u64,
    batch: Option<Vec<Request>>,
    restart_always: bool,
    output: String,
}

impl Session {
    pub(crate) fn new(restart_always: bool) -> Self {
        Self {
            state: State::new(),
            now: LeaseTime::ZERO,
            shown: LeaseTime::ZERO,
            caller: Caller::default(),
            namespace: Namespace::new(NAMESPACE).unwrap(),
            next_lease: 0,
            batch: None,
            restart_always,
            output: String::new(),
        }
    }

    pub(crate) fn take_output(&mut self) -> String {
        std::mem::take(&mut self.output)
    }

    /// Carries out one line.
    pub(crate) fn run(&mut self, line: &str) -> Parsed<()> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words = Words::new(rest);
        match verb {
            "at" => self.advance(words::time(words.first()?)?),
            "stamp" => {
                self.now = words::time(words.first()?)?;
                Ok(())
            }
            "tick" => self.enter(Vec::new()),
            "as" => self.become_caller(&words),
            "in" => {
                self.namespace = Namespace::new(words.first()?).map_err(|e| e.to_string())?;
                Ok(())
            }
            "{" => {
                self.batch = Some(Vec::new());
                Ok(())
            }
            "}" => {
                let requests = self.batch.take().ok_or("no batch is open")?;
                self.enter(requests)
            }
            "takeover" => {
                let grace = {
                    self.state.take_over();
                    self.state.grace()
                };
                self.say(&format!("took over, grace={grace}"));
                self.examine()
            }
            "entry" => self.foreign_entry(&words),
            "restart" => self.restart(),
            "restore" => self.restore(&words),
            "show" => self.show(&words),
            "check" => self.check(&words),
            _ => {
                let command = self.command(verb, rest, &words)?;
                let mut caller = self.caller.clone();
                caller.rights.operator |= verb == "limits";
                let request = Request { caller, namespace: self.namespace.clone(), command };
                match &mut self.batch {
                    Some(batch) => {
                        batch.push(request);
                        Ok(())
                    }
                    None => self.enter(vec![request]),
                }
            }
        }
    }

    fn command(&mut self, verb: &str, rest: &str, words: &Words<'_>) -> Parsed<Command> {
        Ok(match verb {
            "grant" | "claim" => Command::Grant(self.grant(words)?),
            "renew" => Command::Renew(Renew {
                leases: words.plain.iter().map(|id| words::lease(id)).collect::<Parsed<_>>()?,
                ttl: words.ttl()?,
            }),
            "release" => Command::Release(Release { lease: words::lease(words.first()?)? }),
            "revoke" => Command::Revoke(Revoke {
                lease: words::lease(words.first()?)?,
                reason: words.text("reason").unwrap_or("none").into(),
                now: words.has("now"),
            }),
            "more" => Command::Claim(Claim {
                lease: words::lease(words.first()?)?,
                once: words.once()?,
                asks: words.asks(&words.plain[1..])?,
            }),
            "unclaim" => self.unclaim(words)?,
            "leave" => self.leave(words)?,
            "ask" => Command::AskHandover(AskHandover {
                resource: words::resource(words.first()?)?,
                by: Holder::new(words.text("by").unwrap_or("bob")).map_err(|e| e.to_string())?,
                reason: words.text("reason").map(Into::into),
            }),
            "put" | "get" | "range" | "delete" => Command::Write(Write {
                session: session(words)?,
                then: vec![words::write_op(&format!("{verb} {rest}"))?],
                ..Write::default()
            }),
            "txn" => Command::Write(txn(rest)?),
            "anew" => Command::GrantAnew(self.grant(words)?),
            "mark" => Command::ClaimMarked(ClaimMarked {
                claim: Claim {
                    lease: words::lease(words.first()?)?,
                    once: words.once()?,
                    asks: words.asks(&words.plain[1..])?,
                },
                marker: Marker {
                    key: words::key(words.text("key").ok_or("a marker needs key=")?)?,
                    value: words.text("value").unwrap_or_default().as_bytes().into(),
                },
            }),
            "limits" | "configure" => Command::Configure(Box::new(words.limits(self.state.limits().clone())?)),
            _ => return Err("no such command".to_owned()),
        })
    }

    fn grant(&mut self, words: &Words<'_>) -> Parsed<Grant> {
        let id = match words.lease("id")? {
            Some(id) => id,
            None => {
                self.next_lease += 1;
                words::lease(&self.next_lease.to_string())?
            }
        };
        let text = |name: &str| words.text(name).map(|text| (name.to_owned(), text.to_owned()));
        Ok(Grant {
            id,
            holder: Holder::new(words.text("holder").unwrap_or("ann")).map_err(|e| e.to_string())?,
            ttl: words.ttl()?.unwrap_or(Ttl::For(Span::seconds(10))),
            class: if words.text("class") == Some("session") { Class::Session } else { Class::Lock },
            parent: words.lease("parent")?,
            metadata: Metadata::new(text("reason").into_iter().chain(text("link"))),
            asks: words.asks(&words.plain)?,
            seen: words.text("seen").map_or(Ok(self.state.now()), words::time)?,
        })
    }

    /// Without a token, the one the lease has.
    fn unclaim(&self, words: &Words<'_>) -> Parsed<Command> {
        let lease = words::lease(words.first()?)?;
        let resource = words::resource(words.plain.get(1).ok_or("unclaim names a lease and a resource")?)?;
        let token = match words.text("token") {
            Some(token) => words::token(token)?,
            None => {
                let view = self.state.lease(&self.namespace, lease).map_err(|e| e.to_string())?;
                view.held.iter().find(|held| held.resource == resource).ok_or("it does not hold that")?.token
            }
        };
        Ok(Command::Unclaim(Unclaim { lease, once: words.once()?, resource, token }))
    }

    /// Without a number, the first wait of the lease.
    fn leave(&self, words: &Words<'_>) -> Parsed<Command> {
        let lease = words::lease(words.first()?)?;
        let wait = match words.number("wait")? {
            Some(number) => Revision(number),
            None => {
                let view = self.state.lease(&self.namespace, lease).map_err(|e| e.to_string())?;
                view.waits.first().ok_or("it does not wait")?.wait
            }
        };
        Ok(Command::Leave(Leave { lease, wait }))
    }

    fn become_caller(&mut self, words: &Words<'_>) -> Parsed<()> {
        let name = words.first()?;
        self.caller = Caller {
            identity: (name != "nobody").then(|| Identity::new(name)).transpose().map_err(|e| e.to_string())?,
            rights: Rights { operator: words.has("operator"), endless: words.has("endless") },
        };
        Ok(())
    }

    /// Moves time as a healthy leader does.
    fn advance(&mut self, to: LeaseTime) -> Parsed<()> {
        while self.now < to || self.state.has_backlog() {
            let next = self.state.next_deadline().map_or(to, |at| at.after(Span(1)));
            self.now = next.min(self.state.now().after(Span(1000))).min(to).max(self.now);
            self.enter(Vec::new())?;
        }
        Ok(())
    }

    fn enter(&mut self, requests: Vec<Request>) -> Parsed<()> {
        self.apply(LEADER, LEADER, requests)
    }

    /// An empty entry that was stamped by one leader and appended by another.
    fn foreign_entry(&mut self, words: &Words<'_>) -> Parsed<()> {
        let leader = words.text("leader").map_or(Ok(LEADER), words::leader)?;
        let stamped_by = words.text("stamped-by").map_or(Ok(leader), words::leader)?;
        self.apply(leader, stamped_by, Vec::new())
    }

    fn apply(&mut self, appended_by: LeaderId, stamped_by: LeaderId, requests: Vec<Request>) -> Parsed<()> {
        // Wall time is for people and must not show anywhere else: here it runs backwards.
        let wall = WallTime(1_000_000_000_000 - self.now.0);
        let stamp = Stamp { leader: stamped_by, now: self.now, wall };
        let before = self.state.revision();
        let applied = self.state.apply(appended_by, stamp, requests);
        assert!(before <= applied.revision, "revisions never go back");
        self.tell(&applied);
        self.examine()
    }

    fn tell(&mut self, applied: &Applied) {
        let said_something = !applied.events.is_empty() || !applied.answers.is_empty();
        if said_something && applied.now != self.shown {
            self.shown = applied.now;
            self.say(&format!("[{}]", text::time(applied.now)));
        }
        if let Some(void) = applied.void {
            self.say(&format!("void: {void}"));
        }
        for event in &applied.events {
            self.say(&text::event(event, NAMESPACE));
        }
        for answer in &applied.answers {
            self.say(&text::answer(answer));
        }
    }

    /// Sweeps the invariants, and compares the state with its own copy by way of a snapshot.
    fn examine(&mut self) -> Parsed<()> {
        self.state.check_invariants()?;
        let records: Vec<Record> = self.state.view().records().collect();
        let copy = State::from_records(records.iter().cloned()).map_err(|error| error.to_string())?;
        let again: Vec<Record> = copy.view().records().collect();
        assert_eq!(records, again, "a snapshot of a restored state equals the one it was restored from");
        if self.restart_always {
            self.state = copy;
        }
        Ok(())
    }

    fn restart(&mut self) -> Parsed<()> {
        self.state = State::from_records(self.state.view().records()).map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Goes on from a backup taken just now.
    fn restore(&mut self, words: &Words<'_>) -> Parsed<()> {
        self.restart()?;
        let restore = Restore {
            revision: Revision(words.number("revision")?.ok_or("a restore names its revision")?),
            now: words::time(words.text("now").ok_or("a restore names its lease time")?)?,
            rest: words.text("rest").map_or(Ok(Span::ZERO), words::span)?,
        };
        self.state = std::mem::take(&mut self.state).restored(restore);
        self.now = self.state.now();
        let rests = self.state.rests().map_or("not at all".to_owned(), |rests| format!("for {rests}"));
        self.say(&format!("restored at revision {}, resources rest {rests}", self.state.revision()));
        self.examine()
    }

    fn check(&mut self, words: &Words<'_>) -> Parsed<()> {
        let resource = words::resource(words.first()?)?;
        let token = words::token(words.plain.get(1).ok_or("check names a resource and a token")?)?;
        let line = match self.state.check(&self.namespace, &resource, token) {
            Ok(checked) => format!("current: {} remaining={}", checked.holder, text::remaining(checked.remaining)),
            Err(rejection) => rejection.to_string(),
        };
        self.say(&line);
        Ok(())
    }

    fn show(&mut self, words: &Words<'_>) -> Parsed<()> {
        let name = words.plain.get(1).copied().unwrap_or_default();
        let lines: Vec<String> = match words.first()? {
            "lease" => match self.state.lease(&self.namespace, words::lease(name)?) {
                Ok(view) => vec![text::lease(&view)],
                Err(rejection) => vec![text::rejection(&rejection)],
            },
            "leases" => {
                let filter = LeaseFilter { limit: 100, ..LeaseFilter::default() };
                self.state.leases(&self.namespace, &filter).items.iter().map(text::lease).collect()
            }
            "resource" => match self.state.resource(&self.namespace, &words::resource(name)?) {
                Some(view) => vec![text::resource(&view)],
                None => vec![format!("{name} is not known")],
            },
            "resources" => {
                self.state.resources(&self.namespace, name, None, 100).items.iter().map(text::resource).collect()
            }
            "queue" => {
                self.state.queue(&self.namespace, &words::resource(name)?, 100).iter().map(text::waiter).collect()
            }
            "history" => self.state.history(&self.namespace, &words::resource(name)?).iter().map(text::past).collect(),
            "entries" => {
                let all = KeyRange::Prefix([].into());
                let (entries, count) = self.state.entries(&self.namespace, &all, 100);
                let shown = entries.iter().map(text::entry);
                shown.chain([format!("{count} in all")]).collect()
            }
            "time" => {
                let next = self.state.next_deadline().map_or("none".to_owned(), text::time);
                let backlog = if self.state.has_backlog() { " backlog" } else { "" };
                vec![format!("now={} next={next}{backlog}", text::time(self.state.now()))]
            }
            "counts" => {
                let counts = self.state.counts();
                vec![format!(
                    "leases={} resources={} entries={} tombstones={}",
                    counts.leases, counts.resources, counts.entries, counts.tombstones
                )]
            }
            other => return Err(format!("nothing to show is named {other}")),
        };
        if lines.is_empty() {
            self.say("nothing");
        }
        lines.iter().for_each(|line| self.say(line));
        Ok(())
    }

    fn say(&mut self, line: &str) {
        self.output.push_str(line);
        self.output.push('\n');
    }
}

fn session(words: &Words<'_>) -> Parsed<Option<(leasehold_core::LeaseId, leasehold_core::Once)>> {
    let Some(lease) = words.lease("session")? else { return Ok(None) };
    let once = words.once()?.ok_or("a session needs seq=")?;
    Ok(Some((lease, once)))
}

/// `txn [session=N seq=N acked=N] if COMPARE.. then STEP; STEP else STEP; STEP`, each part optional. A step may be a
/// write again, in brackets.
fn txn(text: &str) -> Parsed<Write> {
    let (head, otherwise) = split_once(text, " else ");
    let (head, then) = split_once(head, "then ");
    let (head, compares) = split_once(head, "if ");
    Ok(Write {
        session: session(&Words::new(head))?,
        compares: compares.split_whitespace().map(words::compare).collect::<Parsed<_>>()?,
        then: steps(then)?,
        otherwise: steps(otherwise)?,
    })
}

fn steps(text: &str) -> Parsed<Vec<WriteOp>> {
    let (mut steps, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (step, more) = split_once(rest, ";");
        let step = step.trim();
        match step.strip_prefix('[').and_then(|step| step.strip_suffix(']')) {
            Some(nested) => steps.push(WriteOp::Nested(Box::new(txn(nested)?))),
            None => steps.push(words::write_op(step)?),
        }
        rest = more.trim();
    }
    Ok(steps)
}

/// Splits at the first separator that is not within brackets; without one the second part is empty.
fn split_once<'a>(text: &'a str, separator: &str) -> (&'a str, &'a str) {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ if depth == 0 && text[at..].starts_with(separator) => {
                return (&text[..at], &text[at + separator.len()..]);
            }
            _ => {}
        }
    }
    (text, "")
}
