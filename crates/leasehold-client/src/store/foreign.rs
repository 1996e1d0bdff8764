//! What the stores over other systems have in common: checks before anything is sent, refusals that name the holder,
//! and how long a wait may last. Servers live by their own clocks, so this counts in real time.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_api::{Code, Digest, HolderInfo, Mode, Problem, QueueInfo, RemainingText, SpanText, Timestamp};
use leasehold_core::{Holder, LeaseId, Patience, Remaining, ResourceName, Span, Ttl, WallTime};
use rand::Rng as _;
use serde::{Deserialize, Serialize};

use super::{Progress, Store, Wish};
use crate::{Error, LostCause, Moment};

/// How long the end of a lease is remembered, so that a late copy of its grant finds it over.
pub(super) const ENDED_KEPT: Duration = Duration::from_secs(600);
/// How long a server may take to accept a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a server may take to answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The bounds of the pause before looking again, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 30..120;
/// The longest ttl that is asked of another system: what their integers of seconds and milliseconds hold for sure.
const TTL_MAX: Span = Span::seconds(10 * 365 * 86_400);

/// What is written beside a lease for people to read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) holder: String,
    #[serde(default)]
    pub(super) metadata: BTreeMap<String, String>,
}

impl Note {
    /// The note of a wish, as JSON.
    pub(super) fn of(wish: &Wish) -> String {
        let note = Note { holder: wish.holder.clone(), metadata: wish.metadata.clone() };
        serde_json::to_string(&note).expect("text and maps of text serialize")
    }

    /// Reads a note; one that another program wrote is shown as it is.
    pub(super) fn read(text: &str) -> Note {
        serde_json::from_str(text).unwrap_or_else(|_| Note { holder: text.to_owned(), metadata: BTreeMap::new() })
    }
}

/// A lease of somebody else, as a store shows it.
#[derive(Clone, Debug)]
pub(super) struct Other {
    pub(super) lease: LeaseId,
    pub(super) note: Note,
    pub(super) token: u64,
    /// Since when, in milliseconds since 1970.
    pub(super) since_ms: u64,
    pub(super) held_for: Duration,
    pub(super) remaining: Remaining,
}

impl Other {
    fn info(&self) -> HolderInfo {
        HolderInfo {
            holder: self.note.holder.clone(),
            lease: Digest::of(self.lease),
            token: self.token,
            mode: Mode::Exclusive,
            since: Timestamp(WallTime(self.since_ms)),
            held_for: SpanText(span(self.held_for)),
            remaining: RemainingText(self.remaining),
            renewed_ago: SpanText(Span::ZERO),
            ending: false,
            reason: self.note.metadata.get("reason").cloned(),
            link: self.note.metadata.get("link").cloned(),
            metadata: self.note.metadata.clone(),
        }
    }
}

/// Why a wish cannot be granted now.
#[derive(Clone, Debug)]
pub(super) struct InTheWay {
    pub(super) resource: String,
    /// Who holds it; none if it ended while this was found out.
    pub(super) other: Option<Other>,
    /// The place in the queue, from 1, and how many wait; none without a queue.
    pub(super) place: Option<(u32, u32)>,
}

impl InTheWay {
    pub(super) fn progress(&self) -> Progress {
        Progress {
            resource: self.resource.clone(),
            place: self.place,
            holder: self.other.as_ref().map(Other::info),
            estimate: None,
        }
    }

    /// The refusal of a wish that was not to wait.
    pub(super) fn held(&self) -> Error {
        let by = match &self.other {
            Some(other) => format!("held by {} (token {})", other.note.holder, other.token),
            None => "wanted by others".to_owned(),
        };
        let detail = format!("{} is {by}; wait for it, or try again later", self.resource);
        Error::Held(Box::new(self.problem(Code::Held, detail)))
    }

    /// The refusal of a wish whose patience is over.
    pub(super) fn timed_out(&self) -> Error {
        let detail = format!("{} was not free within the wait", self.resource);
        let problem = Box::new(self.problem(Code::WaitElapsed, detail));
        Error::TimedOut { position: self.place.map(|(place, _)| place), problem }
    }

