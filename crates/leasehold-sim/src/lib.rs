//! What clients saw and what was promised to them.
//!
//! A [`history`] is written down while something runs, whatever it is: real processes or a simulated cluster. Afterwards
//! the [`checkers`], one promise each, say what in it contradicts the promises. Neither knows how the facts came
//! about: no server code, no clock, no network.

pub mod checkers;
pub mod history;
