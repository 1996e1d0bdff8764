//! The live line of a wait: on a terminal one line rewritten in place, elsewhere nothing.
//!
//! Whoever waits tells every news with [`WaitingLine::update`], lets times go on with [`WaitingLine::tick`] about once
//! a second, and ends with [`WaitingLine::finish`] or by dropping it, which leaves nothing behind on the screen. What
//! the line says is made in `render/waiting.rs`.

use std::io::{self, Stderr, Write};
use std::time::{Duration, Instant};

use leasehold_client::store::Progress;

use crate::render::waiting::line;

/// Forgets the line: back to its beginning, and nothing to the right.
const CLEAR: &str = "\r\x1b[K";
/// The width of a terminal that does not tell it.
const WIDTH: usize = 80;

/// What stays free at the right: a full line would go on in the next one, where it could not be taken back, and so
/// would the `^C` that a terminal puts behind it.
const SPARE: usize = 3;

/// A line that shows how far a wait is.
#[derive(Debug)]
pub(crate) struct WaitingLine<W: Write = Stderr> {
    /// None if nobody watches.
    out: Option<W>,
    width: fn(&W) -> usize,
    news: Option<(Progress, Option<Duration>, Instant)>,
    is_drawn: bool,
}

impl WaitingLine {
    /// A line on stderr; without a terminal there, nothing is ever written.
    pub(crate) fn new(is_watched: bool) -> WaitingLine {
        WaitingLine { out: is_watched.then(io::stderr), width: columns, news: None, is_drawn: false }
    }
}

impl<W: Write> WaitingLine<W> {
    /// Shows how far the wait is now.
    pub(crate) fn update(&mut self, progress: &Progress) {
        self.news(progress, None);
    }

    /// The same, of a resource that nobody holds and that rests for so long.
    pub(crate) fn update_resting(&mut self, progress: &Progress, rests: Duration) {
        self.news(progress, Some(rests));
    }

    fn news(&mut self, progress: &Progress, rests: Option<Duration>) {
        self.news = Some((progress.clone(), rests, Instant::now()));
        self.draw();
    }

    /// Lets the times in the line go on.
    pub(crate) fn tick(&mut self) {
        self.draw();
    }

    /// Takes the line away: before a message, and at the end. The next update brings it back.
    pub(crate) fn finish(&mut self) {
        self.news = None;
        if let (Some(out), true) = (&mut self.out, std::mem::take(&mut self.is_drawn)) {
            let _ = out.write_all(CLEAR.as_bytes()).and_then(|()| out.flush());
        }
    }

    fn draw(&mut self) {
        let (Some(out), Some((progress, rests, at))) = (&mut self.out, &self.news) else { return };
        let text = cut(&line(progress, *rests, at.elapsed()), (self.width)(out).saturating_sub(SPARE));
        self.is_drawn = true;
        let _ = write!(out, "{CLEAR}{text}").and_then(|()| out.flush());
    }
}

impl<W: Write> Drop for WaitingLine<W> {
    fn drop(&mut self) {
        self.finish();
    }
}

fn columns(out: &Stderr) -> usize {
    match rustix::termios::tcgetwinsize(out) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        Ok(_) | Err(_) => WIDTH,
    }
}

/// The beginning of the text, with a sign that there is more.
fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(position: u32) -> Progress {
        Progress { resource: "nightly".into(), place: Some((position, 2)), holder: None, estimate: None }
    }

    fn written(is_watched: bool, width: fn(&Vec<u8>) -> usize, act: impl FnOnce(&mut WaitingLine<Vec<u8>>)) -> String {
        let mut line = WaitingLine { out: is_watched.then(Vec::new), width, news: None, is_drawn: false };
        act(&mut line);
        line.finish();
        String::from_utf8(line.out.take().unwrap_or_default()).unwrap()
    }

    #[test]
    fn each_news_takes_the_place_of_the_one_before_and_nothing_is_left() {
        let text = written(
            true,
            |_| 80,
            |line| {
                line.tick();
                line.update(&progress(2));
                line.update(&progress(1));
            },
        );
        let (two, one) = ("lease: waiting for nightly  position 2 of 2", "lease: waiting for nightly  position 1 of 2");
        assert_eq!(text, format!("{CLEAR}{two}{CLEAR}{one}{CLEAR}"));
    }

    #[test]
    fn a_long_line_is_cut_to_the_terminal() {
        let text = written(true, |_| 20, |line| line.update(&progress(1)));
        assert_eq!(text, format!("{CLEAR}lease: waiting f…{CLEAR}"));
    }

    #[test]
    fn nobody_watching_means_nothing_written() {
        assert_eq!(written(false, |_| 80, |line| line.update(&progress(1))), "");
        assert_eq!(written(true, |_| 80, |_| {}), "", "a wait that never was has no line to clear");
    }
}
