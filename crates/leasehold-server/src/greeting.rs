//! What the server says when it starts: what runs where, whom it waits for, and when it is ready.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use leasehold_service::log::Leadership;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::config::Config;
use crate::peers::{Coming, Peers};
use crate::server::Running;

/// How long it waits for a leader before it says for whom it waits.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long another node may take to answer a knock.
const KNOCK: Duration = Duration::from_millis(500);

/// Says what runs where; a closed stdout is no reason to stop.
pub(crate) fn greet(config: &Config, running: &Running) {
    let mut out = std::io::stdout().lock();
    let what = match &config.peers {
        Some(peers) => match size(peers, running) {
            Some(size) => format!("cluster of {size}, node {}", peers.name),
            None => format!("cluster, node {}", peers.name),
        },
        None => "single node".to_owned(),
    };
    let _ = writeln!(out, "leasehold {}  {what}, durable", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(out, "  data     {:<26}  (fsync on; survives restart)", config.data.display());
    let address = format!("http://{}", running.address());
    let _ = writeln!(out, "  listen   {address:<26}  (HTTP and gRPC; /openapi.json describes it)");
    if let Some(etcd) = running.etcd_address() {
        let address = format!("http://{etcd}");
        let _ = writeln!(out, "  etcd     {address:<26}  (etcd v3: gRPC and its JSON gateway)");
    }
    if let Some(peers) = &config.peers {
        let how = if peers.tls.is_some() { "mutual TLS" } else { "plain" };
        let _ = writeln!(out, "  peers    {:<26}  (other nodes; {how})", peers.listen.to_string());
    }
    let _ = out.flush();
}

/// Says that the server can be used.
pub(crate) fn ready(config: &Config, running: &Running, started: Instant) {
    let took = started.elapsed().as_millis();
    let mut out = std::io::stdout().lock();
    let _ = match &config.peers {
        None => writeln!(out, "ready in {took} ms - try:  lease run nightly -- sleep 60"),
        Some(_) => writeln!(out, "ready in {took} ms - {}; see  lease cluster status", running.standing()),
    };
    let _ = out.flush();
}

/// How many nodes the cluster has, if this one knows: one that joins learns it later.
fn size(peers: &Peers, running: &Running) -> Option<usize> {
    match (running.members().len(), &peers.coming) {
        (0 | 1, Coming::Join(_)) => None,
        (0, Coming::Members(members)) => Some(members.len()),
        (0, Coming::Alone) => Some(1),
        (known, _) => Some(known),
    }
}

/// Returns when somebody leads. If that takes long it is said once, with the nodes that are missing.
pub(crate) async fn led(peers: Option<&Peers>, mut leadership: watch::Receiver<Leadership>) {
    let known = |now: &Leadership| matches!(now, Leadership::Leads(_) | Leadership::Follows(_));
    if timeout(PATIENCE, leadership.wait_for(known)).await.is_ok() {
        return;
    }
    if let Some(peers) = peers {
        eprintln!("{}", waiting(peers, &missing(peers).await));
    }
    // A node that stops tells why by other ways.
    let _ = leadership.wait_for(known).await;
}

/// For whom the server waits.
fn waiting(peers: &Peers, missing: &[String]) -> String {
    match (&peers.coming, missing) {
        (Coming::Join(_), []) => "waiting to be let into the cluster".to_owned(),
        (Coming::Join(_), [..]) => format!("waiting to be let into the cluster: {}", unreached(missing)),
        (Coming::Alone | Coming::Members(_), []) => "waiting for a majority to choose a leader".to_owned(),
        (Coming::Alone | Coming::Members(_), [..]) => format!("waiting for a majority: {}", unreached(missing)),
    }
}

fn unreached(missing: &[String]) -> String {
    let are = if missing.len() == 1 { "is" } else { "are" };
    format!("{} {are} not reached yet", missing.join(", "))
}

/// The nodes that do not answer a knock at their door.
async fn missing(peers: &Peers) -> Vec<String> {
    let others: BTreeMap<&String, &String> = match &peers.coming {
        Coming::Alone => BTreeMap::new(),
        Coming::Members(members) => members.iter().filter(|(name, _)| **name != peers.name).collect(),
        Coming::Join(addresses) => addresses.iter().map(|address| (address, address)).collect(),
    };
    let mut missing = Vec::new();
    for (name, address) in others {
        if !matches!(timeout(KNOCK, TcpStream::connect(address)).await, Ok(Ok(_))) {
            missing.push(name.clone());
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PeerWords;

    fn peers(given: PeerWords) -> Peers {
        Peers::read(&PeerWords { name: Some("n1".into()), ..given }, false).unwrap().unwrap()
    }

    #[tokio::test]
    async fn nodes_that_are_not_there_are_named() {
        let there = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (there_at, gone_at) = (there.local_addr().unwrap(), gone.local_addr().unwrap());
        drop(gone);
        let list = format!("n1=127.0.0.1:1,n2={there_at},n3={gone_at}");
        let peers = peers(PeerWords { members: Some(list), ..PeerWords::default() });
        let missing = missing(&peers).await;
        assert_eq!(missing, ["n3"]);
        assert_eq!(waiting(&peers, &missing), "waiting for a majority: n3 is not reached yet");
        let both = ["n2".to_owned(), "n3".to_owned()];
        assert_eq!(waiting(&peers, &both), "waiting for a majority: n2, n3 are not reached yet");
    }

    #[test]
    fn a_node_that_joins_waits_to_be_let_in() {
        let (join, listen) = (Some("127.0.0.1:2".into()), Some("127.0.0.1:3".into()));
        let peers = peers(PeerWords { join, listen, ..PeerWords::default() });
        assert_eq!(waiting(&peers, &[]), "waiting to be let into the cluster");
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_on_after_it_has_said_so() {
        let (tell, leadership) = watch::channel(Leadership::Unknown);
        let waited = tokio::spawn(async move { led(None, leadership).await });
        tokio::time::sleep(PATIENCE * 3).await;
        assert!(!waited.is_finished());
        tell.send_replace(Leadership::Follows(leasehold_core::LeaderId { term: 3, node: 2 }));
        waited.await.unwrap();
    }
}
