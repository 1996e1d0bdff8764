//! All workloads, in the order of the tables. A further one is a further file and a line here.

mod expiry;
mod fail_over;
mod grant;
mod hand_over;
mod keep_alive;
mod live;
mod lock;
mod mixed_day;
mod put;
mod watch;

use super::workload::Workload;

/// All workloads.
pub(crate) fn all() -> Vec<Box<dyn Workload>> {
    [
        put::all(),
        grant::all(),
        keep_alive::all(),
        lock::all(),
        hand_over::all(),
        expiry::all(),
        live::all(),
        fail_over::all(),
        mixed_day::all(),
        watch::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn each_case_has_a_name_of_its_own() {
        let all = super::all();
        let names: BTreeSet<String> = all.iter().map(|one| format!("{} {}", one.kind(), one.case())).collect();
        assert_eq!(names.len(), all.len());
    }
}
