//! `docs/dialects/etcd.md`: the part of it that tells what was played and what differs is written from the results.
//!
//! `RECORD=1 cargo xtask test …` writes it; otherwise a page that does not say what was found is an error.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::clients::CLIENTS;
use super::compare::{Declared, differences};
use super::played::{with_etcd, with_one};

const BEGIN: &str = "<!-- results: written by the tests -->\n";
const END: &str = "<!-- end of results -->\n";

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dialects/etcd.md")
}

/// What the scenes of one group came to: how many there are, and how many have a difference.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    scenes: usize,
    different: usize,
}

#[test]
fn the_page_tells_what_was_played_and_what_differs() {
    let mut counts: BTreeMap<String, BTreeMap<&str, Count>> = BTreeMap::new();
    for client in &CLIENTS {
        let (Some(etcd), Some(ours)) = (with_etcd(client), with_one(client)) else { return };
        let found = differences(&etcd, &ours);
        for (scene, _) in etcd.iter() {
            let group = scene.split(':').next().unwrap_or_default().to_owned();
            let count = counts.entry(group).or_default().entry(client.id).or_default();
            count.scenes += 1;
            count.different += usize::from(found.iter().any(|difference| difference.scene == *scene));
        }
    }
    let page = std::fs::read_to_string(path()).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page marks where results begin");
    let (there, after) = rest.split_once(END).expect("the page marks where results end");
    let found = results(&counts);
    if std::env::var_os("RECORD").is_some() {
        std::fs::write(path(), format!("{before}{BEGIN}{found}{END}{after}")).unwrap();
    } else {
        assert_eq!(there, found, "the page says otherwise; RECORD=1 writes it anew");
    }
}

/// The part of the page.
fn results(counts: &BTreeMap<String, BTreeMap<&str, Count>>) -> String {
    let mut text = "\nScenes that give the same answers as a real etcd, by client:\n\n| |".to_owned();
    for client in &CLIENTS {
        let _ = write!(text, " {} |", client.name);
    }
    let _ = write!(text, "\n|---|{}\n", "---|".repeat(CLIENTS.len()));
    for (group, by_client) in counts {
        let _ = write!(text, "| {group} |");
        for client in &CLIENTS {
            let cell = match by_client.get(client.id) {
                None => String::new(),
                Some(Count { scenes, different: 0 }) => format!("{scenes}"),
                Some(Count { scenes, different }) => format!("{} of {scenes}", scenes - different),
            };
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
    text.push_str(
        "\nWhat differs, and why:\n\n| where | etcd answers | Leasehold answers | why |\n|---|---|---|---|\n",
    );
    for Declared { scene, at, etcd, leasehold, why, .. } in Declared::all() {
        let place = if at.is_empty() { scene } else { format!("{scene} ({})", at.join(", ")) };
        let _ = writeln!(text, "| {place} | `{etcd}` | `{leasehold}` | {why} |");
    }
    text.push('\n');
    text
}
