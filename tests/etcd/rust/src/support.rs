//! What scenes are made of: a name, a function that plays it, and when it plays; and how answers are shown.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use etcd_client::{Client, Event, EventType, KeyValue, WatchStream};
use serde_json::{Value, json};

/// A ttl that does not end within a run, in seconds.
pub const LONG: i64 = 60;
/// The least that etcd grants, in seconds.
pub const SHORT: i64 = 2;

pub type Broken = Box<dyn Error + Send + Sync>;
pub type Answer = Result<Value, Broken>;
type Playing = Pin<Box<dyn Future<Output = Answer> + Send>>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    InTurn,
    /// With all others that wait for time to pass.
    Together,
    /// It changes the store for everybody.
    Last,
}

pub struct Scene {
    pub name: &'static str,
    pub when: When,
    pub play: Box<dyn Fn(Client) -> Playing + Send + Sync>,
}

/// A scene of a name and an async function.
pub fn scene<F, P>(name: &'static str, when: When, play: F) -> Scene
where
    F: Fn(Client) -> P + Send + Sync + 'static,
    P: Future<Output = Answer> + Send + 'static,
{
    Scene { name, when, play: Box::new(move |client| Box::pin(play(client))) }
}

/// How a refusal is shown to the user of the client: its code and text.
pub fn refusal<T>(answer: Result<T, etcd_client::Error>) -> Value {
    match answer {
        Ok(_) => json!("accepted"),
        Err(etcd_client::Error::GRpcStatus(status)) => json!([format!("{:?}", status.code()), status.message()]),
        Err(other) => json!([other.to_string()]),
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The value of a key, if it is there.
pub async fn value(client: &mut Client, key: &str) -> Result<Option<String>, etcd_client::Error> {
    Ok(client.get(key, None).await?.kvs().first().map(|kv| text(kv.value())))
}

/// The revision that an answer is true at.
pub fn revision(header: Option<&etcd_client::ResponseHeader>) -> i64 {
    header.map_or(0, etcd_client::ResponseHeader::revision)
}

pub fn shown(event: &Event) -> Value {
    let kind = match event.event_type() {
        EventType::Put => "put",
        EventType::Delete => "delete",
    };
    let field = |kv: Option<&KeyValue>, of: fn(&KeyValue) -> &[u8]| kv.map(|kv| text(of(kv)));
    json!([
        kind,
        field(event.kv(), KeyValue::key),
        field(event.kv(), KeyValue::value),
        field(event.prev_kv(), KeyValue::value)
    ])
}

/// The next so many events of a watch, however they are spread over answers.
pub async fn events(watch: &mut WatchStream, count: usize) -> Result<Vec<Value>, Broken> {
    let mut found = Vec::new();
    while found.len() < count {
        let answer = watch.message().await?.ok_or("the watch ended")?;
        found.extend(answer.events().iter().map(shown));
    }
    found.truncate(count);
    Ok(found)
}

/// Waits until an async look gives something.
pub async fn until<T, P: Future<Output = Result<Option<T>, etcd_client::Error>>>(
    what: &str,
    mut look: impl FnMut() -> P,
) -> Result<T, Broken> {
    let asked = Instant::now();
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if asked.elapsed() > Duration::from_secs(30) {
            return Err(format!("{what} takes too long").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
