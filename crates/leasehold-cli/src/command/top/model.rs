//! What the screen knows: the latest news, what is selected, what keys do. No IO, no clock.

use std::collections::VecDeque;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::feed::{News, Tables};
use super::rows::{self, LeaseRow, WaiterRow};
use crate::render::event;

/// How many events are kept.
const EVENTS_MAX: usize = 500;
/// How far a page goes.
const PAGE: usize = 10;

/// What is shown.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// Where the server is, and the namespace.
    pub(crate) place: String,
    pub(crate) prefix: String,
    /// Whether it is one picture, which has neither events nor keys.
    pub(crate) is_still: bool,
    /// What the server told last.
    latest: Data,
    /// What is shown instead while paused.
    frozen: Option<Data>,
    /// Why the server cannot be asked, if so.
    pub(crate) lost: Option<String>,
    /// Only what has this text.
    pub(crate) filter: String,
    pub(crate) mode: Mode,
    /// The resource in the pane, and what is known about it.
    pub(crate) pane: Option<(String, String)>,
    /// The selected lease, by resource and token: it stays selected wherever its row goes.
    selected: Option<(String, String)>,
}

/// What the server told.
#[derive(Clone, Debug, Default)]
struct Data {
    tables: Tables,
    /// When and what, oldest first.
    events: VecDeque<(String, String)>,
}

/// What keys mean at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Commands.
    Look,
    /// The text of the filter.
    Filter,
    /// The help is shown; any key ends it.
    Help,
}

/// What a key asks of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nothing.
    Nothing,
    /// To describe this resource from now on, or none.
    Describe(Option<String>),
    /// To end.
    Quit,
}

impl Model {
    /// A screen that knows nothing yet.
    pub(crate) fn new(place: &str, prefix: &str, is_still: bool) -> Model {
        Model {
            place: place.to_owned(),
            prefix: prefix.to_owned(),
            is_still,
            latest: Data::default(),
            frozen: None,
            lost: None,
            filter: String::new(),
            mode: Mode::Look,
            pane: None,
            selected: None,
        }
    }

    /// Takes something new in.
    pub(crate) fn learn(&mut self, news: News) {
        match news {
            News::Tables(tables) => {
                self.lost = None;
                self.latest.tables = *tables;
            }
            News::Described(name, text) => match &mut self.pane {
                Some((shown, about)) if *shown == name => *about = text,
                Some(_) | None => {}
            },
            News::Change(change, now) => {
                let lines = change.events.iter().map(|event| event::when_and_what(change.revision, event, now));
                self.latest.events.extend(lines);
                let surplus = self.latest.events.len().saturating_sub(EVENTS_MAX);
                self.latest.events.drain(..surplus);
            }
            News::Lost(why) => self.lost = Some(why),
        }
    }

