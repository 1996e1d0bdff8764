//! The comparison as plots, an SVG file for each kind of work: the figure that is compared, as bars, or as lines where there is
//! more and more.

use std::fmt::Write as _;

use super::table::short;
use super::{Report, Row, lines};
use crate::workload::Measure;

const WIDTH: f64 = 860.0;
const LABELS: f64 = 300.0;
const BARS: f64 = 440.0;
const BAR: f64 = 16.0;
const GAP: f64 = 12.0;
const TOP: f64 = 56.0;
/// One for each system, in order, again from the start if there are more.
const COLOURS: [&str; 8] = ["#8a93a3", "#1f6feb", "#2da44e", "#bf8700", "#8250df", "#cf222e", "#1b7c83", "#24292f"];

/// A file for each kind of work.
pub(super) fn all(report: &Report) -> Vec<(String, String)> {
    let file = |kind: &str| format!("compare-{}.svg", kind.replace(' ', "-"));
    let draw = |kind| lines::svg(report, kind).unwrap_or_else(|| svg(report, kind));
    report.kinds().into_iter().map(|kind| (file(kind), draw(kind))).collect()
}

fn svg(report: &Report, kind: &str) -> String {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.kind == kind).collect();
    let mut parts = String::new();
    let mut y = TOP;
    // Each figure has a scale of its own.
    let mut measures: Vec<Measure> = rows.iter().map(|row| row.measure).collect();
    measures.dedup();
    for measure in measures {
        let of_measure: Vec<&&Row> = rows.iter().filter(|row| row.measure == measure).collect();
        let most = of_measure.iter().filter_map(|row| value(row)).fold(0.0, f64::max);
        let mut case = "";
        for row in of_measure {
            if row.case != case {
                y += GAP;
                text(&mut parts, 8.0, y + BAR - 4.0, &row.case);
                case = &row.case;
            }
            bar(&mut parts, report, row, y, most);
            y += BAR + 2.0;
        }
    }
    let height = y + GAP;
    let mut svg = head(WIDTH, height);
    text(&mut svg, 8.0, 20.0, &format!("{kind}: by the figure that is compared"));
    legend(&mut svg, report);
    svg + &parts + "</svg>\n"
}

/// Begins a picture of this size.
pub(super) fn head(width: f64, height: f64) -> String {
    let mut svg = String::new();
    let font = "font-family=\"sans-serif\" font-size=\"12\"";
    // Writing to a string does not fail.
    let _ = writeln!(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" {font}>");
    let _ = writeln!(svg, "<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>");
    svg
}

pub(super) fn legend(svg: &mut String, report: &Report) {
    let mut x = 8.0;
    for (at, (name, _)) in report.systems.iter().enumerate() {
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"32\" width=\"12\" height=\"12\" fill=\"{}\"/>", colour(at));
        text(svg, x + 16.0, 42.0, name);
        x += 40.0 + name.len() as f64 * 7.0;
    }
}

fn bar(svg: &mut String, report: &Report, row: &Row, y: f64, most: f64) {
    let at = report.systems.iter().position(|(name, _)| *name == row.system).unwrap_or_default();
    let Some(value) = value(row) else {
        return text(svg, LABELS, y + BAR - 4.0, row.missing.as_deref().unwrap_or("not measured"));
    };
    let width = if most > 0.0 { value / most * BARS } else { 0.0 };
    let fill = colour(at);
    let _ = writeln!(svg, "<rect x=\"{LABELS}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{fill}\"/>");
    let unit = row.samples.first().map_or(String::new(), |sample| row.measure.unit(sample));
    text(svg, LABELS + width + 6.0, y + BAR - 4.0, &format!("{}{unit}", short(value)));
}

fn value(row: &Row) -> Option<f64> {
    row.measure.of(&row.median()?)
}

pub(super) fn colour(at: usize) -> &'static str {
    COLOURS[at % COLOURS.len()]
}

pub(super) fn text(svg: &mut String, x: f64, y: f64, words: &str) {
    let safe = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{safe}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_has_a_bar_or_a_word_why_not() {
        let files = all(&super::super::example());
        let (name, svg) = &files[0];
        assert_eq!((files.len(), name.as_str()), (1, "compare-put.svg"));
        assert_eq!(svg.matches("1,100/s").count() + svg.matches("3,300/s").count(), 2, "{svg}");
        assert!(svg.contains("it is broken") && svg.contains("&lt;own&gt;"), "{svg}");
    }
}
