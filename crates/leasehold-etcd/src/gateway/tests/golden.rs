//! What real etcd was sent and answered.

use tonic::{Code, Status};

use super::fake::{Asked, Fake, Say};
use super::post;

const RECORDED: &str = include_str!("golden.txt");

/// One call as it was recorded.
#[derive(Default)]
struct Recorded {
    path: String,
    sent: String,
    means: Vec<Asked>,
    status: u16,
    got: Vec<String>,
    says: Vec<Say>,
}

fn recorded(text: &str) -> Recorded {
    let mut call = Recorded::default();
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "call" => call.path = format!("/v3/{rest}"),
            "sent" => call.sent = rest.to_owned(),
            "means" => {
                let (method, hex) = rest.split_once(' ').unwrap_or((rest, ""));
                call.means.push((method.to_owned(), bytes(hex)));
            }
            "status" => call.status = rest.parse().unwrap(),
            "got" => call.got.push(rest.to_owned()),
            "answer" => call.says.push(Say::Message(bytes(rest))),
            "refused" => {
                let (code, message) = rest.split_once(' ').unwrap();
                call.says.push(Say::Refuse(Status::new(Code::from(code.parse::<i32>().unwrap()), message)));
            }
            _ => panic!("{word} is no word of a recording"),
        }
    }
    call
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[tokio::test]
async fn the_gateway_answers_as_etcd_did() {
    let calls: Vec<Recorded> = RECORDED.split("\n\n").filter(|text| text.starts_with("call ")).map(recorded).collect();
    assert!(calls.len() > 60, "only {} calls were found", calls.len());
    for call in calls {
        let fake = Fake::saying(call.says);
        let (status, text) = post(&fake, &call.path, call.sent.clone()).await;
        let asked = fake.asked.lock().unwrap().clone();
        assert_eq!(asked, call.means, "{} {}", call.path, call.sent);
        assert_eq!(status, call.status, "{} {}: {text}", call.path, call.sent);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, call.got, "{} {}", call.path, call.sent);
    }
}
