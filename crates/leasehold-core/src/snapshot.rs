//! A state to plain records and back.
//!
//! A [`View`] is a frozen state: it shares its rows with the living one, so taking it costs well under a
//! millisecond, and it can be read out on another thread while commands go on.

use crate::deadlines::Due;
use crate::entry::{Entry, EntryKey};
use crate::lease::{Lease, More, Terms, claim_size};
use crate::marker::Marked;
use crate::namespaces::Namespaces;
use crate::ordered::OrderedSet;
use crate::planted::{self, Bug};
use crate::resource::{Holders, Resource, ResourceKey};
use crate::table::Table;
use crate::tombstones::Tombstone;
use crate::{
    EntryRecord, HeadRecord, LeaseKey, LeaseRecord, LeaseTime, MarkerRecord, Mode, Namespace, NamespaceRecord, Record,
    ResourceRecord, RestRecord, Revision, State, TombstoneRecord,
};

/// A frozen state.
#[derive(Debug)]
pub struct View {
    head: HeadRecord,
    rests_until: LeaseTime,
    namespaces: Namespaces,
    leases: Table<LeaseKey, Lease>,
    resources: Table<ResourceKey, Resource>,
    entries: Table<EntryKey, Entry>,
    markers: Table<EntryKey, Marked>,
    tombstones: Table<LeaseKey, Tombstone>,
}

