//! Scenes that the Rust client of etcd plays with a server; their answers are written down, one JSON object per line.
//!
//! In the spirit of `../scenes.py`: a scene answers with values, texts, codes and relations, never with a raw revision,
//! lease id or time. Most play one after the other; those that wait for time to pass play together; those that change the
//! store for everybody play last. A scene that breaks ends the run with an error. With `--fail-over` and several endpoints
//! it plays what must survive the death of the first one (`fail_over.rs`), with `--without-quorum` what is told when most are
//! dead (`without_quorum.rs`).

mod elections;
mod fail_over;
mod keys;
mod leases;
mod locks;
mod support;
mod watches;
mod without_quorum;

use std::io::BufRead as _;
use std::process::ExitCode;
use std::time::Duration;

use etcd_client::Client;
use serde_json::{Value, json};
use support::{Scene, When};
use tokio::task::JoinError;
use tokio::time::error::Elapsed;

/// No scene takes longer, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let played = match arguments.as_slice() {
        [endpoint] => play(endpoint).await,
        [word, endpoints] if word == "--fail-over" => {
            let endpoints: Vec<String> = endpoints.split(',').map(str::to_owned).collect();
            fail_over::play(&endpoints).await
        }
        [word, endpoint] if word == "--without-quorum" => without_quorum::play(endpoint).await,
        [..] => {
            eprintln!(
                "usage: etcd-client-scenes ENDPOINT | --fail-over ENDPOINT,ENDPOINT,… | --without-quorum ENDPOINT"
            );
            return ExitCode::from(2);
        }
    };
    for (scene, answer) in &played {
        match answer {
            Ok(answer) => println!("{}", json!({ "scene": scene, "answer": answer })),
            Err(why) => eprintln!("--- the scene `{scene}` broke: {why}"),
        }
    }
    if played.iter().all(|(_, answer)| answer.is_ok()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says that a stage is reached and waits to be told to go on.
async fn go_on_after(stage: &str) {
    println!("{}", json!({ "reached": stage }));
    let told = tokio::task::spawn_blocking(|| std::io::stdin().lock().read_line(&mut String::new())).await;
    assert!(matches!(told, Ok(Ok(count)) if count > 0), "nobody said to go on");
}

async fn play(endpoint: &str) -> Vec<(String, Result<Value, String>)> {
    let all: Vec<Scene> = [keys::scenes(), leases::scenes(), locks::scenes(), elections::scenes(), watches::scenes()]
        .into_iter()
        .flatten()
        .collect();
    let mut answers: Vec<(String, Result<Value, String>)> =
        all.iter().map(|scene| (scene.name.to_owned(), Err("it was not played".to_owned()))).collect();
    for when in [When::InTurn, When::Together, When::Last] {
        let mut running = Vec::new();
        for (number, scene) in all.iter().enumerate().filter(|(_, scene)| scene.when == when) {
            let playing = match Client::connect([endpoint], None).await {
                Ok(client) => (scene.play)(client),
                Err(why) => Box::pin(async { Err(why.into()) }),
            };
            let playing = tokio::spawn(tokio::time::timeout(PATIENCE, playing));
            if when == When::Together {
                running.push((number, playing));
            } else {
                answers[number].1 = outcome(playing.await);
            }
        }
        for (number, playing) in running {
            answers[number].1 = outcome(playing.await);
        }
    }
    answers
}

fn outcome(played: Result<Result<support::Answer, Elapsed>, JoinError>) -> Result<Value, String> {
    played.map_err(|panic| panic.to_string())?.map_err(|late| late.to_string())?.map_err(|why| why.to_string())
}
