//! Mutual TLS between nodes: a cluster works over it, and whoever cannot prove to be a node is kept out with words.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod common;

use std::io::{self, Write};
use std::sync::{Mutex, Once};
use std::time::Duration;

use common::certificates::{Ca, Shown};
use common::cluster::{Cluster, patient, until};
use common::stranger::{Introduction, REFUSED, WELCOME, read_introduction};
use common::{open_with, payloads};
use leasehold_raft::{NODE_NAME, OpenError, Options, PeerTls};
use leasehold_service::log::{Leadership, Log as _};
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Keeps what is logged from now on.
fn listen_to_log() {
    struct Keep;
    impl Write for Keep {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            LOGGED.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing_subscriber::fmt().with_ansi(false).with_writer(|| Keep).init());
}

/// Counts the lines of the log that contain all of these.
fn logged(parts: &[&str]) -> usize {
    let log = String::from_utf8_lossy(&LOGGED.lock().unwrap()).into_owned();
    log.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
}

/// A declared cluster whose nodes have certificates of one CA; the folder holds their files.
fn declared(count: usize, ca: &Ca, change: impl Fn(&mut Options)) -> (Cluster, Vec<TempDir>) {
    let dirs: Vec<_> = (0..count).map(|_| tempfile::tempdir().unwrap()).collect();
    let mut cluster = Cluster::declared(count, change);
    for (options, dir) in cluster.options.iter_mut().zip(&dirs) {
        options.peers.as_mut().unwrap().tls = Some(ca.write(dir.path(), &ca.node()));
    }
    (cluster, dirs)
}

