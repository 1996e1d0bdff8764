//! The leases of one connection, and what of them is told when.
//!
//! A lease is attached when a command that may make it the client's own is on its way. What happens to it meanwhile is
//! held back until an answer says that the client has it, and forgotten if none does.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use leasehold_core::{EndCause, Revision};

use crate::attached::Place;
use crate::batch::Notice;

/// How many notices of one lease are held back.
const HELD_MAX: usize = 16;

/// What a command means for the leases of its connection.
#[derive(Debug)]
pub(crate) enum Role {
    /// Nothing.
    Plain,
    /// The lease belongs to the connection once it is answered well.
    Holds(Place),
    /// The lease's end is no news.
    Releases(Place),
}

/// A lease of the connection.
#[derive(Debug, Default)]
struct Attachment {
    /// An answer said that the connection's client has it.
    known: bool,
    /// Commands on their way that may make it known.
    asked: u32,
    /// Releases on their way.
    releasing: u32,
    /// What happened, until it is known.
    held: Vec<Notice>,
    /// It is over.
    over: bool,
}

/// The leases of one connection.
#[derive(Debug, Default)]
pub(crate) struct Attachments(HashMap<Place, Attachment>);

impl Attachments {
    pub(crate) fn contains(&self, place: &Place) -> bool {
        self.0.contains_key(place)
    }

    /// Takes all leases out.
    pub(crate) fn drain(&mut self) -> Vec<Place> {
        self.0.drain().map(|(place, _)| place).collect()
    }

    /// Notes what a command means for a lease; gives a place that was not attached before.
    pub(crate) fn begin(&mut self, role: &Role) -> Option<Place> {
        match role {
            Role::Plain => None,
            Role::Holds(place) => {
                let attachment = self.0.entry(place.clone());
                let newly = matches!(attachment, Entry::Vacant(_));
                attachment.or_default().asked += 1;
                newly.then(|| place.clone())
            }
            Role::Releases(place) => {
                if let Some(attachment) = self.0.get_mut(place) {
                    attachment.releasing += 1;
                }
                None
            }
        }
    }

    /// Notes what the answer to a command means for a lease: a place to detach, and what can be told now.
    pub(crate) fn settle(&mut self, role: Role, well: bool) -> (Option<Place>, Vec<Notice>) {
        let place = match role {
            Role::Plain => return (None, Vec::new()),
            Role::Releases(place) => {
                if let Some(attachment) = self.0.get_mut(&place) {
                    attachment.releasing = attachment.releasing.saturating_sub(1);
                }
                return (None, Vec::new());
            }
            Role::Holds(place) => place,
        };
        let Some(attachment) = self.0.get_mut(&place) else { return (None, Vec::new()) };
        attachment.asked = attachment.asked.saturating_sub(1);
        attachment.known |= well;
        let told = if attachment.known { std::mem::take(&mut attachment.held) } else { Vec::new() };
        let gone = if attachment.known { attachment.over } else { attachment.asked == 0 };
        if gone {
            self.0.remove(&place);
        }
        (gone.then_some(place), told)
    }

    /// A lease ended: what can be told now.
    pub(crate) fn ended(&mut self, place: Place, cause: EndCause, revision: Revision) -> Option<Notice> {
        let Entry::Occupied(mut attached) = self.0.entry(place) else { return None };
        let silent = attached.get().releasing > 0 && cause == EndCause::Released;
        if silent || attached.get().known {
            let (Place { lease, namespace }, _) = attached.remove_entry();
            return (!silent).then_some(Notice::Ended { namespace, lease, cause, revision });
        }
        let Place { lease, namespace } = attached.key().clone();
        let attachment = attached.get_mut();
        attachment.over = true;
        // What was asked of it does not matter any more.
        attachment.held = vec![Notice::Ended { namespace, lease, cause, revision }];
        None
    }

    /// Something was asked of a lease: what can be told now.
    pub(crate) fn asked(&mut self, place: &Place, notice: Notice) -> Option<Notice> {
        let attachment = self.0.get_mut(place)?;
        if attachment.known {
            return Some(notice);
        }
        if attachment.held.len() < HELD_MAX {
            attachment.held.push(notice);
        }
        None
    }
}
