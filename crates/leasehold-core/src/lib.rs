//! The lease state machine: pure, deterministic, without clock, IO or randomness.

mod command;
mod event;
mod ids;
mod limits;
mod outcome;
mod record;
mod state;
mod time;
mod view;

pub use command::*;
pub use event::*;
pub use ids::*;
pub use limits::*;
pub use outcome::*;
pub use record::*;
pub use state::*;
pub use time::*;
pub use view::*;
