//! Locks of etcd's clients are claims like any other: the commands of operators show them, and jobs wait for them.

use serde_json::{Value, json};

use super::ours::One;
use crate::http::{Answer, Client};
use crate::runs::{Home, Supervised, lease, soon};

/// The text in base64, as the gateway takes it.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |chunk: &[u8]| {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        let digit = |at: usize| char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]);
        (0..4).map(|at| if at <= chunk.len() { digit(at) } else { '=' }).collect::<String>()
    };
    text.as_bytes().chunks(3).map(digits).collect()
}

fn call(client: &mut Client, path: &str, body: &Value) -> Answer {
    client.post(&format!("/v3/{path}"), body).expect(200)
}

#[test]
fn a_lock_made_through_etcd_is_described_and_waited_for() {
    let one = One::start();
    let home = Home::new();
    let address = one.server.address;
    let mut etcd = Client::new(one.endpoint.strip_prefix("http://").unwrap().parse().unwrap());
    let granted = call(&mut etcd, "lease/grant", &json!({ "TTL": 60 })).json;
    let id: i64 = granted["ID"].as_str().unwrap().parse().unwrap();
    let locked = call(&mut etcd, "lock/lock", &json!({ "name": base64("nightly"), "lease": id })).json;
    assert_eq!(locked["key"], base64(&format!("nightly/{id:x}")));

    let mut native = one.server.client();
    let described = native.get("/v1/ns/default/resources/nightly").expect(200).json;
    let holder = &described["holders"][0];
    assert!(holder["holder"].as_str().unwrap().starts_with("etcd client 127.0.0.1:"), "{described}");
    assert_eq!(holder["token"].to_string(), locked["header"]["revision"].as_str().unwrap());
    let (code, said) = lease(address, &home, &["run", "nightly", "--wait", "0", "--", "true"]);
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("held by etcd client 127.0.0.1:"), "{said}");

    // Queues, tokens and history are the same for both.
    let waiting = Supervised::start(address, &home, &["run", "nightly", "--wait", "1m", "--", "true"]);
    soon("the waiter in the queue", || {
        let queue = native.get("/v1/ns/default/resources/nightly/queue").expect(200).text;
        queue.contains("ann").then_some(())
    });
    call(&mut etcd, "lock/unlock", &json!({ "key": locked["key"] }));
    let (code, said) = waiting.end();
    assert_eq!(code, Some(0), "{said}");
    let past = soon("the history", || {
        let history = native.get("/v1/ns/default/resources/nightly/history").expect(200).text;
        history.contains("etcd client").then_some(history)
    });
    assert!(past.contains("ann"), "{past}");
}

/// The lock recipe that etcdctl, Go's `concurrency` and other clients run by themselves: a key under the name, bound to a
/// lease. The client with the oldest key under the prefix holds the lock. Returns the key, and whether it is the oldest.
fn lock_by_recipe(client: &mut Client, name: &str) -> (String, bool) {
    let granted = call(client, "lease/grant", &json!({ "TTL": 60 })).json;
    let id: i64 = granted["ID"].as_str().unwrap().parse().unwrap();
    let key = base64(&format!("{name}/{id:x}"));
    let absent = json!({ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": 0 });
    let put = json!({ "request_put": { "key": key, "lease": id } });
    call(client, "kv/txn", &json!({ "compare": [absent], "success": [put] }));
    let oldest = json!({
        "key": base64(&format!("{name}/")), "range_end": base64(&format!("{name}0")),
        "sort_target": "CREATE", "sort_order": "ASCEND", "limit": 1,
    });
    let is_oldest = call(client, "kv/range", &oldest).json["kvs"][0]["key"] == key;
    (key, is_oldest)
}

/// A cell of the table "What excludes what" in docs/dialects/etcd.md, as are the next two.
#[test]
fn etcdctl_locks_and_native_claims_do_not_exclude() {
    let one = One::start();
    let home = Home::new();
    let mut etcd = etcd_client(&one);
    assert!(lock_by_recipe(&mut etcd, "jobs").1, "the first recipe holds its lock");
    let (code, said) = lease(one.server.address, &home, &["run", "jobs", "--wait", "0", "--", "true"]);
    assert_eq!(code, Some(0), "a recipe does not exclude native claims: {said}");

    let (code, said) = lease(one.server.address, &home, &["acquire", "other", "--ttl", "1m"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(lock_by_recipe(&mut etcd, "other").1, "a native claim does not exclude recipes");
}

#[test]
fn etcdctl_locks_exclude_each_other() {
    let one = One::start();
    let mut etcd = etcd_client(&one);
    assert!(lock_by_recipe(&mut etcd, "jobs").1, "the first recipe holds its lock");
    assert!(!lock_by_recipe(&mut etcd, "jobs").1, "the second recipe waits for the first");
}

#[test]
fn etcdctl_locks_and_the_lock_service_exclude_each_other() {
    let one = One::start();
    let mut etcd = etcd_client(&one);
    let (key, is_oldest) = lock_by_recipe(&mut etcd, "jobs");
    assert!(is_oldest, "the recipe holds its lock");
    let mut service = etcd_client(&one);
    let locking = std::thread::spawn(move || {
        let granted = call(&mut service, "lease/grant", &json!({ "TTL": 60 })).json;
        call(&mut service, "lock/lock", &json!({ "name": base64("jobs"), "lease": granted["ID"] }))
    });
    let mut native = one.server.client();
    soon("the service's claim", || {
        let found = native.get("/v1/ns/default/resources/jobs");
        (found.status == 200 && !found.json["holders"].as_array().unwrap().is_empty()).then_some(())
    });
    assert!(!locking.is_finished(), "the service does not answer while the recipe's key is there");
    call(&mut etcd, "kv/deleterange", &json!({ "key": key }));
    let locked = locking.join().unwrap().json;
    assert!(locked["key"].is_string(), "{locked}");
    assert!(!lock_by_recipe(&mut etcd, "jobs").1, "the recipe waits for the lock of the service");
}

fn etcd_client(one: &One) -> Client {
    Client::new(one.endpoint.strip_prefix("http://").unwrap().parse().unwrap())
}

#[test]
fn readme_uses_one_name_per_kind_of_lock() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    // Only what a reader may copy: the text may name both to say that they do not exclude each other.
    let names = |command: &str| {
        let typed = readme.lines().filter_map(|line| line.strip_prefix("$ ")?.strip_prefix(command));
        let first = typed.filter_map(|rest| rest.split_whitespace().next());
        first.map(str::to_owned).collect::<std::collections::BTreeSet<String>>()
    };
    let (recipes, claims) = (names("etcdctl lock "), names("lease run "));
    assert!(!recipes.is_empty() && !claims.is_empty(), "{recipes:?} {claims:?}");
    let both: Vec<_> = recipes.intersection(&claims).collect();
    assert!(both.is_empty(), "`etcdctl lock` does not exclude `lease run`, but the README shows {both:?} for both");
    assert!(readme.contains("docs/dialects/etcd.md#what-excludes-what"), "the README links the table");
}
