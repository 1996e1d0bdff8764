//! What the server tells about itself: messages on stderr.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogSection};

/// Begins to log. Directives that are not understood fall back to warnings, which is said.
pub(crate) fn init(section: &LogSection) {
    let filter = EnvFilter::try_new(&section.level).unwrap_or_else(|error| {
        eprintln!("warning: the log level `{}` is not understood ({error}); logging warnings", section.level);
        EnvFilter::new("warn")
    });
    let colours = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    // A second server in one process (in tests) keeps the first one's logging.
    let _ = match section.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}