    fn problem(&self, code: Code, detail: String) -> Problem {
        let holders: Vec<HolderInfo> = self.other.iter().map(Other::info).collect();
        Problem {
            resource: Some(self.resource.clone()),
            holder_count: u32::try_from(holders.len()).ok(),
            holders: Some(holders),
            queue: self.place.map(|(place, length)| QueueInfo { length, position: Some(place), estimate: None }),
            ..Problem::new(code, detail)
        }
    }
}

/// How long a wait may still last: none if it is not to wait at all, the largest duration if for ever.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    began: Moment,
    patience: Patience,
}

impl Wait {
    pub(super) fn begin(patience: Patience) -> Wait {
        Wait { began: Moment::now(), patience }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The time left to wait, or the refusal if there is none.
    pub(super) fn left(&self, in_the_way: &InTheWay) -> Result<Duration, Error> {
        match self.patience {
            Patience::None => Err(in_the_way.held()),
            Patience::Endless => Ok(Duration::MAX),
            Patience::For(span) => match Duration::from_millis(span.0).checked_sub(self.elapsed()) {
                Some(left) if !left.is_zero() => Ok(left),
                Some(_) | None => Err(in_the_way.timed_out()),
            },
        }
    }
}

/// How long to pause before looking again: never the same for two waiters.
pub(super) fn pause() -> Duration {
    Duration::from_millis(rand::rng().random_range(PAUSE_MS))
}

/// Refuses a wish that makes no sense, or that `store` cannot promise to keep.
pub(super) fn check(wish: &Wish, store: &dyn Store) -> Result<(), Error> {
    wish.check(store)?;
    Holder::new(&wish.holder).map_err(|reason| Error::invalid("holder", format!("holder: {reason}")))?;
    for name in &wish.resources {
        check_resource(name)?;
    }
    if let Some(pair) = wish.resources.windows(2).find(|pair| pair[0] >= pair[1]) {
        let detail = format!("{} and {} are not in order; name each resource once, sorted", pair[0], pair[1]);
        return Err(Error::invalid("resources", detail));
    }
    match wish.ttl {
        Ttl::For(Span::ZERO) => Err(ttl_out_of_bounds("a ttl of 0 ends at once; choose a longer one".to_owned())),
        Ttl::For(span) if span > TTL_MAX => {
            Err(ttl_out_of_bounds(format!("the ttl {span} is longer than {TTL_MAX}; choose a shorter one")))
        }
        Ttl::For(_) | Ttl::Endless => Ok(()),
    }
}

/// Refuses what is not the name of a resource.
pub(super) fn check_resource(name: &str) -> Result<(), Error> {
    match ResourceName::new(name) {
        Ok(_) => Ok(()),
        Err(reason) => Err(Error::invalid("resources", format!("resource {name:?}: {reason}"))),
    }
}

/// The refusal of a ttl.
pub(super) fn ttl_out_of_bounds(detail: String) -> Error {
    let problem = Problem::new(Code::TtlOutOfBounds, detail);
    Error::Invalid(Box::new(Problem { field: Some("ttl".to_owned()), ..problem }))
}

/// The refusal of a grant whose lease is over already.
pub(super) fn ended() -> Error {
    let detail = "this lease is over: it was released or given up; grant a new one with a new id";
    Error::Conflict(Box::new(Problem::new(Code::LeaseEnded, detail)))
}

/// What a holder is told whose lease the store does not have any more; `token` is the one of the present holder.
pub(super) fn lost(wish: &Wish, token: Option<u64>) -> Error {
    let resource = wish.resources.first().cloned().unwrap_or_default();
    let cause = token.map_or(LostCause::Expired, |token| LostCause::Superseded { token });
    Error::Lost { resource, cause }
}

/// The refusal of a server that does not know or trust the caller.
pub(super) fn denied(detail: impl Into<String>) -> Error {
    Error::Denied(Box::new(Problem::new(Code::Denied, detail)))
}

/// A duration in whole milliseconds.
pub(super) fn span(duration: Duration) -> Span {
    Span(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// The ttl in milliseconds; none for a lease without end.
pub(super) fn ttl_ms(ttl: Ttl) -> Option<u64> {
    match ttl {
        Ttl::For(span) => Some(span.0),
        Ttl::Endless => None,
    }
}
