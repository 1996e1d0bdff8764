//! Which data directory stands behind each node id: remembered for ever, so that lost data is noticed.
//!
//! A directory draws a random number, its incarnation, when it first meets other nodes, and says it in every
//! handshake. Each node keeps the first incarnation it saw of every other (`DIR/peers`), synced before it exchanges
//! anything with it. A node that comes back under its old id with an empty directory has forgotten its votes: its
//! incarnation is another, and it is refused. It must return under a new id. The file also says which nodes were removed
//! from the cluster, so that they can be told after the log has forgotten them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::directory;
use crate::error::{At, OpenError};

pub(super) const TITLE: &str = "leasehold known nodes, version 2";
/// The version that did not say who was removed.
const OLD_TITLE: &str = "leasehold known nodes, version 1";
/// More than any cluster sees; bounds what strangers can make this node write.
const NODES_MAX: usize = 4096;

/// The incarnations of this directory and of all nodes it has met.
#[derive(Debug)]
pub(crate) struct Seen {
    file: PathBuf,
    incarnation: u64,
    known: Mutex<Known>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// The incarnation of each node that was met.
    pub(super) nodes: BTreeMap<u64, u64>,
    /// The nodes that were removed from the cluster.
    pub(super) gone: BTreeSet<u64>,
}

impl Seen {
    /// Reads the file in a data directory, or makes it with a new incarnation.
    pub(crate) fn open(dir: &Path) -> Result<Seen, OpenError> {
        let file = dir.join("peers");
        let wrong = |line, problem: &str| OpenError::Identity { file: file.clone(), line, problem: problem.into() };
        match std::fs::read_to_string(&file) {
            Ok(text) => {
                let (incarnation, known) = parse(&text).map_err(|(line, problem)| wrong(line, problem))?;
                Ok(Seen { file, incarnation, known: Mutex::new(known) })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // 0 stands for one that is not known.
                let incarnation = rand::random::<u64>().max(1);
                let seen = Seen { file: file.clone(), incarnation, known: Mutex::default() };
                seen.write(&Known::default()).at("write", &file)?;
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
        !self.known.lock().nodes.is_empty()
    }

    pub(crate) fn knows(&self, node: u64) -> bool {
        self.known.lock().nodes.contains_key(&node)
    }

    /// The incarnation under which a node was met.
    pub(crate) fn of(&self, node: u64) -> Option<u64> {
        self.known.lock().nodes.get(&node).copied()
    }

    /// The nodes that were removed from the cluster, as far as this directory knows.
    pub(crate) fn gone(&self) -> BTreeSet<u64> {
        self.known.lock().gone.clone()
    }

    /// Compares a node with what is known of it; a new one is remembered durably first. May block on the disk.
    pub(crate) fn check(&self, node: u64, incarnation: u64) -> Result<(), String> {
        let mut known = self.known.lock();
        match known.nodes.get(&node) {
            Some(met) if *met == incarnation => return Ok(()),
            Some(_) => {
                return Err(format!(
                    "node {node} was known with other data, which it has lost; \
                     a node without its data must join under a new id: remove node {node} and add it anew"
                ));
            }
            None if known.nodes.len() >= NODES_MAX => return Err(format!("{NODES_MAX} nodes are known already")),
            None => {}
        }
        let mut more = known.clone();
        more.nodes.insert(node, incarnation);
        self.write(&more).map_err(|error| format!("cannot write {}: {error}", self.file.display()))?;
        *known = more;
        Ok(())
    }

    /// Remembers durably which nodes were removed. Blocks on the disk.
    pub(crate) fn remember_gone(&self, gone: &BTreeSet<u64>) -> io::Result<()> {
        let mut known = self.known.lock();
        let mut more = known.clone();
        more.gone.extend(gone);
        if more == *known || more.gone.len() > NODES_MAX {
            return Ok(());
        }
        self.write(&more)?;
        *known = more;
        Ok(())
    }

    fn write(&self, known: &Known) -> io::Result<()> {
        directory::write_whole(&self.file, render(TITLE, self.incarnation, known).as_bytes())
    }
}

pub(super) fn render(title: &str, incarnation: u64, known: &Known) -> String {
    let mut text = format!("{title}\nself {incarnation:016x}\n");
    for (node, incarnation) in &known.nodes {
        text.push_str(&format!("node {node} {incarnation:016x}\n"));
    }
    for node in &known.gone {
        text.push_str(&format!("gone {node}\n"));
    }
    let sum = leasehold_log::checksum(text.as_bytes());
    text + &format!("checksum {sum:08x}\n")
}

pub(super) fn parse(text: &str) -> Result<(u64, Known), (usize, &'static str)> {
    let mut lines = text.lines().enumerate();
    let title = lines.next().map(|(_, line)| line).filter(|title| [TITLE, OLD_TITLE].contains(title));
    let title = title.ok_or((1, "not the list of known nodes this build writes; a later build may have written it"))?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (_, own) = lines.next().unwrap_or_default();
    let incarnation = own.strip_prefix("self ").and_then(hex).ok_or((2, "the incarnation does not read"))?;
    let mut known = Known::default();
    for (line, text) in lines {
        if let Some(entry) = text.strip_prefix("node ") {
            let (node, seen) = entry.split_once(' ').ok_or((line + 1, "the node does not read"))?;
            let node = node.parse().map_err(|_| (line + 1, "the node id does not read"))?;
            known.nodes.insert(node, hex(seen).ok_or((line + 1, "the incarnation does not read"))?);
        } else if let Some(node) = text.strip_prefix("gone ") {
            known.gone.insert(node.parse().map_err(|_| (line + 1, "the node id does not read"))?);
        } else {
            break;
        }
    }
    if render(title, incarnation, &known) != text {
        return Err((known.nodes.len() + known.gone.len() + 3, "the checksum does not fit; the file is damaged"));
    }
    Ok((incarnation, known))
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

    #[test]
    fn who_was_removed_is_remembered_and_a_list_of_the_first_version_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let known = Known { nodes: BTreeMap::from([(7, 1)]), gone: BTreeSet::new() };
        std::fs::write(dir.path().join("peers"), render(OLD_TITLE, 5, &known)).unwrap();
        let seen = Seen::open(dir.path()).unwrap();
        assert_eq!((seen.incarnation(), seen.of(7)), (5, Some(1)));
        seen.remember_gone(&BTreeSet::from([7, 8])).unwrap();
        let again = Seen::open(dir.path()).unwrap();
        assert_eq!(again.gone(), BTreeSet::from([7, 8]));
        assert_eq!(again.of(7), Some(1));
    }
}
