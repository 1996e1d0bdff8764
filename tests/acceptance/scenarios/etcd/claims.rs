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
