//! Entries as they were: the present ones, with what the recent events changed taken back.
//!
//! Events tell what they replaced, so the ring leads back as far as it reaches: bounded, and the same on every node.
//! Beyond that the past is gone. How far back a look goes is what it costs.

use std::collections::BTreeMap;

use leasehold_core::{Caller, EntryView, Event, Fact, Former, Key, KeyRange, Namespace, Previous, Revision, State};

use crate::replica::Replica;
use crate::ring::Change;
use crate::{Answered, Consistency, Failure, Service};

impl Service {
    /// The entries of a range as they were at a revision, by key.
    pub async fn entries_at(
        &self,
        caller: &Caller,
        namespace: &Namespace,
        consistency: Consistency,
        range: &KeyRange,
        revision: Revision,
    ) -> Result<Answered<Vec<EntryView>>, Failure> {
        // The look of a read is at the state alone; whoever asks is checked and proved there.
        let present = self.read(caller, namespace, consistency, State::revision).await?;
        if revision > present.revision {
            return Err(Failure::FutureRevision { given: revision, present: present.revision });
        }
        let value = self.replica().entries_at(namespace, range, revision)?;
        let (now, revision) = (present.now, present.revision);
        Ok(Answered { value, now, revision, age: present.age })
    }

    /// The oldest revision after which all events are known here.
    pub fn history_floor(&self) -> Revision {
        self.replica().floor()
    }
}

impl Replica {
    fn entries_at(
        &self,
        namespace: &Namespace,
        range: &KeyRange,
        revision: Revision,
    ) -> Result<Vec<EntryView>, Failure> {
        self.look_back(revision, |state, changes| {
            let (present, _) = state.entries(namespace, range, usize::MAX);
            let mut entries: BTreeMap<Key, EntryView> =
                present.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
            for change in changes {
                let here = |event: &&Event| event.namespace == *namespace;
                for event in change.events.iter().rev().filter(here) {
                    take_back(&mut entries, &event.fact, range).ok_or(change.revision)?;
                }
            }
            Ok(entries.into_values().collect())
        })
        .map_err(|oldest| Failure::Compacted { oldest })
    }
}

/// Takes one fact back; none if it does not tell what was before.
fn take_back(entries: &mut BTreeMap<Key, EntryView>, fact: &Fact, range: &KeyRange) -> Option<()> {
    match fact {
        Fact::EntryPut { key, version, previous, .. } if range.contains(key) => match previous {
            Previous(Some(former)) => drop(entries.insert(key.clone(), view(key, former))),
            Previous(None) if *version == 1 => drop(entries.remove(key)),
            Previous(None) => return None,
        },
        Fact::EntryDeleted { key, previous, .. } if range.contains(key) => {
            entries.insert(key.clone(), view(key, previous.0.as_ref()?));
        }
        Fact::EntryPut { .. }
        | Fact::EntryDeleted { .. }
        | Fact::LeaseGranted { .. }
        | Fact::LeaseEnded { .. }
        | Fact::ClaimGranted { .. }
        | Fact::ClaimEnded { .. }
        | Fact::Queued { .. }
        | Fact::Unqueued { .. }
        | Fact::HandoverAsked { .. } => {}
    }
    Some(())
}

/// A former entry with its key.
fn view(key: &Key, former: &Former) -> EntryView {
    let Former { value, version, created, modified, lease } = former.clone();
    EntryView { key: key.clone(), value, version, created, modified, lease }
}

/// The changes of one revision or more that lead back to an earlier one, the newest first.
pub(crate) type Back<'a> = Box<dyn Iterator<Item = &'a Change> + 'a>;
