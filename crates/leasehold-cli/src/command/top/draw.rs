//! The picture of the screen, from what the model knows.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use super::model::{Mode, Model};
use super::rows::{LeaseRow, Urgency};
use crate::render::text::plain;

/// What the keys do.
const HELP: [(&str, &str); 9] = [
    ("q", "quit"),
    ("j k, arrows", "select the next or previous lease"),
    ("PgDn PgUp", "ten at a time"),
    ("g G", "the first, the last"),
    ("d, Enter", "describe the selected resource, or close it"),
    ("/", "show only what has a text; Enter keeps it"),
    ("Esc", "forget the filter, close the description"),
    ("p, Space", "pause and go on"),
    ("?", "this help"),
];
const KEYS: &str = " q quit   j/k select   d describe   / filter   p pause   ? help";
/// The narrowest and the widest bar.
const BAR: (usize, usize) = (8, 24);
/// The widths of what is left and of the mode; the widest reason that a bar makes room for, and the narrowest shown.
const LEFT: usize = 6;
const MODE: usize = 9;
const REASON_MAX: usize = 30;
const REASON_MIN: usize = 6;
/// The widest names of resources and holders.
const NAME_MAX: usize = 36;

/// Which style means what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    calm: Style,
    some: Style,
    high: Style,
    faint: Style,
    title: Style,
    selected: Style,
}

impl Palette {
    /// With colours, unless `NO_COLOR` is set.
    pub(crate) fn from_env() -> Palette {
        if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            return Palette::plain();
        }
        Palette {
            calm: Style::new().fg(Color::Green),
            some: Style::new().fg(Color::Yellow),
            high: Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            faint: Style::new().fg(Color::DarkGray),
            title: Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD),
            ..Palette::plain()
        }
    }

    /// Without colours.
    pub(crate) fn plain() -> Palette {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        Palette {
            calm: Style::new(),
            some: Style::new(),
            high: bold,
            faint: Style::new().add_modifier(Modifier::DIM),
            title: bold,
            selected: Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    fn of(&self, urgency: Urgency) -> Style {
        match urgency {
            Urgency::High => self.high,
            Urgency::Some => self.some,
            Urgency::None => self.calm,
            Urgency::Timeless => self.faint,
        }
    }
}

/// Draws the whole screen.
pub(crate) fn screen(frame: &mut Frame<'_>, model: &Model, palette: &Palette) {
    let area = frame.area();
    let below = match (&model.pane, model.is_still) {
        (Some(_), _) => [Constraint::Length(0), Constraint::Fill(3), Constraint::Length(1)],
        (None, false) => {
            let queues = Constraint::Length(queues_height(model).min(area.height / 4));
            [queues, Constraint::Fill(2), Constraint::Length(1)]
        }
        (None, true) => [queues_height(model), 0, 0].map(Constraint::Length),
    };
    let [queues, rest, foot] = below;
    let parts = [Constraint::Length(1), Constraint::Fill(3), queues, rest, foot];
    let [head, leases, queues, rest, foot] = Layout::vertical(parts).areas(area);
    frame.render_widget(Paragraph::new(header(model, palette, usize::from(head.width))), head);
    draw_leases(frame, leases, model, palette);
    draw_queues(frame, queues, model, palette);
    match &model.pane {
        Some((name, text)) => draw_pane(frame, rest, name, text, palette),
        None => draw_events(frame, rest, model, palette),
    }
    frame.render_widget(Paragraph::new(footer(model, palette)), foot);
    if model.mode == Mode::Help {
        draw_help(frame, area, palette);
    }
}

/// How many lines a picture without events and keys needs.
pub(crate) fn still_height(model: &Model) -> u16 {
    let leases = u16::try_from(model.leases().len()).unwrap_or(u16::MAX);
    leases.saturating_add(3).saturating_add(queues_height(model))
}

/// How many lines the queues need, with their title.
fn queues_height(model: &Model) -> u16 {
    match u16::try_from(model.waiters().len()).unwrap_or(u16::MAX) {
        0 => 0,
        waiters => waiters.saturating_add(1),
    }
}

fn header(model: &Model, palette: &Palette, width: usize) -> Line<'static> {
    let (held, waiting) = model.counts();
    let state = match (&model.lost, model.is_paused()) {
        (Some(why), _) => Span::styled(format!("lost: {}, trying again ", plain(why)), palette.high),
        (None, true) => Span::styled("paused ", palette.some),
        (None, false) => Span::styled("live ", palette.calm),
    };
    let more = if model.has_more() { " of the first 1000" } else { "" };
    let prefix = if model.prefix.is_empty() { String::new() } else { format!("  {}*", plain(&model.prefix)) };
    let title = Span::styled(" lease top", palette.title);
    let about = format!("   {}{prefix}   {held} held, {waiting} waiting{more}", model.place);
    let state_width = state.width().min(width);
    let about = fit(&about, width.saturating_sub(title.width() + state_width + 1));
    Line::from(vec![title, Span::raw(about), Span::raw(" "), state])
}

