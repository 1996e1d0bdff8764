//! What the server tells about itself: messages on stderr.

use std::io::IsTerminal as _;

use tracing_subscriber::filter::ParseError;
use tracing_subscriber::{EnvFilter, reload};

use crate::config::{LogFormat, LogSection};

/// Returns the filter that a configured log level stands for.
pub(crate) fn filter(level: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::try_new(level)
}

/// Changes the log level of the running process.
pub(crate) struct LevelHandle(Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>);

impl LevelHandle {
    /// Puts another level in force.
    pub(crate) fn set(&self, filter: EnvFilter) -> Result<(), reload::Error> {
        (self.0)(filter)
    }
}

/// Starts logging to stderr.
pub(crate) fn init(section: &LogSection) -> LevelHandle {
    let filter = filter(&section.level).expect("the configuration was checked when it was loaded");
    let colours = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    // A second server in one process (in tests) keeps the first one's logging.
    match section.format {
        LogFormat::Text => {
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            let _ = builder.try_init();
            LevelHandle(Box::new(move |filter| handle.reload(filter)))
        }
        LogFormat::Json => {
            let builder = builder.json().with_filter_reloading();
            let handle = builder.reload_handle();
            let _ = builder.try_init();
            LevelHandle(Box::new(move |filter| handle.reload(filter)))
        }
    }
}
