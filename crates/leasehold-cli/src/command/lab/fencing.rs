//! The demonstration of fencing: a holder sleeps through the end of its lease, and wakes up writing.
//!
//! Everything told is what happened: tokens, waits and refusals come from the server, the sleeper really stops
//! renewing, and both stores really take or refuse the writes.

use std::time::{Duration, Instant};

use leasehold_api::{Code, GrantRequest, SpanText, TtlText};
use leasehold_client::http::{Error, Granted, HttpClient};
use leasehold_core::{Patience, Span, Ttl};
use serde_json::{Value, json};

use super::Server;
use super::register::Register;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::render::text::{left, plain, short};

/// What is protected.
const RESOURCE: &str = "ledger";
const BEGINNING: u64 = 100;
const A_ADDS: u64 = 10;
const B_ADDS: u64 = 150;

/// How fast the story is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    ttl: Span,
    /// Between two lines.
    line: Duration,
}

impl Pace {
    /// For people.
    pub(crate) const CALM: Pace = Pace { ttl: Span::seconds(6), line: Duration::from_millis(1500) };
    /// For tests.
    pub(crate) const FAST: Pace = Pace { ttl: Span::seconds(1), line: Duration::from_millis(60) };
}

/// Tells the story.
pub(crate) async fn demonstrate(server: &Server, pace: Pace, output: Output) -> Result<(), Failure> {
    let mut story = Story { begun: Instant::now(), output, steps: Vec::new() };
    let mut stores = Stores { trusting: Register::trusting(BEGINNING), fenced: Register::fenced(BEGINNING) };
    story.aside(&format!("A lease server of its own runs at {} for this.", server.address()))?;
    story.aside(&format!("Two stores hold a balance of {BEGINNING}: one looks at fencing tokens, one does not."))?;
    story.aside("\n")?;

    let (a, b) = (server.client()?, server.client()?);
    let a_token = hold_and_fall_asleep(&a, pace, &mut story).await?;
    let b_token = wait_for_the_sleeper(&b, pace, &mut story).await?;
    stores.write("B", b_token, BEGINNING + B_ADDS, &mut story)?;
    tokio::time::sleep(pace.line * 2).await;
    stores.write("A", a_token, BEGINNING + A_ADDS, &mut story)?;
    tokio::time::sleep(pace.line * 2).await;
    ask_the_server(&a, a_token, &mut story).await?;
    tokio::time::sleep(pace.line).await;
    story.end(&stores)
}

/// A acquires, renews, and stops renewing before it has written; tells its token.
async fn hold_and_fall_asleep(a: &HttpClient, pace: Pace, story: &mut Story) -> Result<u64, Failure> {
    let granted = a.acquire(request("A", pace.ttl), Patience::None).granted(|_| {}).await?;
    let (a_token, ttl) = (token(&granted)?, short(SpanText(pace.ttl)));
    let (renewed, mut renewals) = tokio::sync::mpsc::channel(1);
    let (client, id, third) = (a.clone(), granted.id, Duration::from_millis(pace.ttl.0 / 3));
    let renewing = tokio::spawn(async move {
        loop {
            tokio::time::sleep(third).await;
            if renewed.send(client.renew(id, None).await).await.is_err() {
                return;
            }
        }
    });
    let about = json!({ "token": a_token, "ttl": ttl });
    story.tell("A", "acquired", about, &format!("acquires `{RESOURCE}`: token {a_token}, ttl {ttl}"))?;
    tokio::time::sleep(third / 2).await;
    let text = format!("reads {BEGINNING}, adds {A_ADDS}, is about to write {}", BEGINNING + A_ADDS);
    story.tell("A", "read", json!({ "balance": BEGINNING }), &text)?;
    if let Some(renewal) = renewals.recv().await {
        let left = renewal?.0.remaining;
        story.tell("A", "renewed", json!({ "left": left }), &format!("renews its lease: {left} left"))?;
    }
    tokio::time::sleep(pace.line).await;
    renewing.abort();
    let text = "is paused, as by a long garbage collection or a closed lid; it renews no more";
    story.tell("A", "paused", json!({}), text)?;
    tokio::time::sleep(pace.line).await;
    Ok(a_token)
}

/// B waits until A's lease ends, and tells its token.
async fn wait_for_the_sleeper(b: &HttpClient, pace: Pace, story: &mut Story) -> Result<u64, Failure> {
    // Long enough for the rest of the story: B has nothing to sleep through.
    let ttl = Span(pace.ttl.0 * 10);
    let mut acquiring = b.acquire(request("B", ttl), Patience::Endless);
    let waiting = tokio::spawn(async move { acquiring.granted(|_| {}).await });
    while b.queue(RESOURCE).await?.length == 0 && !waiting.is_finished() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let left = b.resource(RESOURCE).await?.holders.first().map(|holder| left(holder.remaining));
    let left = left.unwrap_or_else(|| "nothing".to_owned());
    let text = format!("asks for `{RESOURCE}` and waits; A's lease has {left} left");
    story.tell("B", "waits", json!({ "left": left }), &text)?;
    let granted = waiting.await.map_err(|_| Failure::new(69, "B gave up waiting"))??;
    let (b_token, waited) = (token(&granted)?, granted.lease.held.first().map(|claim| claim.waited));
    let past = b.history(RESOURCE).await?.history;
    let end = past.iter().find(|past| past.holder == "A" && past.what != "granted");
    let end = end.ok_or_else(|| Failure::new(69, "the server did not tell how A's lease ended"))?;
    let (what, held) = (plain(&end.what), end.held_for.map(short).unwrap_or_default());
    let text = format!("'s lease {what}, {held} after its grant: nobody renewed it");
    story.tell("A", &what, json!({ "token": end.token }), &text)?;
    let after = waited.map(short).unwrap_or_default();
    let text = format!("is granted `{RESOURCE}` after a wait of {after}: token {b_token}");
    story.tell("B", "acquired", json!({ "token": b_token }), &text)?;
    tokio::time::sleep(pace.line).await;
    Ok(b_token)
}