fn footer(model: &Model, palette: &Palette) -> Line<'static> {
    match (model.mode, model.filter.is_empty()) {
        (Mode::Filter, _) => Line::from(vec![
            Span::styled(" /", palette.title),
            Span::raw(plain(&model.filter)),
            Span::styled("▏", palette.title),
            Span::styled("  Enter keeps it, Esc forgets it", palette.faint),
        ]),
        (Mode::Look | Mode::Help, false) => Line::from(vec![
            Span::styled(format!(" filter: {}", plain(&model.filter)), palette.some),
            Span::styled("   Esc forgets it", palette.faint),
        ]),
        (Mode::Look | Mode::Help, true) => Line::styled(KEYS, palette.faint),
    }
}

/// A part of the screen under a line with its title.
fn part(title: &str, palette: &Palette) -> Block<'static> {
    let title = Line::styled(format!(" {title} "), palette.title);
    Block::new().borders(Borders::TOP).border_style(palette.faint).title(title)
}

fn draw_leases(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: &Palette) {
    let rows = model.leases();
    let columns = Columns::new(&rows, usize::from(area.width));
    let height = usize::from(area.height).saturating_sub(2);
    let selected = model.selected_index();
    // The selected row is always in sight.
    let first = selected.map_or(0, |at| (at + 1).saturating_sub(height.max(1)));
    let mut lines = vec![columns.heading(palette)];
    if rows.is_empty() {
        let text = if model.filter.is_empty() { "  nothing is held" } else { "  nothing fits the filter" };
        lines = vec![Line::styled(text, palette.faint)];
    }
    for (index, row) in rows.iter().enumerate().skip(first).take(height) {
        lines.push(columns.row(row, selected == Some(index), palette));
    }
    let hidden = rows.len().saturating_sub(first + height);
    let title = if hidden > 0 { format!("leases, {hidden} more below") } else { "leases".to_owned() };
    frame.render_widget(Paragraph::new(lines).block(part(&title, palette)), area);
}

/// The widths of the columns of leases; what has no room or nothing to say is left out.
struct Columns {
    name: usize,
    holder: usize,
    token: usize,
    bar: usize,
    held: usize,
    mode: usize,
    reason: usize,
}

impl Columns {
    fn new(rows: &[LeaseRow], width: usize) -> Columns {
        let longest = |text: fn(&LeaseRow) -> &str| rows.iter().map(|row| text(row).chars().count()).max().unwrap_or(0);
        // On a narrow screen names share what is there.
        let most = (width / 4).clamp(8, NAME_MAX);
        let name = longest(|row| &row.resource).clamp(8, most);
        let holder = longest(|row| &row.holder).clamp(6, most);
        let token = longest(|row| &row.token).max(5);
        let held = longest(|row| &row.held).max(5);
        let is_shared = rows.iter().any(|row| row.mode == "shared");
        let mode = if is_shared { MODE } else { 0 };
        let fixed =
            2 + name + 2 + holder + 2 + token + 2 + 2 + LEFT + 2 + held + if is_shared { 2 + mode } else { 0 } + 2;
        let reason = longest(|row| &row.reason).min(REASON_MAX);
        let bar = width.saturating_sub(fixed + reason).clamp(BAR.0, BAR.1);
        let reason = width.saturating_sub(fixed + bar).min(longest(|row| &row.reason));
        let reason = if reason < REASON_MIN { 0 } else { reason };
        Columns { name, holder, token, bar, held, mode, reason }
    }

    fn heading(&self, palette: &Palette) -> Line<'static> {
        let text = format!(
            "  {}  {}  {}  {}  {}{}",
            fit("RESOURCE", self.name),
            fit("HOLDER", self.holder),
            fit("TOKEN", self.token),
            fit("TIME LEFT", self.bar + 2 + LEFT),
            fit("HELD", self.held),
            self.rest("MODE", "REASON"),
        );
        Line::styled(text, palette.faint)
    }

    /// The columns that are there only if they have something to say.
    fn rest(&self, mode: &str, reason: &str) -> String {
        let column =
            |text: &str, width: usize| if width > 0 { format!("  {}", fit(text, width)) } else { String::new() };
        column(mode, self.mode) + &column(reason, self.reason)
    }

    fn row(&self, row: &LeaseRow, is_selected: bool, palette: &Palette) -> Line<'static> {
        let filled = ((row.part * self.bar as f64).round() as usize).min(self.bar);
        let urgency = palette.of(row.urgency);
        let names = format!(
            "{} {}  {}  {}  ",
            if is_selected { "▸" } else { " " },
            fit(&row.resource, self.name),
            fit(&row.holder, self.holder),
            fit(&row.token, self.token)
        );
        let about = format!("  {}{}", fit(&row.held, self.held), self.rest(row.mode, &row.reason));
        let line = Line::from(vec![
            Span::raw(names),
            Span::styled("━".repeat(filled), urgency),
            Span::styled("·".repeat(self.bar - filled), palette.faint),
            Span::styled(format!("  {:>LEFT$}", row.left), urgency),
            Span::raw(about),
        ]);
        if is_selected { line.patch_style(palette.selected) } else { line }
    }
}