/// Records that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the records of the snapshot do not fit together: {0}")]
pub struct Inconsistent(&'static str);

impl State {
    /// Freezes the present state.
    pub fn view(&self) -> View {
        View {
            head: HeadRecord {
                now: self.now,
                wall: self.wall,
                revision: self.revision,
                taken_over: self.taken_over,
                grace: self.grace,
                horizon: self.tombstones.horizon,
                longest_ttl: self.longest_ttl,
                next_namespace: self.namespaces.next,
                limits: self.limits.clone(),
            },
            rests_until: self.rests_until,
            namespaces: self.namespaces.clone(),
            leases: self.leases.clone(),
            resources: self.resources.clone(),
            entries: self.entries.clone(),
            markers: self.markers.clone(),
            tombstones: self.tombstones.rows.clone(),
        }
    }

    /// Puts a state together from its records, in the order of [`View::records`].
    pub fn from_records(records: impl IntoIterator<Item = Record>) -> Result<State, Inconsistent> {
        let mut loader = State::loader();
        records.into_iter().try_for_each(|record| loader.load(record))?;
        loader.finish()
    }

    /// Begins to put a state together from records, one at a time.
    pub fn loader() -> Loader {
        Loader { state: State::new(), parents: Vec::new(), markers: Vec::new(), claims: 0 }
    }

    fn load(&mut self, record: Record, parents: &mut Vec<(LeaseKey, LeaseKey)>) -> Result<(), Inconsistent> {
        match record {
            Record::Head(head) => {
                self.load_head(*head);
                Ok(())
            }
            Record::Namespace(NamespaceRecord { id, name }) => {
                self.namespaces.insert(id, name);
                Ok(())
            }
            Record::Resource(record) => self.load_resource(*record),
            Record::Lease(record) => self.load_lease(*record, parents),
            Record::Entry(record) => self.load_entry(record),
            Record::Marker(_) => unreachable!("markers are kept until everything else is there"),
            Record::Tombstone(record) => self.load_tombstone(*record),
            Record::Rest(RestRecord { until }) => self.load_rest(until),
        }
    }

    fn load_head(&mut self, head: HeadRecord) {
        self.now = head.now;
        self.wall = head.wall;
        self.revision = head.revision;
        self.taken_over = head.taken_over;
        self.grace = head.grace;
        self.tombstones.horizon = head.horizon;
        self.longest_ttl = head.longest_ttl;
        self.namespaces.next = head.next_namespace;
        self.limits = head.limits;
    }

    fn load_rest(&mut self, until: LeaseTime) -> Result<(), Inconsistent> {
        if until == LeaseTime::ZERO {
            return Err(Inconsistent("a rest has no end"));
        }
        self.rests_until = until;
        self.deadlines.add(until, Due::AllRest);
        Ok(())
    }

    fn check_namespace(&self, id: crate::NamespaceId) -> Result<(), Inconsistent> {
        if self.namespaces.contains(id) { Ok(()) } else { Err(Inconsistent("something is in an unknown namespace")) }
    }

    fn load_resource(&mut self, record: ResourceRecord) -> Result<(), Inconsistent> {
        self.check_namespace(record.namespace)?;
        let key = (record.namespace, record.name);
        if record.rests_until > LeaseTime::ZERO {
            self.deadlines.add(record.rests_until, Due::Rest(key.clone()));
        }
        if record.idle_since > Revision(0) {
            self.idle.insert((record.idle_since, key.clone()));
        }
        self.namespaces.usage_mut(key.0).resources += 1;
        let mut holders = Holders::default();
        for lease in record.holders {
            if record.mode == Mode::Exclusive && holders != Holders::None {
                return Err(Inconsistent("two leases hold a resource exclusively"));
            }
            holders.add(lease, record.mode);
        }
        let row = Resource {
            holders,
            last_token: record.last_token,
            rests_until: record.rests_until,
            usual_hold: record.usual_hold,
            idle_since: record.idle_since,
            history: record.history,
            ..Resource::default()
        };
        self.resources.insert(key, row);
        Ok(())
    }

    fn load_lease(&mut self, record: LeaseRecord, parents: &mut Vec<(LeaseKey, LeaseKey)>) -> Result<(), Inconsistent> {
        self.check_namespace(record.namespace)?;
        let key = LeaseKey { namespace: record.namespace, id: record.id };
        if let Some(id) = record.parent {
            parents.push((key, LeaseKey { id, ..key }));
        }
        let held: u64 = record.held.iter().map(|claim| claim_size(&claim.resource)).sum();
        self.bytes += held;
        let more = (record.seq > 0).then(|| {
            Box::new(More { seq: record.seq, receipts: record.receipts.into_iter().collect(), ..More::default() })
        });
        let terms = Terms {
            holder: self.holders.share(record.holder),
            identity: record.identity,
            ttl: record.ttl,
            class: record.class,
            metadata: record.metadata,
            fingerprint: record.fingerprint,
        };
        // Its parent is tied, and the indices are filled, once all leases are there.
        let mut lease = Lease::granted(terms, record.granted, record.granted_wall, record.granted_at);
        lease.deadline = record.deadline;
        lease.renewed = record.renewed;
        lease.changed = record.changed;
        lease.weight += record.held.len() as u32;
        lease.held = record.held;
        lease.more = more;
        self.insert_lease(key, lease);
        for wait in record.waits {
            self.load_wait(key, wait)?;
        }
        Ok(())
    }

    /// Fills the indices of all leases at once, which is much faster than one by one.
    fn index_leases(&mut self) {
        let rows = || self.leases.iter();
        self.deadlines.set_leases(rows().map(|(key, lease)| (lease.deadline, *key)).collect());
        self.by_grant = OrderedSet::of(rows().map(|(key, lease)| (key.namespace, lease.granted_at, key.id)).collect());
    }

    fn load_wait(&mut self, key: LeaseKey, wait: crate::Wait) -> Result<(), Inconsistent> {
        for ask in &wait.asks {
            let resource = (key.namespace, ask.resource.clone());
            if !self.resources.contains(&resource) {
                return Err(Inconsistent("a lease waits for an unknown resource"));
            }
            self.join_queue(&resource, &wait, key, ask);
        }
        self.insert_wait(key, wait);
        Ok(())
    }

    fn load_parent(&mut self, child: LeaseKey, parent: LeaseKey) -> Result<(), Inconsistent> {
        if !self.leases.contains(&parent) {
            return Err(Inconsistent("a lease depends on an unknown one"));
        }
        let row = self.leases.get_mut(&child).expect("it was loaded");
        row.more_mut().parent = Some(parent.id);
        let weight = row.weight;
        self.leases.get_mut(&parent).expect("it was just found").more_mut().children.insert(child.id);
        if self.ancestors(child).take(256).any(|ancestor| ancestor == child) {
            return Err(Inconsistent("a lease depends on itself"));
        }
        self.add_weight(parent, i64::from(weight));
        Ok(())
    }

    fn load_entry(&mut self, record: EntryRecord) -> Result<(), Inconsistent> {
        self.check_namespace(record.namespace)?;
        let bound = record.lease.map(|id| LeaseKey { namespace: record.namespace, id });
        if bound.is_some_and(|lease| !self.leases.contains(&lease)) {
            return Err(Inconsistent("an entry is bound to an unknown lease"));
        }
        let changed = bound.and_then(|lease| self.leases.get(&lease)).map(|lease| lease.changed);
        let entry = Entry {
            value: record.value,
            version: record.version,
            created: record.created,
            modified: record.modified,
            lease: record.lease,
        };
        self.insert_entry((record.namespace, record.key), entry);
        if let (Some(lease), Some(changed)) = (bound, changed) {
            self.leases.get_mut(&lease).expect("it was just found").changed = changed;
        }
        Ok(())
    }

    fn load_marker(&mut self, record: MarkerRecord) -> Result<(), Inconsistent> {
        let MarkerRecord { namespace, key, lease, resource } = record;
        let owner = LeaseKey { namespace, id: lease };
        let held = self.leases.get(&owner).is_some_and(|row| row.held_claim(&resource).is_some());
        if !held && self.wait_for(owner, &resource).is_none() {
            return Err(Inconsistent("an entry stands for an unknown claim"));
        }
        let key = (namespace, key);
        if !self.entries.contains(&key) {
            return Err(Inconsistent("a claim has a marker that is not there"));
        }
        self.insert_marker(key, Marked { lease, resource });
        Ok(())
    }

    fn load_tombstone(&mut self, record: TombstoneRecord) -> Result<(), Inconsistent> {
        self.check_namespace(record.namespace)?;
        self.namespaces.usage_mut(record.namespace).tombstones += 1;
        let tombstone = Tombstone {
            holder: record.holder,
            identity: record.identity,
            ended: record.ended,
            ended_wall: record.ended_wall,
            revision: record.revision,
            cause: record.cause,
        };
        self.tombstones.add(LeaseKey { namespace: record.namespace, id: record.id }, tombstone);
        Ok(())
    }
}

/// A state on its way in. Kinds of records come in the order of [`View::records`].
#[derive(Debug)]
pub struct Loader {
    state: State,
    /// Children and their parents, tied once all leases are there.
    parents: Vec<(LeaseKey, LeaseKey)>,
    /// Tied once all claims and entries are there.
    markers: Vec<MarkerRecord>,
    /// Claims as their leases tell them, less those that their resources tell.
    claims: i64,
}

impl Loader {
    /// Takes one record.
    pub fn load(&mut self, record: Record) -> Result<(), Inconsistent> {
        if let Record::Marker(marker) = record {
            self.markers.push(marker);
            return Ok(());
        }
        match &record {
            Record::Lease(lease) => self.claims += lease.held.len() as i64,
            Record::Resource(resource) => self.claims -= resource.holders.len() as i64,
            Record::Head(_)
            | Record::Namespace(_)
            | Record::Entry(_)
            | Record::Marker(_)
            | Record::Tombstone(_)
            | Record::Rest(_) => {}
        }
        self.state.load(record, &mut self.parents)
    }

    /// Gives the whole state.
    pub fn finish(mut self) -> Result<State, Inconsistent> {
        if self.claims != 0 {
            return Err(Inconsistent("leases and resources do not agree on who holds what"));
        }
        for (child, parent) in self.parents {
            self.state.load_parent(child, parent)?;
        }
        for marker in self.markers {
            self.state.load_marker(marker)?;
        }
        self.state.index_leases();
        Ok(self.state)
    }
}

impl View {
    /// The revision of the frozen state.
    pub fn revision(&self) -> Revision {
        self.head.revision
    }

    /// Lease time of the frozen state.
    pub fn now(&self) -> LeaseTime {
        self.head.now
    }

    /// The entries of a namespace, by key.
    pub fn entries(&self, namespace: &Namespace) -> impl Iterator<Item = EntryRecord> + '_ {
        let number = self.namespaces.iter().find(|(_, usage)| usage.name == *namespace).map(|(id, _)| id);
        self.entries
            .iter()
            .skip_while(move |((id, _), _)| number.is_some_and(|number| *id < number))
            .take_while(move |((id, _), _)| Some(*id) == number)
            .map(|(key, entry)| entry_record(key, entry))
    }

    /// The state record by record: the head, the rest of all resources if there is one, markers, namespaces,
    /// resources, leases, entries, tombstones, each by key.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let head = std::iter::once(Record::Head(Box::new(self.head.clone())));
        let rest = Some(RestRecord { until: self.rests_until }).filter(|rest| rest.until > LeaseTime::ZERO);
        let head = head.chain(rest.map(Record::Rest));
        let namespaces = self
            .namespaces
            .iter()
            .map(|(id, usage)| Record::Namespace(NamespaceRecord { id, name: usage.name.clone() }));
        let resources = self.resources.iter().map(|(key, row)| Record::Resource(Box::new(resource_record(key, row))));
        let leases = self.leases.iter().map(|(key, lease)| Record::Lease(Box::new(lease_record(*key, lease))));
        let entries = self.entries.iter().map(|(key, entry)| Record::Entry(entry_record(key, entry)));
        let markers = self.markers.iter().map(|(key, marked)| Record::Marker(marker_record(key, marked)));
        let tombstones =
            self.tombstones.iter().map(|(key, row)| Record::Tombstone(Box::new(tombstone_record(*key, row))));
        head.chain(markers).chain(namespaces).chain(resources).chain(leases).chain(entries).chain(tombstones)
    }
}

