//! The comparison as Markdown: what the systems promise, then a table for each kind of work.

use std::fmt::Write as _;

use super::{Report, Row};
use crate::sample::{Figure, Sample};
use crate::system::About;
use crate::workload::Measure;

pub(super) fn markdown(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = head(&mut text, report);
    for kind in report.kinds() {
        let _ = table(&mut text, report, kind);
    }
    text
}

fn head(text: &mut String, report: &Report) -> std::fmt::Result {
    let machine = &report.machine;
    writeln!(
        text,
        "{} cores, {}, {}; load before {}, after {}. Medians of {} runs of {} s each, or of fewer where that takes long; \
         servers and load generator on the same machine. Processor time is for each operation; \"others\" is how many \
         cores everybody else kept busy meanwhile; × is how many times better than the first system with as many nodes.\n",
        machine.cores, machine.processor, machine.system, machine.load.0, machine.load.1, report.runs, report.seconds
    )?;
    writeln!(
        text,
        "| system | version | an answer is given after | fencing | who waits | driven with |\n|---|---|---|---|---|---|"
    )?;
    for (name, about) in &report.systems {
        let version = about.version.replace('|', "/");
        let About { durability, fencing, queue, client, .. } = about;
        writeln!(text, "| {name} | {version} | {durability} | {fencing} | {queue} | {client} |")?;
    }
    Ok(())
}

fn table(text: &mut String, report: &Report, kind: &str) -> std::fmt::Result {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.kind == kind).collect();
    let more = more(&rows);
    let own: String = more.iter().map(|name| format!(" {name} |")).collect();
    writeln!(text, "\n## {kind}\n")?;
    writeln!(
        text,
        "| | system | runs | rate | range | p50 | p99 | p99.9 | server CPU | client CPU | peak RSS | others |{own} × |"
    )?;
    writeln!(text, "|---|---|{}---:|", "---:|".repeat(10 + more.len()))?;
    for row in rows {
        let Some(median) = row.median() else {
            let why = row.missing.as_deref().unwrap_or("not measured").replace('|', "/");
            writeln!(text, "| {} | {} | 0 | {why} |{}", row.case, row.system, " |".repeat(9 + more.len()))?;
            continue;
        };
        let own: String = more.iter().map(|name| format!(" {} |", of_its_own(report, row, &median, name))).collect();
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.2} |{own} {} |",
            row.case,
            row.system,
            row.samples.len(),
            unless_zero(median.rate, "/s"),
            range(row),
            unless_zero(median.p50_ms, " ms"),
            unless_zero(median.p99_ms, " ms"),
            unless_zero(median.p999_ms, " ms"),
            unless_zero(median.server_cpu_us, " µs"),
            unless_zero(median.client_cpu_us, " µs"),
            unless_zero(median.peak_rss_mb.round(), " MB"),
            median.others_cores,
            times(report.ratio(row, row.measure)),
        )?;
    }
    Ok(())
}

/// The figures that only these rows have, in order.
fn more(rows: &[&Row]) -> Vec<&'static str> {
    let all = rows.iter().flat_map(|row| &row.samples).flat_map(|sample| &sample.more);
    let mut names = Vec::new();
    for figure in all {
        if !names.contains(&figure.name) {
            names.push(figure.name);
        }
    }
    names
}

/// A figure that only some rows have, with how many times better it is where it is not what the row is compared by.
fn of_its_own(report: &Report, row: &Row, median: &Sample, name: &'static str) -> String {
    let Some(figure) = median.figure(name) else { return String::new() };
    let measure = Measure::Figure(name);
    let compared = figure.unit.is_some() && row.measure != measure;
    let ratio = times(report.ratio(row, measure).filter(|_| compared));
    if ratio.is_empty() { shown(figure) } else { format!("{} ({ratio}×)", shown(figure)) }
}

/// A figure with its unit.
pub(super) fn shown(figure: &Figure) -> String {
    match figure.unit {
        Some(unit) => format!("{} {unit}", short(figure.value)),
        None => short(figure.value),
    }
}

/// A figure with its unit; nothing for work that a system could not do.
fn unless_zero(value: f64, unit: &str) -> String {
    if value > 0.0 { format!("{}{unit}", short(value)) } else { String::new() }
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"))
}

/// The least and the most of what is compared, over all runs.
fn range(row: &Row) -> String {
    let all = || row.samples.iter().filter_map(|sample| row.measure.of(sample));
    if all().next().is_none() {
        return String::new();
    }
    let unit = match (row.measure, row.samples.first()) {
        (Measure::Rate, _) | (_, None) => String::new(),
        (measure, Some(sample)) => measure.unit(sample),
    };
    format!("{}–{}{unit}", short(all().fold(f64::INFINITY, f64::min)), short(all().fold(0.0, f64::max)))
}

/// Three digits that mean something, with commas in thousands.
pub(super) fn short(value: f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        return "0".to_owned();
    }
    let digits = 2 - value.log10().floor() as i32;
    if digits > 0 {
        return format!("{value:.*}", usize::try_from(digits).unwrap_or(0));
    }
    let unit = 10_f64.powi(-digits);
    let plain = format!("{:.0}", (value / unit).round() * unit);
    let from_right = plain.len();
    plain.chars().enumerate().fold(String::new(), |mut text, (at, digit)| {
        if at > 0 && (from_right - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_mean_something() {
        let told: Vec<String> = [0.012_345, 0.5, 12.34, 123.4, 12_345.0, 1_234_567.0].map(short).to_vec();
        assert_eq!(told, ["0.0123", "0.500", "12.3", "123", "12,300", "1,230,000"]);
        assert_eq!(short(0.0), "0");
    }

    #[test]
    fn every_row_has_as_many_cells_as_the_head() {
        let text = markdown(&super::super::example());
        let cells: Vec<usize> =
            text.split("## put").nth(1).unwrap().lines().filter(|line| line.starts_with('|')).map(cells_of).collect();
        assert_eq!(cells.len(), 5, "{text}");
        assert!(cells.iter().all(|cells| *cells == cells_of("| | | | | | | | | | | | | | | |")), "{text}");
        assert!(text.contains("| 3.00 |") && text.contains("it is broken"), "{text}");
        assert!(text.contains("| 12.0 ms | 12,000 |") && text.contains("| 6.00 ms (2.00×) | 12,000 |"), "{text}");
    }

    fn cells_of(line: &str) -> usize {
        line.matches('|').count()
    }
}
