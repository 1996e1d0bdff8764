//! The lease state machine: pure, deterministic, without clock, IO or randomness.
//!
//! | word | what it is |
//! |---|---|
//! | lease | a time-bound promise to a holder; the unit of life: granted, renewed, and ended once |
//! | claim | what a lease asks of a resource: exclusive or shared, held or waiting |
//! | token | the fencing number of a held claim: the revision of its grant |
//! | entry | a key with a value, versioned, bound to a lease or not |
//! | marker | an entry that stands for a claim: both come and go together |
//! | revision | the counter of visible changes |
//!
//! [`State::apply`] is the only road by which anything changes: it takes a [`Stamp`] and commands and gives
//! answers and [`Event`]s. Time is in the stamp: it moves when an entry is applied, and never otherwise. Queries
//! look at a state and change nothing. [`State::view`] freezes it for a snapshot.

mod claim;
mod command;
mod deadlines;
mod entry;
mod event;
mod fingerprint;
mod grant;
mod hand_on;
mod handover;
mod ids;
mod invariants;
mod lease;
mod life;
mod limits;
mod marker;
mod namespaces;
mod ordered;
mod outcome;
pub mod planted;
mod query;
mod queue;
mod record;
mod rejection;
mod resource;
mod restore;
mod shared;
mod snapshot;
mod state;
mod table;
mod time;
mod tombstones;
mod view;
mod write;

pub use command::*;
pub use event::*;
pub use ids::*;
pub use limits::*;
pub use outcome::*;
pub use query::{Counts, LeaseFilter};
pub use record::*;
pub use rejection::*;
pub use restore::Restore;
pub use snapshot::{Inconsistent, Loader, View};
pub use state::{AHEAD_MAX, State};
pub use time::*;
pub use view::*;

use resource::ResourceKey;
