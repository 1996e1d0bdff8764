//! The comparison for programs: the machine, the systems, and for each row the medians and all runs.

use serde_json::{Map, Value, json};

use super::{Report, Row};
use crate::sample::Sample;

pub(super) fn text(report: &Report) -> String {
    let machine = &report.machine;
    let systems: Vec<Value> = report
        .systems
        .iter()
        .map(|(name, about)| {
            json!({
                "name": name,
                "version": about.version,
                "durability": about.durability,
                "fencing": about.fencing,
                "queue": about.queue,
                "client": about.client,
            })
        })
        .collect();
    let rows: Vec<Value> = report.rows.iter().map(|row| of_row(report, row)).collect();
    let all = json!({
        "machine": {
            "cores": machine.cores,
            "processor": machine.processor,
            "system": machine.system,
            "load_before": machine.load.0,
            "load_after": machine.load.1,
        },
        "when": machine.when,
        "runs": report.runs,
        "seconds": report.seconds,
        "systems": systems,
        "results": rows,
    });
    format!("{all:#}\n")
}

fn of_row(report: &Report, row: &Row) -> Value {
    json!({
        "workload": row.kind,
        "case": row.case,
        "system": row.system,
        "nodes": row.nodes,
        "amount": row.amount,
        "compared_by": row.measure.name(),
        "times_better_than_first": report.ratio(row, row.measure),
        "median": row.median().as_ref().map(of_sample),
        "runs": row.samples.iter().map(of_sample).collect::<Vec<_>>(),
        "missing": row.missing,
    })
}

fn of_sample(sample: &Sample) -> Value {
    let figures = sample.figures().map(|(name, value)| (name.to_owned(), json!(value)));
    let more = sample.more.iter().map(|figure| (figure.name.to_owned(), json!(figure.value)));
    Value::Object(Map::from_iter(figures.into_iter().chain(more)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_find_medians_runs_and_ratios() {
        let read: Value = serde_json::from_str(&text(&super::super::example())).unwrap();
        let results = &read["results"];
        assert_eq!(results[0]["median"]["rate"], 1100.0);
        assert_eq!(results[0]["median"]["restart"], 12.0);
        assert_eq!(results[0]["runs"].as_array().unwrap().len(), 2);
        assert_eq!(results[1]["times_better_than_first"], 3.0);
        assert_eq!(results[2]["missing"], "it is broken");
        assert_eq!(read["systems"][1]["durability"], "all");
    }
}
