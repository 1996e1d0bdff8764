//! The clocks of the server: the machine's, and in debug builds faster or slower ones for tests.
//!
//! `LEASE_TEST_CLOCK_RATE=1.02` makes a debug build believe that time runs 2 % faster than it does. A release build
//! refuses the variable instead of running by it.

use leasehold_service::{Clocks, MachineClocks, Reading};

use crate::ConfigError;

/// The variable that sets the rate.
pub(crate) const RATE: &str = "LEASE_TEST_CLOCK_RATE";

/// The clocks of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerClocks {
    #[cfg(debug_assertions)]
    rate: f64,
}

impl ServerClocks {
    /// The clocks that the environment asks for.
    pub(crate) fn from_environment() -> Result<ServerClocks, ConfigError> {
        let rate = test_clock_rate(std::env::var(RATE).ok().as_deref())?;
        Ok(ServerClocks::at(rate))
    }

    #[cfg(debug_assertions)]
    fn at(rate: f64) -> ServerClocks {
        ServerClocks { rate }
    }

    #[cfg(not(debug_assertions))]
    fn at(_: f64) -> ServerClocks {
        ServerClocks {}
    }
}

impl Clocks for ServerClocks {
    #[cfg(debug_assertions)]
    fn read(&self) -> Reading {
        let Reading { monotonic, raw } = MachineClocks.read();
        Reading { monotonic: monotonic.mul_f64(self.rate), raw: raw.mul_f64(self.rate) }
    }

    #[cfg(not(debug_assertions))]
    fn read(&self) -> Reading {
        MachineClocks.read()
    }
}

/// Checks what `LEASE_TEST_CLOCK_RATE` says: a rate, in a debug build.
pub fn test_clock_rate(said: Option<&str>) -> Result<f64, ConfigError> {
    let Some(text) = said.filter(|text| !text.is_empty()) else { return Ok(1.0) };
    if !cfg!(debug_assertions) {
        return Err(ConfigError::TestClock { given: text.to_owned(), why: "this is no test build; unset it" });
    }
    match text.parse::<f64>() {
        Ok(rate) if (0.5..=2.0).contains(&rate) => Ok(rate),
        Ok(_) | Err(_) => {
            Err(ConfigError::TestClock { given: text.to_owned(), why: "give a rate between 0.5 and 2, like 1.02" })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_rate_is_a_number_near_one() {
        assert_eq!(test_clock_rate(None).unwrap(), 1.0);
        assert_eq!(test_clock_rate(Some("0.98")).unwrap(), 0.98);
        for bad in ["fast", "0", "-1", "NaN", "7"] {
            let complaint = test_clock_rate(Some(bad)).unwrap_err().to_string();
            assert!(complaint.starts_with(&format!("LEASE_TEST_CLOCK_RATE is `{bad}`")), "{complaint}");
        }
    }

    #[test]
    fn a_fast_clock_is_ahead_in_proportion() {
        let fast = ServerClocks::at(2.0);
        let before = MachineClocks.read().monotonic;
        let read = fast.read().monotonic;
        let after = MachineClocks.read().monotonic;
        assert!(read >= before * 2 && read <= after * 2 + Duration::from_micros(1));
    }
}