    /// Does what a key says.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Wish::Quit;
        }
        match self.mode {
            Mode::Help => {
                self.mode = Mode::Look;
                Wish::Nothing
            }
            Mode::Filter => self.press_in_filter(key.code),
            Mode::Look => self.press_in_look(key.code),
        }
    }

    fn press_in_filter(&mut self, key: KeyCode) -> Wish {
        if let KeyCode::Char(letter) = key {
            self.filter.push(letter);
        } else if key == KeyCode::Backspace {
            self.filter.pop();
        } else if key == KeyCode::Enter {
            self.mode = Mode::Look;
        } else if key == KeyCode::Esc {
            self.filter.clear();
            self.mode = Mode::Look;
        }
        Wish::Nothing
    }

    fn press_in_look(&mut self, key: KeyCode) -> Wish {
        let last = self.leases().len().saturating_sub(1);
        let at = self.selected_index();
        if key == KeyCode::Char('q') {
            return Wish::Quit;
        } else if key == KeyCode::Esc {
            self.filter.clear();
            return if self.pane.take().is_some() { Wish::Describe(None) } else { Wish::Nothing };
        } else if key == KeyCode::Char('?') {
            self.mode = Mode::Help;
        } else if key == KeyCode::Char('/') {
            self.mode = Mode::Filter;
        } else if key == KeyCode::Char('p') || key == KeyCode::Char(' ') {
            self.frozen = if self.frozen.is_some() { None } else { Some(self.latest.clone()) };
        } else if key == KeyCode::Char('d') || key == KeyCode::Enter {
            return self.toggle_pane();
        } else if key == KeyCode::Char('j') || key == KeyCode::Down {
            return self.select(at.map_or(0, |at| at + 1));
        } else if key == KeyCode::Char('k') || key == KeyCode::Up {
            return self.select(at.map_or(0, |at| at.saturating_sub(1)));
        } else if key == KeyCode::PageDown {
            return self.select(at.map_or(0, |at| at + PAGE));
        } else if key == KeyCode::PageUp {
            return self.select(at.map_or(0, |at| at.saturating_sub(PAGE)));
        } else if key == KeyCode::Char('g') || key == KeyCode::Home {
            return self.select(0);
        } else if key == KeyCode::Char('G') || key == KeyCode::End {
            return self.select(last);
        }
        Wish::Nothing
    }

    /// Selects a row, or the last one if there are fewer; an open pane goes along.
    fn select(&mut self, index: usize) -> Wish {
        let rows = self.leases();
        let Some(row) = rows.get(index).or(rows.last()) else { return Wish::Nothing };
        self.selected = Some((row.resource.clone(), row.token.clone()));
        match &self.pane {
            Some((shown, _)) if *shown != row.resource => self.open_pane(row.resource.clone()),
            Some(_) | None => Wish::Nothing,
        }
    }

    fn toggle_pane(&mut self) -> Wish {
        if self.pane.take().is_some() {
            return Wish::Describe(None);
        }
        if self.selected_index().is_none() {
            self.select(0);
        }
        match self.selected.clone() {
            Some((resource, _)) => self.open_pane(resource),
            None => Wish::Nothing,
        }
    }

    fn open_pane(&mut self, resource: String) -> Wish {
        self.pane = Some((resource.clone(), String::new()));
        Wish::Describe(Some(resource))
    }

    /// The leases that are shown.
    pub(crate) fn leases(&self) -> Vec<LeaseRow> {
        let rows = rows::leases(&self.shown().tables).into_iter();
        rows.filter(|row| self.fits(&row.resource) || self.fits(&row.holder)).collect()
    }

    /// The waiters that are shown.
    pub(crate) fn waiters(&self) -> Vec<WaiterRow> {
        let rows = rows::waiters(&self.shown().tables).into_iter();
        rows.filter(|row| self.fits(&row.resource) || self.fits(&row.holder)).collect()
    }

    /// The last events that are shown, when and what, oldest first.
    pub(crate) fn events(&self, count: usize) -> Vec<&(String, String)> {
        let fitting = self.shown().events.iter().filter(|(_, what)| self.fits(what));
        let mut found: Vec<_> = fitting.rev().take(count).collect();
        found.reverse();
        found
    }

    /// The row of the selected lease.
    pub(crate) fn selected_index(&self) -> Option<usize> {
        let (resource, token) = self.selected.as_ref()?;
        let rows = self.leases();
        let exact = rows.iter().position(|row| row.resource == *resource && row.token == *token);
        // Where its holder changed, the resource is still the one that was meant.
        exact.or_else(|| rows.iter().position(|row| row.resource == *resource))
    }

    /// How many claims are held and how many wait.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let resources = &self.shown().tables.resources;
        let held = resources.iter().map(|resource| u64::from(resource.holder_count)).sum();
        (held, resources.iter().map(|resource| u64::from(resource.queue.length)).sum())
    }

    /// Whether the server has more resources than are shown.
    pub(crate) fn has_more(&self) -> bool {
        self.shown().tables.has_more
    }

    /// Whether the screen stands still.
    pub(crate) fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    fn shown(&self) -> &Data {
        self.frozen.as_ref().unwrap_or(&self.latest)
    }

    fn fits(&self, text: &str) -> bool {
        self.filter.is_empty() || text.to_lowercase().contains(&self.filter.to_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use leasehold_api::{Change, ResourceList};

    use super::*;

    fn tables() -> News {
        let list: ResourceList = serde_json::from_str(include_str!("../../../tests/golden/ls.json")).unwrap();
        News::Tables(Box::new(Tables { resources: list.resources, ..Tables::default() }))
    }

    fn model() -> Model {
        let mut model = Model::new("here", "", false);
        model.learn(tables());
        model
    }

    fn typed(model: &mut Model, keys: &str) -> Wish {
        keys.chars().fold(Wish::Nothing, |_, letter| model.press(KeyEvent::from(KeyCode::Char(letter))))
    }

    fn change() -> News {
        let change: Change = serde_json::from_str(include_str!("../../../tests/golden/watch.json")).unwrap();
        News::Change(Box::new(change), "2026-11-03T23:00:00Z".parse().unwrap())
    }

    #[test]
    fn the_selection_follows_its_lease_and_stays_within_the_rows() {
        let mut model = model();
        assert_eq!(model.selected_index(), None);
        typed(&mut model, "jj");
        assert_eq!(model.selected_index(), Some(1));
        let name = model.leases()[1].resource.clone();
        typed(&mut model, "jjjjjjjjjj");
        assert_eq!(model.selected_index(), Some(model.leases().len() - 1));
        typed(&mut model, "kkkkkkkkkkkj");
        assert_eq!(model.leases()[model.selected_index().unwrap()].resource, name);
        model.learn(News::Tables(Box::default()));
        assert_eq!((model.selected_index(), typed(&mut model, "jkgG")), (None, Wish::Nothing));
    }

    #[test]
    fn the_filter_takes_letters_until_it_is_left() {
        let mut model = model();
        typed(&mut model, "/NIGHTq");
        assert_eq!((model.mode, model.leases().len()), (Mode::Filter, 0));
        model.press(KeyEvent::from(KeyCode::Backspace));
        model.press(KeyEvent::from(KeyCode::Enter));
        assert_eq!((model.mode, model.leases()[0].resource.as_str()), (Mode::Look, "nightly"));
        model.press(KeyEvent::from(KeyCode::Esc));
        assert!(model.filter.is_empty() && model.leases().len() > 1);
    }

    #[test]
    fn a_pause_holds_the_picture_still_and_loses_nothing() {
        let mut model = model();
        typed(&mut model, "p");
        model.learn(change());
        model.learn(News::Tables(Box::default()));
        assert!(model.is_paused() && model.events(9).is_empty() && !model.leases().is_empty());
        typed(&mut model, "p");
        assert_eq!((model.events(99).len(), model.leases().len()), (10, 0));
    }

    #[test]
    fn the_pane_goes_along_with_the_selection() {
        let mut model = model();
        let wish = typed(&mut model, "d");
        let first = model.leases()[0].resource.clone();
        assert_eq!(wish, Wish::Describe(Some(first.clone())));
        model.learn(News::Described("another".into(), "not this".into()));
        model.learn(News::Described(first, "this".into()));
        assert_eq!(model.pane.as_ref().unwrap().1, "this");
        assert!(matches!(typed(&mut model, "G"), Wish::Describe(Some(_))));
        assert_eq!(typed(&mut model, "d"), Wish::Describe(None));
    }

    #[test]
    fn a_lost_server_is_told_until_it_answers() {
        let mut model = model();
        model.learn(News::Lost("connection refused".into()));
        assert!(model.lost.is_some() && !model.leases().is_empty(), "what was known stays");
        model.learn(tables());
        assert_eq!(model.lost, None);
    }

    #[test]
    fn old_events_make_room_for_new_ones() {
        let mut model = model();
        for _ in 0..100 {
            model.learn(change());
        }
        assert_eq!(model.events(usize::MAX).len(), EVENTS_MAX);
    }

    #[test]
    fn q_and_ctrl_c_quit_and_any_key_ends_the_help() {
        let mut model = model();
        assert_eq!(typed(&mut model, "?"), Wish::Nothing);
        assert_eq!((typed(&mut model, "q"), model.mode), (Wish::Nothing, Mode::Look));
        assert_eq!(typed(&mut model, "q"), Wish::Quit);
        typed(&mut model, "/");
        assert_eq!(model.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Wish::Quit);
    }
}
