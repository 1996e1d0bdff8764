//! Which data directory stands behind each node id: remembered for ever, so that lost data is noticed.
//!
//! A directory draws a random number, its incarnation, when it first meets other nodes, and says it in every
//! handshake. Each node keeps the first incarnation it saw of every other (`DIR/peers`), synced before it exchanges
//! anything with it. A node that comes back under its old id with an empty directory has forgotten its votes: its
//! incarnation is another, and it is refused. It must return under a new id.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::directory;
use crate::error::{At, OpenError};

const TITLE: &str = "leasehold known nodes, version 1";
/// More than any cluster sees; bounds what strangers can make this node write.
const NODES_MAX: usize = 4096;

/// The incarnations of this directory and of all nodes it has met.
#[derive(Debug)]
pub(crate) struct Seen {
    file: PathBuf,
    incarnation: u64,
    nodes: Mutex<BTreeMap<u64, u64>>,
}

impl Seen {
    /// Reads the file in a data directory, or makes it with a new incarnation.
    pub(crate) fn open(dir: &Path) -> Result<Seen, OpenError> {
        let file = dir.join("peers");
        let wrong = |line, problem: &str| OpenError::Identity { file: file.clone(), line, problem: problem.into() };
        match std::fs::read_to_string(&file) {
            Ok(text) => {
                let (incarnation, nodes) = parse(&text).map_err(|(line, problem)| wrong(line, problem))?;
                Ok(Seen { file, incarnation, nodes: Mutex::new(nodes) })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let seen = Seen { file: file.clone(), incarnation: rand::random(), nodes: Mutex::default() };
                seen.write(&BTreeMap::new()).at("write", &file)?;
                Ok(seen)
            }
            Err(source) => Err(OpenError::Io { action: "read", path: file, source }),
        }
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Says whether this directory has met any node: it had a log then.
    pub(crate) fn knows_any(&self) -> bool {
        !self.nodes.lock().is_empty()
    }

    pub(crate) fn knows(&self, node: u64) -> bool {
        self.nodes.lock().contains_key(&node)
    }

    /// Compares a node with what is known of it; a new one is remembered durably first. May block on the disk.
    pub(crate) fn check(&self, node: u64, incarnation: u64) -> Result<(), String> {
        let mut nodes = self.nodes.lock();
        match nodes.get(&node) {
            Some(known) if *known == incarnation => return Ok(()),
            Some(_) => {
                return Err(format!(
                    "node {node} was known with other data, which it has lost; \
                     a node without its data must join under a new id: remove node {node} and add it anew"
                ));
            }
            None if nodes.len() >= NODES_MAX => return Err(format!("{NODES_MAX} nodes are known already")),
            None => {}
        }
        let mut more = nodes.clone();
        more.insert(node, incarnation);
        self.write(&more).map_err(|error| format!("cannot write {}: {error}", self.file.display()))?;
        *nodes = more;
        Ok(())
    }

    fn write(&self, nodes: &BTreeMap<u64, u64>) -> io::Result<()> {
        directory::write_whole(&self.file, render(self.incarnation, nodes).as_bytes())
    }
}

fn render(incarnation: u64, nodes: &BTreeMap<u64, u64>) -> String {
    let mut text = format!("{TITLE}\nself {incarnation:016x}\n");
    for (node, incarnation) in nodes {
        text.push_str(&format!("node {node} {incarnation:016x}\n"));
    }
    let sum = leasehold_log::checksum(text.as_bytes());
    text + &format!("checksum {sum:08x}\n")
}

type Known = (u64, BTreeMap<u64, u64>);

fn parse(text: &str) -> Result<Known, (usize, &'static str)> {
    let mut lines = text.lines().enumerate();
    if lines.next().map(|(_, line)| line) != Some(TITLE) {
        return Err((1, "not the list of known nodes this build writes; a later build may have written it"));
    }
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (_, own) = lines.next().unwrap_or_default();
    let incarnation = own.strip_prefix("self ").and_then(hex).ok_or((2, "the incarnation does not read"))?;
    let mut nodes = BTreeMap::new();
    for (line, text) in lines.by_ref() {
        let Some(entry) = text.strip_prefix("node ") else { break };
        let (node, seen) = entry.split_once(' ').ok_or((line + 1, "the node does not read"))?;
        let node = node.parse().map_err(|_| (line + 1, "the node id does not read"))?;
        nodes.insert(node, hex(seen).ok_or((line + 1, "the incarnation does not read"))?);
    }
    if render(incarnation, &nodes) != text {
        return Err((nodes.len() + 3, "the checksum does not fit; the file is damaged"));
    }
    Ok((incarnation, nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_remembered_over_restarts_and_refused_with_other_data() {
        let dir = tempfile::tempdir().unwrap();
        let seen = Seen::open(dir.path()).unwrap();
        seen.check(7, 1).unwrap();
        seen.check(8, 2).unwrap();
        let again = Seen::open(dir.path()).unwrap();
        assert_eq!(again.incarnation(), seen.incarnation());
        again.check(7, 1).unwrap();
        let refusal = again.check(7, 2).unwrap_err();
        assert!(refusal.contains("must join under a new id"), "{refusal}");
    }

    #[test]
    fn a_damaged_list_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        Seen::open(dir.path()).unwrap().check(7, 1).unwrap();
        let file = dir.path().join("peers");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("node 7", "node 8")).unwrap();
        assert!(matches!(Seen::open(dir.path()).unwrap_err(), OpenError::Identity { line: 4, .. }));
    }
}
