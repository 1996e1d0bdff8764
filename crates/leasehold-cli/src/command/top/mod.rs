//! `lease top`: who holds what, who waits and what happens, on a screen that keeps itself up to date.
//!
//! `feed.rs` asks the server, `model.rs` knows what is shown and what keys do, `draw.rs` makes a picture of it. Only
//! this file knows the terminal. The picture of `--once` is the same one, drawn into memory.

mod draw;
mod feed;
mod model;
mod rows;

use std::io;

use clap::Args;
use leasehold_server::Source;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::sync::{mpsc, watch};

use self::draw::Palette;
use self::feed::Feed;
use self::model::{Model, Wish};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::signals::Signals;

/// How wide the picture of `--once` is unless asked otherwise, and the highest it becomes by itself.
const ONCE_WIDTH: u16 = 100;
const ONCE_HEIGHT_MAX: u16 = 400;

/// Watch leases, queues and events on a live screen.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease top
  lease top orders/            only resources and keys that begin so
  lease top --once             one picture as text, for scripts

Leases that nobody renews come first. The bar is the part of the ttl that is left: green above a half, yellow \
below, red below a quarter. Keys: q quit, j k or arrows select, d describe, / filter, p pause, ? help. \
NO_COLOR is respected.")]
pub(crate) struct Top {
    /// Only resources and keys whose names begin so
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// Print one picture as text and end
    #[arg(long)]
    once: bool,
    /// How many columns the picture of --once has [default: 100]
    #[arg(long, value_name = "COLUMNS", requires = "once", value_parser = clap::value_parser!(u16).range(20..=400))]
    width: Option<u16>,
    /// How many lines the picture of --once may have [default: as many as it needs]
    #[arg(long, value_name = "LINES", requires = "once", value_parser = clap::value_parser!(u16).range(6..=400))]
    height: Option<u16>,
}

/// Shows the screen until it is told to stop.
pub(crate) async fn run(args: Top, context: &Context) -> Result<(), Failure> {
    let settings = &context.settings;
    if settings.output != Output::Human && matches!(settings.sources.output, Source::Flag(_)) {
        let failure = Failure::new(2, "the screen is for people and has no other form");
        return Err(failure.hint("for programs, use  lease ls -o json  and  lease watch -o jsonl"));
    }
    if !args.once && !output::is_shown() {
        let failure = Failure::new(2, "stdout is not a terminal");
        return Err(failure.hint("print one picture with  lease top --once"));
    }
    let (wanted, wants) = watch::channel(None);
    let mut feed = Feed::new(context.client.clone(), args.prefix.clone(), wants);
    let place = format!("{}  {}", settings.endpoints, settings.namespace);
    let mut model = Model::new(&place, &args.prefix, args.once);
    // A server that is not there from the beginning is told at once, as by every command.
    model.learn(feed.look().await?);
    if args.once {
        let needed = draw::still_height(&model).min(ONCE_HEIGHT_MAX);
        let (width, height) = (args.width.unwrap_or(ONCE_WIDTH), args.height.unwrap_or(needed));
        return Ok(output::lines(picture(&model, width, height))?);
    }
    let mut signals = Signals::new()?;
    let (told, news) = mpsc::channel(64);
    feed.start(told);
    let mut terminal = ratatui::try_init()?;
    let done = attend(&mut terminal, &mut model, news, &wanted, &mut signals).await;
    ratatui::restore();
    done
}

/// Draws, and reacts to keys and news.
async fn attend(
    terminal: &mut ratatui::DefaultTerminal,
    model: &mut Model,
    mut news: mpsc::Receiver<feed::News>,
    wanted: &watch::Sender<Option<String>>,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let palette = Palette::from_env();
    let mut keys = keys();
    loop {
        terminal.draw(|frame| draw::screen(frame, model, &palette))?;
        tokio::select! {
            // Without a key the size may have changed, which drawing finds out.
            Some(key) = keys.recv() => match key?.map_or(Wish::Nothing, |key| model.press(key)) {
                Wish::Nothing => {}
                Wish::Describe(name) => { wanted.send_replace(name); }
                Wish::Quit => return Ok(()),
            },
            Some(told) = news.recv() => {
                model.learn(told);
                // What has come meanwhile is drawn together.
                while let Ok(told) = news.try_recv() {
                    model.learn(told);
                }
            }
            signal = signals.next() => return Err(Failure::quiet(signal)),
        }
    }
}

/// Keys as they are pressed; none for anything else that may change the picture.
fn keys() -> mpsc::Receiver<io::Result<Option<KeyEvent>>> {
    let (pressed, keys) = mpsc::channel(16);
    // Reading blocks; the thread ends with the process.
    std::thread::spawn(move || {
        loop {
            let read = event::read();
            let is_over = read.is_err();
            let told = read.map(|event| match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => Some(key),
                Event::Key(_) | Event::Resize(..) | Event::FocusGained | Event::FocusLost => None,
                Event::Mouse(_) | Event::Paste(_) => None,
            });
            if pressed.blocking_send(told).is_err() || is_over {
                return;
            }
        }
    });
    keys
}

/// The picture as text, without colours.
fn picture(model: &Model, width: u16, height: u16) -> String {
    // Memory cannot fail to be drawn on.
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|frame| draw::screen(frame, model, &Palette::plain()));
    let buffer = terminal.backend().buffer();
    let line = |row: u16| {
        let cells: String = (0..width).map(|column| buffer[(column, row)].symbol()).collect();
        cells.trim_end().to_owned() + "\n"
    };
    (0..height).map(line).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use leasehold_api::{Change, QueueList, ResourceList};

    use super::feed::{News, Tables};
    use super::*;

    fn model(is_still: bool) -> Model {
        let mut list: ResourceList = serde_json::from_str(include_str!("../../../tests/golden/ls.json")).unwrap();
        list.resources.retain(|resource| resource.name != "free");
        let queue: QueueList = serde_json::from_str(include_str!("../../../tests/golden/ls_waiting.json")).unwrap();
        let change: Change = serde_json::from_str(include_str!("../../../tests/golden/watch.json")).unwrap();
        let mut model = Model::new("http://127.0.0.1:7117  default", "", is_still);
        let queues = vec![("nightly".to_owned(), queue)];
        model.learn(News::Tables(Box::new(Tables { resources: list.resources, has_more: false, queues })));
        let now = "2026-11-03T23:00:00Z".parse().unwrap();
        model.learn(News::Change(Box::new(change), now));
        model
    }

    #[test]
    fn the_picture_shows_leases_queues_and_events() {
        let found = picture(&model(false), 100, 24) + "\n";
        assert_eq!(found, include_str!("../../../tests/golden/top.txt"));
    }

    #[test]
    fn a_still_picture_has_all_leases_and_queues_and_nothing_else() {
        let model = model(true);
        let found = picture(&model, 80, draw::still_height(&model)) + "\n";
        assert_eq!(found, include_str!("../../../tests/golden/top_once.txt"));
    }

    #[test]
    fn every_size_can_be_drawn() {
        for (width, height) in [(1, 1), (3, 2), (20, 6), (40, 10), (79, 24), (400, 100)] {
            picture(&model(true), width, height);
            picture(&model(false), width, height);
        }
    }
}
