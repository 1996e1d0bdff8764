//! Work whose cases differ in how much there is, as lines: the rate and the processor time of the servers for each operation,
//! both axes by powers of ten. What does not grow with the amount is level; what grows as fast as it is a diagonal.

use std::fmt::Write as _;

use super::plot::{colour, head, legend, text};
use super::table::short;
use super::{Report, Row};
use crate::sample::{LEASES, Sample};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 360.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 320.0;
const PANEL: f64 = 340.0;
const LEFT: [f64; 2] = [70.0, 500.0];

/// A panel: what it shows, and of what.
type Panel = (&'static str, fn(&Sample) -> f64);
const PANELS: [Panel; 2] =
    [("operations in a second", |sample| sample.rate), ("server CPU for each, µs", |sample| sample.server_cpu_us)];

/// The lines of one kind of work; none if its cases have no amounts.
pub(super) fn svg(report: &Report, kind: &str) -> Option<String> {
    let rows: Vec<(&Row, f64, Sample)> = report
        .rows
        .iter()
        .filter(|row| row.kind == kind)
        .filter_map(|row| {
            let median = row.median()?;
            // A system that did not get so far has fewer.
            let amount = median.figure(LEASES).map_or(row.amount?, |leases| leases.value);
            Some((row, amount, median))
        })
        .collect();
    let amounts = Axis::over(rows.iter().map(|(_, amount, _)| *amount))?;
    let mut svg = head(WIDTH, HEIGHT);
    text(&mut svg, 8.0, 20.0, &format!("{kind}: by how many leases live"));
    legend(&mut svg, report);
    for (left, (title, figure)) in LEFT.into_iter().zip(PANELS) {
        let values = Axis::over(rows.iter().map(|(_, _, sample)| figure(sample)))?;
        text(&mut svg, left, TOP - 12.0, title);
        frame(&mut svg, left, &amounts, &values);
        for (at, (system, _)) in report.systems.iter().enumerate() {
            let own = rows.iter().filter(|(row, _, sample)| row.system == *system && figure(sample) > 0.0);
            let points = own.map(|(_, amount, sample)| (amounts.part(*amount), values.part(figure(sample))));
            line(&mut svg, left, colour(at), points);
        }
    }
    Some(svg + "</svg>\n")
}

/// An axis from one power of ten to another.
struct Axis {
    from: i32,
    to: i32,
}

impl Axis {
    /// One that has all these values; none if there are none above zero.
    fn over(values: impl Iterator<Item = f64>) -> Option<Axis> {
        let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let (least, most) = (logs.iter().copied().reduce(f64::min)?, logs.iter().copied().reduce(f64::max)?);
        let from = least.floor() as i32;
        Some(Axis { from, to: (most.ceil() as i32).max(from + 1) })
    }

    /// Where a value lies, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        ((value.log10() - f64::from(self.from)) / f64::from(self.to - self.from)).clamp(0.0, 1.0)
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        (self.from..=self.to).map(|power| 10_f64.powi(power))
    }
}

fn frame(svg: &mut String, left: f64, amounts: &Axis, values: &Axis) {
    for power in amounts.powers() {
        let x = left + amounts.part(power) * PANEL;
        rule(svg, (x, TOP), (x, BOTTOM));
        text(svg, x - 8.0, BOTTOM + 16.0, &short(power));
    }
    for power in values.powers() {
        let y = BOTTOM - values.part(power) * (BOTTOM - TOP);
        rule(svg, (left, y), (left + PANEL, y));
        text(svg, left - 62.0, y + 4.0, &short(power));
    }
}

fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(svg, "<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"#d0d7de\"/>");
}

fn line(svg: &mut String, left: f64, colour: &str, points: impl Iterator<Item = (f64, f64)>) {
    let mut path = String::new();
    for (x, y) in points {
        let (x, y) = (left + x * PANEL, BOTTOM - y * (BOTTOM - TOP));
        let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }
    if !path.is_empty() {
        let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_reaches_from_one_power_of_ten_to_another() {
        let axis = Axis::over([1000.0, 250_000.0].into_iter()).unwrap();
        assert_eq!((axis.from, axis.to), (3, 6));
        assert_eq!((axis.part(1000.0), axis.part(1e6), axis.part(1.0)), (0.0, 1.0, 0.0));
        assert!(Axis::over([0.0].into_iter()).is_none());
    }

    #[test]
    fn each_system_has_a_line_through_its_amounts() {
        let mut report = super::super::example();
        assert!(svg(&report, "put").is_none(), "its cases have no amounts");
        for (row, amount) in report.rows.iter_mut().zip([12_000.0, 100_000.0, 1e6]) {
            row.amount = Some(amount);
        }
        let drawn = svg(&report, "put").unwrap();
        // One line in each panel for each of the two that were measured.
        assert_eq!(drawn.matches("stroke-width").count(), 4, "{drawn}");
    }
}