fn address(cluster: &Cluster, at: usize) -> String {
    cluster.options[at].peers.as_ref().unwrap().listen.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_form_replicate_and_fail_over() {
    let ca = Ca::new("ca");
    let (mut cluster, _dirs) = declared(3, &ca, |_| ());
    for at in 0..3 {
        cluster.start(at).await;
    }
    cluster.propose(0..50).await;
    cluster.all_have(&payloads(50)).await;
    let first = cluster.leader().await;
    cluster.stop(first).await;
    cluster.propose(50..100).await;
    cluster.start(first).await;
    cluster.all_have(&payloads(100)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_joins_with_a_certificate_and_not_without() {
    let (ours, theirs) = (Ca::new("ours"), Ca::new("theirs"));
    let (mut cluster, _dirs) = declared(1, &ours, patient);
    cluster.start(0).await;
    let joiner = cluster.joiner("n2", 0, patient);
    let files = tempfile::tempdir().unwrap();
    for tls in [None, Some(theirs.write(files.path(), &theirs.node()))] {
        cluster.options[joiner].peers.as_mut().unwrap().tls = tls;
        let opening = open_with(cluster.options[joiner].clone());
        let waited = tokio::time::timeout(Duration::from_millis(500), opening).await;
        assert!(waited.is_err(), "it is not admitted");
    }
    assert_eq!(cluster.node(0).node.members().len(), 1);
    cluster.options[joiner].peers.as_mut().unwrap().tls = Some(ours.write(files.path(), &ours.node()));
    cluster.start(joiner).await;
    cluster.has_voters(&["n1", "n2"]).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_entries_and_snapshots_pass() {
    let ca = Ca::new("ca");
    let (mut cluster, _dirs) = declared(3, &ca, |options| {
        patient(options);
        options.log_file_records = 50;
        options.retained_entries = 10;
    });
    cluster.start(0).await;
    cluster.start(1).await;
    let leader = cluster.leader().await;
    for _ in 0..4 {
        cluster.node(leader).propose(vec![7; 3 << 20]).await.unwrap();
    }
    cluster.propose(0..200).await;
    cluster.all_have(&payloads(200)).await;
    for at in 0..2 {
        cluster.node(at).node.snapshot_now().await.unwrap();
        let files = || common::log_files(&cluster.options[at].data).len();
        until("the log behind the snapshot is gone", || files() < 4).await;
    }
    cluster.start(2).await;
    cluster.all_have(&payloads(200)).await;
    until("the snapshot is kept", || cluster.node(2).node.metrics().last_snapshot.is_some()).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_another_ca_is_kept_out_by_both_sides_until_its_files_are_right() {
    listen_to_log();
    let (ours, theirs) = (Ca::new("ours"), Ca::new("theirs"));
    let (mut cluster, dirs) = declared(3, &ours, patient);
    theirs.write(dirs[2].path(), &theirs.node());
    for at in 0..3 {
        cluster.start(at).await;
    }
    let leads = |at: usize| matches!(*cluster.node(at).node.leadership().borrow(), Leadership::Leads(_));
    until("the two of one CA elect", || leads(0) || leads(1)).await;
    let unknown = "its certificate is not of a CA that this node knows";
    let refused = "it refuses the certificate of this node, which is not of a CA that it knows";
    until("both sides say so", || {
        logged(&[&address(&cluster, 2), unknown]) > 0
            && (logged(&[&address(&cluster, 0), unknown]) > 0 || logged(&[&address(&cluster, 1), unknown]) > 0)
            && logged(&["a connection from 127.0.0.1 was closed", refused]) > 0
    })
    .await;
    let leader = if leads(0) { 0 } else { 1 };
    for payload in payloads(20) {
        cluster.node(leader).propose(payload).await.unwrap();
    }
    assert_eq!(cluster.node(2).ledger.payloads().len(), 0);
    assert_eq!(*cluster.node(2).node.leadership().borrow(), Leadership::Unknown);
    // The files are read again with every new connection: no restart is needed.
    ours.write(dirs[2].path(), &ours.node());
    cluster.all_have(&payloads(20)).await;
    cluster.stop_all().await;
}

/// Introduces itself over any stream; returns the answer.
async fn introduce(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    introduction: &Introduction,
) -> io::Result<(u8, String)> {
    stream.write_all(&introduction.bytes()).await?;
    stream.flush().await?;
    tokio::time::timeout(Duration::from_secs(30), read_introduction(&mut stream)).await?
}

async fn introduce_over_tls(cluster: &Cluster, believed: &Ca, shown: Option<&Shown>) -> io::Result<(u8, String)> {
    let stream = TcpStream::connect(address(cluster, 0)).await?;
    let name = ServerName::try_from(NODE_NAME).unwrap();
    let stream = believed.connector(shown).connect(name, stream).await?;
    introduce(stream, &Introduction::to(cluster.node(0))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_connects_must_show_the_certificate_of_a_node() {
    listen_to_log();
    let (ca, other) = (Ca::new("ca"), Ca::new("other"));
    let (mut cluster, _dirs) = declared(1, &ca, |_| ());
    cluster.start(0).await;

    let (verdict, words) = introduce_over_tls(&cluster, &ca, Some(&ca.node())).await.unwrap();
    assert_eq!((verdict, words.as_str()), (WELCOME, ""));

    // One of the same CA that is not of a node, as a client's would be.
    let client = ca.issue(&["ann.example"], 1);
    let (verdict, words) = introduce_over_tls(&cluster, &ca, Some(&client)).await.unwrap();
    assert_eq!(verdict, REFUSED);
    assert!(words.contains("lacks the name leasehold-node"), "{words}");
    assert_eq!(logged(&["was refused", "the certificate lacks the name leasehold-node"]), 1);

    let expired = ca.issue(&[NODE_NAME], -1);
    introduce_over_tls(&cluster, &ca, Some(&expired)).await.unwrap_err();
    until("expired", || logged(&["a connection from", "its certificate has expired"]) == 1).await;

    introduce_over_tls(&cluster, &ca, Some(&other.node())).await.unwrap_err();
    until("another CA", || logged(&["a connection from", "its certificate is not of a CA that this node knows"]) > 0)
        .await;

    introduce_over_tls(&cluster, &ca, None).await.unwrap_err();
    until("none", || logged(&["a connection from", "it showed no certificate"]) == 1).await;

    // Of the same name and another key is another CA.
    let namesake = Ca::new("ca");
    introduce_over_tls(&cluster, &ca, Some(&namesake.node())).await.unwrap_err();
    introduce_over_tls(&cluster, &namesake, Some(&ca.node())).await.unwrap_err();

    cluster.propose(0..5).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_stranger_is_closed_and_harms_nothing() {
    listen_to_log();
    let ca = Ca::new("ca");
    let (mut cluster, _dirs) = declared(1, &ca, |_| ());
    cluster.start(0).await;
    let stream = TcpStream::connect(address(&cluster, 0)).await.unwrap();
    let (verdict, words) = introduce(stream, &Introduction::to(cluster.node(0))).await.unwrap();
    assert_eq!(verdict, REFUSED);
    assert!(words.contains("does not use TLS, the other demands it"), "{words}");
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5], &[0; 100]] {
        let mut stream = TcpStream::connect(address(&cluster, 0)).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        let mut rest = Vec::new();
        let end = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest)).await;
        // Closed or reset, both are an end.
        drop(end.expect("the connection is closed"));
        assert!(rest.len() < 10, "no more than the word of TLS for it: {rest:?}");
    }
    // One that says nothing takes a place and nothing else.
    let silent = TcpStream::connect(address(&cluster, 0)).await.unwrap();
    introduce_over_tls(&cluster, &ca, Some(&ca.node())).await.unwrap();
    cluster.propose(0..5).await;
    drop(silent);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_connected_to_must_show_the_certificate_of_a_node() {
    listen_to_log();
    let (ca, other) = (Ca::new("ca"), Ca::new("other"));
    let cases = [
        (ca.issue(&["n2.example"], 1), "its certificate lacks the name leasehold-node"),
        (ca.issue(&[NODE_NAME], -1), "its certificate has expired"),
        (other.node(), "its certificate is not of a CA that this node knows"),
    ];
    for (shown, words) in cases {
        let (mut cluster, _dirs) = declared(2, &ca, |_| ());
        let listener = TcpListener::bind(address(&cluster, 1)).await.unwrap();
        let acceptor = ca.acceptor(&shown);
        let impostor = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    // Not one byte is told to it.
                    let mut heard = Vec::new();
                    let _ = stream.read_to_end(&mut heard).await;
                    assert_eq!(heard, b"");
                }
            }
        });
        cluster.start(0).await;
        until(words, || logged(&[&address(&cluster, 1), "cannot be reached", words]) > 0).await;
        assert!(!impostor.is_finished());
        impostor.abort();
        cluster.stop_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secure_and_a_plain_node_tell_each_other_what_is_wrong() {
    listen_to_log();
    let ca = Ca::new("ca");
    let (mut cluster, _dirs) = declared(2, &ca, |_| ());
    cluster.options[1].peers.as_mut().unwrap().tls = None;
    cluster.start(0).await;
    cluster.start(1).await;
    let (secure, plain) = (address(&cluster, 0), address(&cluster, 1));
    until("each side says it in each direction", || {
        logged(&[&secure, "it refused: the connecting node does not use TLS"]) > 0
            && logged(&[&plain, "it closed the connection instead of securing it"]) > 0
            && logged(&["a connection from", "the other side uses TLS and this node does not"]) > 0
            && logged(&["a connection from", "the connecting node does not use TLS"]) > 0
    })
    .await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_cannot_be_used_are_named_and_nothing_is_begun() {
    listen_to_log();
    let (ca, other) = (Ca::new("ca"), Ca::new("other"));
    let good = ca.node();
    let write = |dir: &TempDir, cert: &str, key: &str| {
        let shown = Shown { cert: cert.into(), key: key.into() };
        ca.write(dir.path(), &shown)
    };
    let cases: [(&str, &str, &str, &str); 6] = [
        ("", &good.key, "n.pem", "holds no certificate"),
        (&good.cert, &good.cert, "n-key.pem", "holds no private key"),
        (&good.cert, &other.node().key, "n-key.pem", "it is not the key of"),
        (&other.node().cert, &good.key, "n.pem", "not of a CA in"),
        (&ca.issue(&["n1.example"], 1).cert, &good.key, "n.pem", "lacks the name leasehold-node"),
        ("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n", &good.key, "n.pem", "cannot be used"),
    ];
    for (cert, key, file, problem) in cases {
        let dir = tempfile::tempdir().unwrap();
        let files = write(&dir, cert, key);
        let text = refused(files).await;
        assert!(text.contains(file) && text.contains(problem), "{file} {problem}: {text}");
    }
    // The clock may be wrong, and others may not need to be reached: it starts and says so.
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::declared(1, |_| ());
    let expired = ca.write(dir.path(), &ca.issue(&[NODE_NAME], -1));
    cluster.options[0].peers.as_mut().unwrap().tls = Some(expired.clone());
    cluster.start(0).await;
    assert_eq!(logged(&[&expired.cert.display().to_string(), "has expired, other nodes refuse it"]), 1);
    cluster.stop_all().await;
    for missing in ["ca.pem", "n.pem", "n-key.pem"] {
        let dir = tempfile::tempdir().unwrap();
        let files = write(&dir, &good.cert, &good.key);
        std::fs::remove_file(dir.path().join(missing)).unwrap();
        let text = refused(files).await;
        assert!(text.contains("cannot read") && text.contains(missing), "{text}");
    }
}

/// Tries to start a node with these files; returns why it does not.
async fn refused(files: PeerTls) -> String {
    let mut cluster = Cluster::declared(1, |_| ());
    cluster.options[0].peers.as_mut().unwrap().tls = Some(files);
    let options = cluster.options[0].clone();
    let data = options.data.clone();
    let error: OpenError = open_with(options).await.err().unwrap();
    assert_eq!(std::fs::read_dir(data).unwrap().count(), 0, "the data directory is as it was");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_ca_takes_the_place_of_the_old_without_a_restart() {
    listen_to_log();
    let (old, new) = (Ca::new("old"), Ca::new("new"));
    let (mut cluster, dirs) = declared(1, &old, |_| ());
    cluster.start(0).await;
    introduce_over_tls(&cluster, &old, Some(&new.node())).await.unwrap_err();
    // First both are believed, then the new one is shown, then only it is believed.
    std::fs::write(dirs[0].path().join("ca.pem"), old.pem() + &new.pem()).unwrap();
    introduce_over_tls(&cluster, &old, Some(&new.node())).await.unwrap();
    let shown = new.node();
    std::fs::write(dirs[0].path().join("n.pem"), &shown.cert).unwrap();
    // Half of it is written: what was read before stays in use.
    introduce_over_tls(&cluster, &old, Some(&new.node())).await.unwrap();
    let said = || logged(&["n-key.pem", "it is not the key of", "stays in use", &dirs[0].path().display().to_string()]);
    assert_eq!(said(), 1);
    std::fs::write(dirs[0].path().join("n-key.pem"), &shown.key).unwrap();
    introduce_over_tls(&cluster, &new, Some(&old.node())).await.unwrap();
    std::fs::write(dirs[0].path().join("ca.pem"), new.pem()).unwrap();
    introduce_over_tls(&cluster, &new, Some(&new.node())).await.unwrap();
    introduce_over_tls(&cluster, &new, Some(&old.node())).await.unwrap_err();
    cluster.stop_all().await;
}