fn resource_record((namespace, name): &ResourceKey, row: &Resource) -> ResourceRecord {
    ResourceRecord {
        namespace: *namespace,
        name: name.clone(),
        mode: row.holders.mode(),
        holders: row.holders.iter().collect(),
        last_token: row.last_token,
        rests_until: row.rests_until,
        usual_hold: row.usual_hold,
        idle_since: row.idle_since,
        history: row.history.clone(),
    }
}

fn lease_record(key: LeaseKey, lease: &Lease) -> LeaseRecord {
    let more = lease.more.as_deref();
    LeaseRecord {
        namespace: key.namespace,
        id: key.id,
        holder: lease.holder.clone(),
        identity: lease.identity.clone(),
        ttl: lease.ttl(),
        deadline: lease.deadline,
        granted: lease.granted,
        granted_wall: lease.granted_wall,
        granted_at: lease.granted_at,
        renewed: lease.renewed,
        class: lease.class,
        parent: lease.parent(),
        metadata: lease.metadata.clone(),
        fingerprint: lease.fingerprint,
        changed: lease.changed,
        held: lease.held.clone(),
        waits: if planted::is(Bug::SnapshotForgetsWaiters) { Vec::new() } else { lease.waits().to_vec() },
        seq: more.map_or(0, |more| more.seq),
        receipts: more.map(|more| more.receipts.iter().cloned().collect()).unwrap_or_default(),
    }
}

fn entry_record((namespace, key): &EntryKey, entry: &Entry) -> EntryRecord {
    EntryRecord {
        namespace: *namespace,
        key: key.clone(),
        value: entry.value.clone(),
        version: entry.version,
        created: entry.created,
        modified: entry.modified,
        lease: entry.lease,
    }
}

fn marker_record((namespace, key): &EntryKey, marked: &Marked) -> MarkerRecord {
    let Marked { lease, resource } = marked.clone();
    MarkerRecord { namespace: *namespace, key: key.clone(), lease, resource }
}

fn tombstone_record(key: LeaseKey, row: &Tombstone) -> TombstoneRecord {
    TombstoneRecord {
        namespace: key.namespace,
        id: key.id,
        holder: row.holder.clone(),
        identity: row.identity.clone(),
        ended: row.ended,
        ended_wall: row.ended_wall,
        revision: row.revision,
        cause: row.cause.clone(),
    }
}
