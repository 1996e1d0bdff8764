//! What the server tells about itself: messages on stderr.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::config::{LogFormat, LogSection};

/// Returns the filter that a configured log level stands for.
pub(crate) fn filter(level: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::try_new(level)
}

/// Starts logging to stderr.
pub(crate) fn init(section: &LogSection) {
    let filter = filter(&section.level).expect("the configuration was checked when it was loaded");
    let colours = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    // A second server in one process (in tests) keeps the first one's logging.
    let _ = match section.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}