fn draw_queues(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: &Palette) {
    let rows = model.waiters();
    let most = usize::from(area.width / 4).max(8);
    let longest = |text: fn(&super::rows::WaiterRow) -> &str| {
        rows.iter().map(|row| text(row).chars().count()).max().unwrap_or(0).min(most)
    };
    let (name, place, holder) = (longest(|row| &row.resource), longest(|row| &row.place), longest(|row| &row.holder));
    let lines: Vec<Line<'static>> = rows
        .iter()
        .map(|row| {
            Line::from(vec![
                Span::raw(format!("  {}  ", fit(&row.resource, name))),
                Span::styled(format!("{:>place$}", row.place), palette.title),
                Span::raw(format!("  {}  ", fit(&row.holder, holder))),
                Span::styled(row.about.clone(), palette.faint),
            ])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(part("queues", palette)), area);
}

fn draw_events(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: &Palette) {
    let events = model.events(usize::from(area.height.saturating_sub(1)));
    let lines = match events.as_slice() {
        [] if model.filter.is_empty() => {
            vec![Line::styled("  nothing has happened since the screen was opened", palette.faint)]
        }
        [] => vec![Line::styled("  nothing fits the filter", palette.faint)],
        events => events.iter().map(|event| event_line(event, palette)).collect(),
    };
    frame.render_widget(Paragraph::new(lines).block(part("events", palette)), area);
}

fn event_line((when, what): &(String, String), palette: &Palette) -> Line<'static> {
    Line::from(vec![Span::styled(format!("  {when}"), palette.faint), Span::raw(what.clone())])
}

fn draw_pane(frame: &mut Frame<'_>, area: Rect, name: &str, text: &str, palette: &Palette) {
    let text = if text.is_empty() { "asking the server" } else { text };
    let lines: Vec<Line<'static>> = text.lines().map(|line| Line::raw(format!("  {line}"))).collect();
    frame.render_widget(Paragraph::new(lines).block(part(&format!("describe {name}"), palette)), area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect, palette: &Palette) {
    let lines: Vec<Line<'static>> = HELP
        .iter()
        .map(|(key, what)| {
            Line::from(vec![Span::styled(format!("  {key:<12}"), palette.title), Span::raw((*what).to_owned())])
        })
        .chain([Line::default()])
        .chain([Line::styled("  The bar is the part of the ttl that is left; a lease", palette.faint)])
        .chain([Line::styled("  that nobody renews comes to the top.", palette.faint)])
        .collect();
    let (width, height) = (62.min(area.width), u16::try_from(lines.len() + 2).unwrap_or(14).min(area.height));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    let block = Block::bordered().border_style(palette.faint).title(Line::styled(" keys ", palette.title));
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

/// The text in exactly so many columns, with a sign if there is more of it.
fn fit(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true if width > 0 => text.chars().take(width - 1).chain(['…']).collect(),
        true => String::new(),
        false => format!("{text:width$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_their_headings_whichever_are_there() {
        let row = |mode: &'static str| LeaseRow {
            resource: "orders/7".into(),
            holder: "ann".into(),
            token: "7".into(),
            mode,
            urgency: Urgency::None,
            part: 0.5,
            left: "9s".into(),
            held: "00:41".into(),
            reason: "backfill".into(),
        };
        for mode in ["exclusive", "shared"] {
            let columns = Columns::new(&[row(mode)], 100);
            let palette = Palette::plain();
            let (heading, line) =
                (columns.heading(&palette).to_string(), columns.row(&row(mode), false, &palette).to_string());
            let at = |line: &str, text: &str| line[..line.find(text).unwrap()].chars().count();
            assert_eq!(at(&heading, "REASON"), at(&line, "backfill"), "{heading}\n{line}");
            assert_eq!(at(&heading, "HELD"), at(&line, "00:41"), "{heading}\n{line}");
            assert_eq!(heading.contains("MODE"), mode == "shared");
        }
    }

    #[test]
    fn text_is_cut_or_padded_to_its_column() {
        assert_eq!([fit("abc", 5), fit("abcdef", 4), fit("abc", 0)], ["abc  ", "abc…", ""]);
    }
}