/// The sleeper finds out, too late.
async fn ask_the_server(a: &HttpClient, a_token: u64, story: &mut Story) -> Result<(), Failure> {
    match a.check(RESOURCE, a_token).await {
        Err(Error::Refused(problem)) if problem.known_code() == Some(Code::StaleToken) => {
            let told = format!("asks the server at last: {}", plain(&problem.detail));
            story.tell("A", "stale", json!({ "token": a_token }), &told)
        }
        Err(error) => Err(error.into()),
        Ok(_) => Err(Failure::new(73, "the server takes the token of the sleeper for the current one")),
    }
}

fn request(holder: &str, ttl: Span) -> GrantRequest {
    GrantRequest {
        holder: holder.to_owned(),
        ttl: Some(TtlText(Ttl::For(ttl))),
        resources: Some(vec![RESOURCE.to_owned()]),
        ..GrantRequest::default()
    }
}

fn token(granted: &Granted) -> Result<u64, Failure> {
    let claim = granted.lease.held.first();
    claim.map(|claim| claim.token).ok_or_else(|| Failure::new(69, "the server granted a lease that holds nothing"))
}

/// What is written to.
struct Stores {
    trusting: Register,
    fenced: Register,
}

impl Stores {
    /// Writes to both, and tells what came of it.
    fn write(&mut self, who: &str, token: u64, balance: u64, story: &mut Story) -> Result<(), Failure> {
        let before = self.trusting.balance();
        let text = match who {
            "A" => format!("wakes, does not know that it slept, and writes {balance} with token {token}"),
            _ => format!("reads {before}, adds {B_ADDS}, writes {balance} with token {token}"),
        };
        let taken = self.trusting.write(token, balance).is_ok();
        let fenced = self.fenced.write(token, balance);
        let (trusting, kept) = (self.trusting.balance(), self.fenced.balance());
        let about = json!({
            "token": token, "balance": balance,
            "without_fencing": { "accepted": taken, "balance": trusting },
            "with_fencing": { "accepted": fenced.is_ok(), "balance": kept },
        });
        story.tell(who, "wrote", about, &text)?;
        let lost = if before > balance { format!("  B's {B_ADDS} are lost") } else { String::new() };
        story.aside(&format!("            without fencing   accepted   balance {trusting}{lost}"))?;
        story.aside(&match fenced {
            Ok(()) => format!("            with fencing      accepted   balance {kept}"),
            Err(stale) => format!(
                "            with fencing      refused    balance {kept}  token {token} is older than {}",
                stale.newest
            ),
        })
    }
}

/// What is told, line by line or as documents.
struct Story {
    begun: Instant,
    output: Output,
    steps: Vec<Value>,
}

impl Story {
    /// Tells what somebody did.
    fn tell(&mut self, who: &str, what: &str, about: Value, text: &str) -> Result<(), Failure> {
        let at = self.begun.elapsed();
        let apart = if text.starts_with('\'') { "" } else { " " };
        let mut step = json!({ "at": format!("{}ms", at.as_millis()), "who": who, "what": what });
        if let (Some(step), Value::Object(about)) = (step.as_object_mut(), about) {
            step.extend(about);
        }
        match self.output {
            Output::Human => output::lines(format!("  {:>5.1}s    {who}{apart}{text}", at.as_secs_f64()))?,
            Output::Jsonl => output::json_line(&step)?,
            Output::Name => output::lines(what)?,
            Output::Json => {}
        }
        self.steps.push(step);
        Ok(())
    }

    /// Tells people something that is not a step.
    fn aside(&self, text: &str) -> Result<(), Failure> {
        if self.output == Output::Human {
            output::lines(text)?;
        }
        Ok(())
    }

    fn end(self, stores: &Stores) -> Result<(), Failure> {
        let (lost, kept) = (stores.trusting.balance(), stores.fenced.balance());
        self.aside(&format!(
            "\n\
             Without fencing the balance is {lost} and should not be; with fencing it is {kept}.\n\
             A lease cannot stop a holder that sleeps between its last look and its write. The token can,\n\
             if what is written to refuses any token older than the newest one it has seen.\n\
             \n\
             `lease run` hands the token to its command as LEASE_FENCING_TOKEN, and\n\
             `lease check {RESOURCE} TOKEN` tells whether it is the current one."
        ))?;
        match self.output {
            Output::Json => Ok(output::json(&json!({ "steps": self.steps }))?),
            Output::Human | Output::Jsonl | Output::Name => Ok(()),
        }
    }
}
