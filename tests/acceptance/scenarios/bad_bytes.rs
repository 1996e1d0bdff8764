//! Any bytes on the socket get an answer or a clean close; nothing crashes, and others are served meanwhile.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

use crate::clients::{LEASES, grant};
use crate::http::connect;
use crate::server::Server;

/// Sends bytes on a connection of their own and returns what comes back until the server closes or falls silent.
fn sent(server: &Server, bytes: &[u8], then_close: bool) -> String {
    let mut socket = connect(server.address).unwrap().into_inner();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The server may close before it has read everything.
    let _ = socket.write_all(bytes);
    if then_close {
        let _ = socket.shutdown(std::net::Shutdown::Write);
    }
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn garbage_gets_an_answer_or_a_clean_close() {
    let mut server = Server::start();
    let mut rng = StdRng::seed_from_u64(42);
    for round in 0..200 {
        let mut bytes = vec![0; rng.random_range(1..2000)];
        rng.fill_bytes(&mut bytes);
        if round % 3 == 0 {
            bytes.splice(0..0, *b"POST /v1/ns/default/leases HTTP/1.1\r\n");
        }
        let answer = sent(&server, &bytes, true);
        assert!(answer.is_empty() || !answer.starts_with("HTTP/1.1 2"), "{answer}");
    }
    for bytes in [
        "GET /healthz HTTP/9.9\r\n\r\n",
        "GET  HTTP/1.1\r\n\r\n",
        "POST /v1/ns/default/leases HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        "POST /v1/ns/default/leases HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
        "POST /v1/ns/default/leases HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        "POST /v1/ns/default/leases HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\nzz\r\n",
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}",
    ] {
        let answer = sent(&server, bytes.as_bytes(), true);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{bytes:?}: {answer}");
    }
    assert!(server.runs());
    server.client().post(LEASES, &grant("ann", 10_000, "a")).expect(201);
}

#[test]
fn a_head_without_end_is_refused() {
    let mut server = Server::start();
    let mut bytes = b"GET /healthz HTTP/1.1\r\nhost: x\r\n".to_vec();
    bytes.extend(format!("x-long: {}\r\n\r\n", "y".repeat(1 << 20)).into_bytes());
    let answer = sent(&server, &bytes, false);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{}", &answer[..answer.len().min(200)]);
    let mut bytes = b"GET /healthz HTTP/1.1\r\nhost: x\r\n".to_vec();
    bytes.extend((0..5000).flat_map(|n| format!("x-{n}: y\r\n").into_bytes()));
    let answer = sent(&server, &bytes, false);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{}", &answer[..answer.len().min(200)]);
    let answer = sent(&server, format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(70_000)).as_bytes(), false);
    assert!(answer.starts_with("HTTP/1.1 4"), "{}", &answer[..answer.len().min(200)]);
    assert!(server.runs());
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_sent() {
    let server = Server::start();
    let head = format!("POST {LEASES} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n");
    let request = format!("{head}content-length: {}\r\n\r\n{{", 3 << 20);
    let refused = server.client().exchange(request.as_bytes()).unwrap().refused(413, "too_large");
    assert_eq!(refused.header("connection"), Some("close"), "the rest is not read, and the caller is told");
    // Without a declared length it is read up to the limit, then refused; what is still on its way may break the answer.
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    let request = format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}{chunk}{chunk}0\r\n\r\n");
    let answer = sent(&server, request.as_bytes(), false);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(server.client().get("/v1/cluster").expect(200).revision(), 0);
}

#[test]
fn half_a_request_changes_nothing() {
    let mut server = Server::start();
    let body = r#"{"holder":"x","ttl":"10s","resource":"a"}"#;
    let head = "POST /v1/ns/default/leases HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    let whole = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    for length in (1..whole.len()).step_by(7).chain([whole.len() - 1]) {
        sent(&server, &whole.as_bytes()[..length], true);
    }
    let mut client = server.client();
    assert_eq!(client.get("/v1/cluster").expect(200).revision(), 0);
    assert!(server.runs());
    client.post(LEASES, &grant("ann", 10_000, "a")).expect(201);
}

#[test]
fn a_request_that_never_goes_on_is_cut() {
    let server = Server::start();
    let head = "POST /v1/ns/default/leases HTTP/1.1\r\nhost: x\r\n";
    let json = format!("{head}content-type: application/json\r\ncontent-length: 100\r\n\r\n{{");
    let put = "PUT /v1/ns/default/entries/k HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf";
    let cut: Vec<_> = [head.to_owned(), json, put.to_owned()]
        .into_iter()
        .map(|bytes| {
            let address = server.address;
            thread::spawn(move || {
                let mut socket = connect(address).unwrap().into_inner();
                socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                socket.write_all(bytes.as_bytes()).unwrap();
                let began = Instant::now();
                let mut answer = Vec::new();
                socket.read_to_end(&mut answer).unwrap_or_else(|error| panic!("{bytes:?} is not cut: {error}"));
                (began.elapsed(), String::from_utf8_lossy(&answer).into_owned())
            })
        })
        .collect();
    for thread in cut {
        let (after, answer) = thread.join().unwrap();
        println!("cut after {after:?}: {}", answer.lines().next().unwrap_or("without a word"));
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert_eq!(server.client().get("/v1/cluster").expect(200).revision(), 0);
}
