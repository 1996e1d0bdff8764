//! Answers of etcd held against ours: where they differ, it must be declared, with a reason, in
//! `tests/etcd/differences.toml`; and what is declared must differ.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

use super::clients::{Answers, Client, scripts};

/// A place where two answers differ.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) scene: String,
    /// The names and numbers that lead to the place inside the answer.
    pub(super) at: Vec<String>,
    pub(super) etcd: Value,
    pub(super) ours: Value,
}

/// A difference that is meant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Declared {
    /// The clients that see it.
    pub(super) clients: Vec<String>,
    pub(super) scene: String,
    #[serde(default)]
    pub(super) at: Vec<String>,
    /// Nothing, if it is left out: a TOML file has no word for that.
    #[serde(default)]
    pub(super) etcd: Value,
    #[serde(default)]
    pub(super) leasehold: Value,
    pub(super) why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    difference: Vec<Declared>,
}

impl Declared {
    /// All that are declared.
    pub(super) fn all() -> Vec<Declared> {
        let path = scripts().join("differences.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let file: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        file.difference
    }

    /// Those that a client sees.
    pub(super) fn of(client: &Client) -> Vec<Declared> {
        Declared::all().into_iter().filter(|declared| declared.clients.iter().any(|id| id == client.id)).collect()
    }

    fn is(&self, difference: &Difference) -> bool {
        let Difference { scene, at, etcd, ours } = difference;
        (&self.scene, &self.at, &self.etcd, &self.leasehold) == (scene, at, etcd, ours)
    }
}

/// Insists that our answers are etcd's but for what is declared for the scenes that were played. Returns how many places
/// differ.
#[track_caller]
pub(super) fn insist(client: &Client, etcd: &Answers, ours: &Answers) -> usize {
    let found = differences(etcd, ours);
    let mut declared = Declared::of(client);
    declared.retain(|one| etcd.iter().any(|(scene, _)| *scene == one.scene));
    let mut complaints = String::new();
    for difference in found.iter().filter(|difference| !declared.iter().any(|one| one.is(difference))) {
        let Difference { scene, at, etcd, ours } = difference;
        let _ = writeln!(complaints, "\n{scene}\n   at {at:?}\n   etcd: {etcd}\n   ours: {ours}");
    }
    for one in declared.iter().filter(|one| !found.iter().any(|difference| one.is(difference))) {
        let _ = writeln!(complaints, "\n{}\n   at {:?} is declared to differ, but does not (so)", one.scene, one.at);
    }
    assert!(complaints.is_empty(), "{}: answers differ from what is declared:\n{complaints}", client.name);
    found.len()
}

/// Every place where answers differ, from the outside in as far as their shapes agree.
pub(super) fn differences(etcd: &Answers, ours: &Answers) -> Vec<Difference> {
    let mut found = Vec::new();
    let missing = Value::from("(not played)");
    for (scene, answer) in etcd {
        let same_scene = ours.iter().find(|(name, _)| name == scene).map_or(&missing, |(_, answer)| answer);
        descend(scene, &mut Vec::new(), answer, same_scene, &mut found);
    }
    for (scene, answer) in ours.iter().filter(|(scene, _)| !etcd.iter().any(|(name, _)| name == scene)) {
        descend(scene, &mut Vec::new(), &missing, answer, &mut found);
    }
    found
}

fn descend(scene: &str, at: &mut Vec<String>, etcd: &Value, ours: &Value, found: &mut Vec<Difference>) {
    if etcd == ours {
        return;
    }
    let pairs: Option<Vec<(String, &Value, &Value)>> = match (etcd, ours) {
        (Value::Object(etcd), Value::Object(ours)) if etcd.keys().eq(ours.keys()) => {
            Some(etcd.iter().map(|(name, value)| (name.clone(), value, &ours[name])).collect())
        }
        (Value::Array(etcd), Value::Array(ours)) if etcd.len() == ours.len() => Some(
            etcd.iter().zip(ours).enumerate().map(|(number, (one, other))| (number.to_string(), one, other)).collect(),
        ),
        _ => None,
    };
    let Some(pairs) = pairs else {
        found.push(Difference { scene: scene.to_owned(), at: at.clone(), etcd: etcd.clone(), ours: ours.clone() });
        return;
    };
    for (name, one, other) in pairs {
        at.push(name);
        descend(scene, at, one, other, found);
        at.pop();
    }
}

#[test]
fn answers_are_compared_place_by_place() {
    let answers = |text: &str| -> Answers { vec![("a scene".to_owned(), serde_json::from_str(text).unwrap())] };
    let same = answers(r#"{"a": [1, 2], "b": {"c": "x"}}"#);
    assert_eq!(differences(&same, &same), Vec::new());
    let found = differences(&same, &answers(r#"{"a": [1, 3], "b": {"c": "y"}}"#));
    let places: Vec<Vec<String>> = found.iter().map(|difference| difference.at.clone()).collect();
    assert_eq!(places, [vec!["a".to_owned(), "1".to_owned()], vec!["b".to_owned(), "c".to_owned()]]);
    let other_shape = differences(&same, &answers(r#"{"a": [1], "b": {"c": "x"}}"#));
    assert_eq!(other_shape[0].at, ["a"]);
    assert_eq!(differences(&same, &Vec::new())[0].ours, "(not played)");
    assert_eq!(differences(&Vec::new(), &same)[0].etcd, "(not played)");
}

#[test]
fn every_declared_difference_names_clients_and_a_reason() {
    let known: Vec<&str> = super::clients::CLIENTS.iter().map(|client| client.id).collect();
    for declared in Declared::all() {
        assert!(!declared.why.is_empty() && !declared.clients.is_empty(), "{}", declared.scene);
        assert!(
            declared.clients.iter().all(|id| known.contains(&id.as_str())),
            "{}: {:?}",
            declared.scene,
            declared.clients
        );
        assert_ne!(declared.etcd, declared.leasehold, "{}", declared.scene);
    }
}
