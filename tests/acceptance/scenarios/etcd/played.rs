//! All scenes of all clients: with a real etcd, which shows that they are played right; with one node of ours and with three,
//! where the answers must be the same.
//!
//! Each client gets a server of its own with an empty store. What a real etcd answered is kept, so that it plays once per run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use super::clients::{Answers, CLIENTS, Client};
use super::compare::{Declared, insist};
use super::ours::{One, Three};
use super::real::Etcd;

/// Answers, once they are there.
type Kept = Arc<OnceLock<Option<Arc<Answers>>>>;

/// The client of this id.
pub(super) fn client(id: &str) -> &'static Client {
    CLIENTS.iter().find(|client| client.id == id).expect("it is in the list")
}

/// What a client answers with a real etcd; none if one of both is not there.
pub(super) fn with_etcd(client: &Client) -> Option<Arc<Answers>> {
    static KEPT: Mutex<BTreeMap<&str, Kept>> = Mutex::new(BTreeMap::new());
    kept(&KEPT, client, || {
        let etcd = Etcd::alone()?;
        Some(client.play(etcd.endpoint()))
    })
}

/// What a client answers with one node of ours; none if it is not there.
pub(super) fn with_one(client: &Client) -> Option<Arc<Answers>> {
    static KEPT: Mutex<BTreeMap<&str, Kept>> = Mutex::new(BTreeMap::new());
    kept(&KEPT, client, || Some(client.try_to_play(&One::start().endpoint)))
}

fn kept(
    all: &Mutex<BTreeMap<&'static str, Kept>>,
    client: &Client,
    play: impl FnOnce() -> Option<Answers>,
) -> Option<Arc<Answers>> {
    if !client.is_there() {
        return None;
    }
    let own = Arc::clone(all.lock().unwrap_or_else(std::sync::PoisonError::into_inner).entry(client.id).or_default());
    own.get_or_init(|| play().map(Arc::new)).clone()
}

fn plays_with_etcd(id: &str) {
    let Some(answers) = with_etcd(client(id)) else { return };
    assert!(answers.len() >= 10, "{id} played {} scenes only", answers.len());
    for (number, (scene, _)) in answers.iter().enumerate() {
        assert!(!answers[..number].iter().any(|(before, _)| before == scene), "{id}: two scenes are named `{scene}`");
    }
    let elsewhere = |scene: &str| scene.starts_with("without a quorum:");
    for Declared { scene, .. } in Declared::of(client(id)).iter().filter(|declared| !elsewhere(&declared.scene)) {
        assert!(
            answers.iter().any(|(played, _)| played == scene),
            "{id} plays no scene `{scene}`, which is declared to differ"
        );
    }
}

fn sees_no_difference(id: &str) {
    let client = client(id);
    let (Some(etcd), Some(ours)) = (with_etcd(client), with_one(client)) else { return };
    let count = insist(client, &etcd, &ours);
    println!("{}: {} scenes, {count} declared differences", client.name, etcd.len());
}

fn sees_no_difference_on_three_nodes(id: &str) {
    let client = client(id);
    let Some(etcd) = with_etcd(client) else { return };
    let mut three = Three::start();
    let ours = client.try_to_play(&three.follower());
    insist(client, &etcd, &ours);
}

/// The tests of one client.
macro_rules! of_client {
    ($name:ident, $id:literal) => {
        mod $name {
            #[test]
            fn plays_every_scene_with_a_real_etcd() {
                super::plays_with_etcd($id);
            }

            #[test]
            fn gets_the_same_answers_from_one_node() {
                super::sees_no_difference($id);
            }

            #[test]
            fn gets_the_same_answers_from_a_node_of_three_that_does_not_lead() {
                super::sees_no_difference_on_three_nodes($id);
            }
        }
    };
}

of_client!(python_etcd3, "python-etcd3");
of_client!(python_wire, "python-wire");
of_client!(etcdctl, "etcdctl");
of_client!(rust, "rust");
of_client!(gateway, "gateway");
of_client!(python_etcd3gw, "python-etcd3gw");
of_client!(python_aetcd, "python-aetcd");
of_client!(npm_etcd3, "npm-etcd3");

#[test]
fn every_client_has_its_tests() {
    let tests = include_str!("played.rs");
    for client in CLIENTS {
        assert!(tests.contains(&format!(", \"{}\");", client.id)), "{} has none", client.id);
    }
}
