//! The processes below one of ours, as `/proc` tells, and signals to them.
//!
//! A process below us that loses its parent becomes our child, because we are its subreaper: it may start sessions and
//! groups of its own, it stays below. A look is not one moment, so who kills looks again until nobody is left.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A process below another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    parent: i32,
    group: i32,
    /// Dead, and not yet reaped.
    pub(crate) is_dead: bool,
}

/// Everything below `root`, without `root` and without `except` and what is below those.
pub(crate) fn below(root: Pid, except: &[i32]) -> Vec<Process> {
    under(root.as_raw_nonzero().get(), except, &look())
}

fn under(root: i32, except: &[i32], all: &[Process]) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(*process);
    }
    let (mut found, mut open) = (Vec::new(), vec![root]);
    while let Some(parent) = open.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            if !except.contains(&process.pid) {
                open.push(process.pid);
                found.push(process);
            }
        }
    }
    found
}

/// Kills these, and the process groups they lead: a group is killed in one step, however fast it forks.
pub(crate) fn kill(processes: &[Process]) {
    let leaders: BTreeSet<i32> = processes.iter().filter(|one| one.pid == one.group).map(|one| one.pid).collect();
    for group in leaders.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    signal(processes, Signal::KILL);
}

/// Sends a signal to each of these that lives.
pub(crate) fn signal(processes: &[Process], signal: Signal) {
    for pid in processes.iter().filter(|one| !one.is_dead).filter_map(|one| Pid::from_raw(one.pid)) {
        let _ = kill_process(pid, signal);
    }
}

/// All processes of the system; none where there is no `/proc`.
fn look() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter_map(|pid| parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// Reads `/proc/N/stat`. The name may contain anything, so what follows it is counted from its last parenthesis.
fn parse(stat: &[u8]) -> Option<Process> {
    let text = String::from_utf8_lossy(stat);
    let (pid, rest) = text.split_once(' ')?;
    let mut fields = rest.get(rest.rfind(')')? + 1..)?.split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X" | "x");
    let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Process { pid: pid.parse().ok()?, parent, group, is_dead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_is_read() {
        let found = parse(b"42 (a) Z 1 (b) S 7 40 40 0 -1").unwrap();
        assert_eq!(found, Process { pid: 42, parent: 7, group: 40, is_dead: false });
        assert!(parse(b"43 (x) Z 7 40 40").unwrap().is_dead);
        assert_eq!(parse(b"43"), None);
    }

    #[test]
    fn the_whole_tree_is_found_without_what_is_excepted() {
        let all: Vec<Process> = [(2, 1), (3, 2), (4, 3), (5, 2), (6, 5), (7, 9)]
            .map(|(pid, parent)| Process { pid, parent, group: pid, is_dead: false })
            .into();
        let pids = |except: &[i32]| {
            let mut pids: Vec<i32> = under(1, except, &all).iter().map(|process| process.pid).collect();
            pids.sort();
            pids
        };
        assert_eq!(pids(&[]), [2, 3, 4, 5, 6]);
        assert_eq!(pids(&[5]), [2, 3, 4]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_is_below_us() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = below(rustix::process::getpid(), &[]);
        assert!(found.iter().any(|process| process.pid.unsigned_abs() == child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
