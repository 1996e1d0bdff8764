//! Data on stdout and messages on stderr.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use clap::ValueEnum;
use serde::Serialize;

/// How data is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Text for people
    #[default]
    Human,
    /// One JSON document, with the fields of the HTTP API
    Json,
    /// One JSON document per line and item
    Jsonl,
    /// Names or ids only, one per line
    Name,
}

/// Writes lines of data.
pub(crate) fn lines(text: impl Display) -> io::Result<()> {
    let mut text = text.to_string();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    bytes(text.as_bytes())
}

/// Writes data as it is.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Writes one document over several lines.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    lines(serde_json::to_string_pretty(value)?)
}

/// Writes one document on one line.
pub(crate) fn json_line(value: &impl Serialize) -> io::Result<()> {
    lines(serde_json::to_string(value)?)
}

/// Writes a message; if nobody can read it, nothing is lost.
pub(crate) fn message(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Shows how far something is, in one line that the next one replaces; empty to end it.
pub(crate) fn progress(text: impl Display) {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "\r\x1b[K{text}");
    let _ = stderr.flush();
}

/// Whether a person reads the messages.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Whether a person reads the data.
pub(crate) fn is_shown() -> bool {
    io::stdout().is_terminal()
}

/// The text in red, where messages may have colours.
pub(crate) fn red(text: &str) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if is_watched() && !plain { format!("\x1b[31m{text}\x1b[0m") } else { text.to_owned() }
}
