//! The service of watches: any number of them on one stream.
//!
//! All watches of a stream read one feed of events. One that begins in the past has a feed of its own until it is where
//! the others are. What a client does not take is not kept: the feeds stand still, and whoever falls behind what is
//! remembered is told from where it can go on.

mod one;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use leasehold_core::{Fact, Revision, State};
use leasehold_service::{Change, Feed, Gone};
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};

use self::one::{One, Told};
use crate::compaction;
use crate::dialect::{Dialect, number};
use crate::errors::{EtcdError, WatchEnd};
use crate::proto::etcdserverpb::watch_request::RequestUnion;
use crate::proto::etcdserverpb::watch_server::Watch;
use crate::proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use crate::refusal::refused;
use crate::streams::{Answers, Requests};

/// The id in answers that belong to no watch.
const NO_WATCH: i64 = -1;
/// How often a watch without events tells how far it is, if it was asked to.
const PROGRESS: Duration = Duration::from_secs(600);
/// How often it is looked whether somebody leads, for those who want to know.
const LEADER_LOOK: Duration = Duration::from_millis(500);
/// How many looks in a row may find no leader.
const LEADERLESS_LOOKS: u32 = 3;

#[tonic::async_trait]
impl Watch for Dialect {
    type WatchStream = Answers<WatchResponse>;

    async fn watch(&self, request: Request<Streaming<WatchRequest>>) -> Result<Response<Self::WatchStream>, Status> {
        Ok(Response::new(self.watches(request.into())))
    }
}

impl Dialect {
    /// Serves the watches of one stream.
    pub(crate) fn watches(&self, requests: Requests<WatchRequest>) -> Answers<WatchResponse> {
        let dialect = self.clone();
        let begin = async move {
            let feed = dialect.service().feed(&dialect.caller(), dialect.namespace(), None).await;
            match feed.map_err(refused) {
                Ok(feed) => stream::unfold(Box::new(Watches::new(dialect, requests, feed)), Watches::step).boxed(),
                Err(status) => stream::iter([Err(status)]).boxed(),
            }
        };
        stream::once(begin).flatten().boxed()
    }
}

/// The watches of one stream.
struct Watches {
    dialect: Dialect,
    /// None once the client says no more.
    requests: Option<Requests<WatchRequest>>,
    require_leader: bool,
    has_token: bool,
    leaderless: u32,
    feed: Feed,
    watches: BTreeMap<i64, One>,
    next_id: i64,
    ready: VecDeque<WatchResponse>,
    /// Whether the client wants to know how far the stream is.
    progress_asked: bool,
    /// Whether any watch ever wanted to be told of progress, and when it is told next.
    wants_progress: bool,
    progress_due: Instant,
    is_over: bool,
}

impl Watches {
    fn new(dialect: Dialect, requests: Requests<WatchRequest>, feed: Feed) -> Watches {
        Watches {
            dialect,
            require_leader: requests.require_leader,
            has_token: requests.has_token,
            requests: Some(requests),
            leaderless: 0,
            feed,
            watches: BTreeMap::new(),
            next_id: 0,
            ready: VecDeque::new(),
            progress_asked: false,
            wants_progress: false,
            progress_due: Instant::now(),
            is_over: false,
        }
    }

    async fn step(mut self: Box<Watches>) -> Option<(Result<WatchResponse, Status>, Box<Watches>)> {
        if self.is_over {
            return None;
        }
        let answer = self.next().await;
        self.is_over = answer.is_err();
        Some((answer, self))
    }

    async fn next(&mut self) -> Result<WatchResponse, Status> {
        loop {
            if let Some(answer) = self.ready.pop_front() {
                return Ok(answer);
            }
            if self.read_on() {
                continue;
            }
            if std::mem::take(&mut self.progress_asked) {
                return Ok(self.answer(NO_WATCH, self.feed.seen()));
            }
            let look = Instant::now() + LEADER_LOOK;
            tokio::select! {
                request = next_request(&mut self.requests) => match request {
                    Some(Ok(request)) => self.take(request).await?,
                    Some(Err(status)) => return Err(status),
                    None => self.requests = None,
                },
                goes_on = self.feed.moved() => if !goes_on { return Err(EtcdError::Stopped.into()) },
                () = at(self.progress_due, self.wants_progress) => self.tell_progress(),
                () = at(look, self.require_leader) => self.look_for_leader()?,
            }
        }
    }

    fn answer(&self, watch_id: i64, revision: Revision) -> WatchResponse {
        WatchResponse { header: Some(self.dialect.header(revision)), watch_id, ..WatchResponse::default() }
    }

    async fn take(&mut self, request: WatchRequest) -> Result<(), Status> {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => self.create(create).await?,
            Some(RequestUnion::CancelRequest(cancel)) => self.cancel(cancel.watch_id),
            Some(RequestUnion::ProgressRequest(_)) => self.progress_asked = true,
            None => {}
        }
        Ok(())
    }

    /// Ends a watch by its client's wish; one that is not there needs no answer.
    fn cancel(&mut self, id: i64) {
        if self.watches.remove(&id).is_some() {
            let answer = self.answer(id, self.feed.seen());
            self.ready.push_back(WatchResponse { canceled: true, ..answer });
        }
    }

    async fn create(&mut self, request: WatchCreateRequest) -> Result<(), Status> {
        let present = self.feed.seen();
        if self.has_token {
            self.refuse(WatchEnd::InvalidToken);
            return Ok(());
        }
        let refusal = match (request.watch_id, One::range_of(&request)?) {
            (id, _) if id != 0 && self.watches.contains_key(&id) => Err(WatchEnd::DuplicateWatchId),
            (_, None) => Err(WatchEnd::EmptyRange),
            (_, Some(range)) => Ok(range),
        };
        let range = match refusal {
            Ok(range) => range,
            Err(end) => {
                self.refuse(end);
                return Ok(());
            }
        };
        let id = self.id_for(request.watch_id);
        self.ready.push_back(WatchResponse { created: true, ..self.answer(id, present) });
        let start = u64::try_from(request.start_revision).ok().filter(|start| *start > 0);
        let since = start.map_or(present, |start| Revision(start - 1));
        let mut one = One::new(&request, range, since);
        if since < present {
            match behind(&self.dialect, since).await? {
                Ok(feed) => one.behind = Some(feed),
                Err(oldest) => {
                    let compact_revision = number(oldest);
                    self.ready.push_back(self.compacted(id, compact_revision));
                    return Ok(());
                }
            }
        }
        if one.progress_notify && !std::mem::replace(&mut self.wants_progress, true) {
            self.progress_due = Instant::now() + PROGRESS;
        }
        self.watches.insert(id, one);
        Ok(())
    }

    /// Tells that a watch is not begun.
    fn refuse(&mut self, end: WatchEnd) {
        let answer = self.answer(NO_WATCH, self.feed.seen());
        let cancel_reason = end.reason().to_owned();
        self.ready.push_back(WatchResponse { created: true, canceled: true, cancel_reason, ..answer });
    }

    fn id_for(&mut self, asked: i64) -> i64 {
        if asked != 0 {
            return asked;
        }
        while self.watches.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }

    /// Makes answers of what is there; tells whether there was anything.
    fn read_on(&mut self) -> bool {
        let behind: Vec<i64> = self.watches.iter().filter(|(_, one)| one.behind.is_some()).map(|(id, _)| *id).collect();
        for id in &behind {
            self.catch_up(*id);
        }
        match self.feed.ready() {
            Ok(Some(changes)) => {
                self.pass_on(&changes);
                true
            }
            Ok(None) => !behind.is_empty(),
            Err(Gone { oldest }) => {
                let ids: Vec<i64> = self.watches.keys().copied().collect();
                ids.into_iter().for_each(|id| self.cut(id, oldest));
                true
            }
        }
    }

    /// Reads a piece of what a watch has missed; when it has missed nothing more it goes on with the others.
    fn catch_up(&mut self, id: i64) {
        let Some(one) = self.watches.get_mut(&id) else { return };
        let Some(feed) = &mut one.behind else { return };
        match feed.ready() {
            Ok(Some(changes)) => {
                let mut told = Told::default();
                for change in &changes {
                    one.tell(change, self.dialect.namespace(), &mut told);
                }
                self.send(id, told);
            }
            Ok(None) => {
                one.since = one.since.max(feed.seen());
                one.behind = None;
            }
            Err(Gone { oldest }) => self.cut(id, oldest),
        }
    }

    fn pass_on(&mut self, changes: &[std::sync::Arc<Change>]) {
        let namespace = self.dialect.namespace().clone();
        let is_key = |fact: &Fact| matches!(fact, Fact::EntryPut { .. } | Fact::EntryDeleted { .. });
        let mut told: BTreeMap<i64, Told> = BTreeMap::new();
        for change in changes {
            if !change.events.iter().any(|event| is_key(&event.fact) && event.namespace == namespace) {
                continue;
            }
            for (id, one) in self.watches.iter().filter(|(_, one)| one.behind.is_none()) {
                one.tell(change, &namespace, told.entry(*id).or_default());
            }
        }
        for (id, told) in told {
            self.send(id, told);
        }
    }

    fn send(&mut self, id: i64, told: Told) {
        let Some(one) = self.watches.get_mut(&id) else { return };
        let answers = told.answers(one);
        one.is_quiet &= answers.is_empty();
        for (revision, answer) in answers {
            let header = Some(self.dialect.header(revision));
            self.ready.push_back(WatchResponse { header, watch_id: id, ..answer });
        }
    }

    /// Ends a watch whose events are gone.
    fn cut(&mut self, id: i64, oldest: Revision) {
        self.watches.remove(&id);
        self.ready.push_back(self.compacted(id, number(oldest) + 1));
    }

    /// The end of a watch whose events are gone; like etcd's it tells from when on there are events, and nothing else.
    fn compacted(&self, watch_id: i64, compact_revision: i64) -> WatchResponse {
        let header = Some(self.dialect.header_without_revision());
        WatchResponse { header, watch_id, canceled: true, compact_revision, ..WatchResponse::default() }
    }

    fn tell_progress(&mut self) {
        self.progress_due = Instant::now() + PROGRESS;
        let seen = self.feed.seen();
        let mut quiet = Vec::new();
        for (id, one) in &mut self.watches {
            if one.progress_notify && std::mem::replace(&mut one.is_quiet, true) && one.behind.is_none() {
                quiet.push(*id);
            }
        }
        for id in quiet {
            let answer = self.answer(id, seen);
            self.ready.push_back(answer);
        }
    }

    fn look_for_leader(&mut self) -> Result<(), Status> {
        match self.dialect.need_leader() {
            Ok(()) => self.leaderless = 0,
            Err(_) => self.leaderless += 1,
        }
        if self.leaderless < LEADERLESS_LOOKS { Ok(()) } else { Err(EtcdError::NoLeader.into()) }
    }
}

/// Returns at a moment that is wanted; never at another. A timer is not even made for that.
async fn at(moment: Instant, wanted: bool) {
    match wanted {
        true => tokio::time::sleep_until(moment).await,
        false => std::future::pending().await,
    }
}

/// What the client says next; never, once it says no more.
async fn next_request(requests: &mut Option<Requests<WatchRequest>>) -> Option<Result<WatchRequest, Status>> {
    match requests {
        Some(requests) => requests.messages.next().await,
        None => std::future::pending().await,
    }
}

/// A feed from an earlier revision on; or else the first revision that can be watched from.
async fn behind(dialect: &Dialect, since: Revision) -> Result<Result<Feed, Revision>, Status> {
    let namespace = dialect.namespace();
    let (compacted, _) = dialect.read(true, |state: &State| compaction::compacted(state, namespace)).await?;
    if since.0 + 1 < compacted.0 {
        return Ok(Err(compacted));
    }
    match dialect.service().feed(&dialect.caller(), namespace, Some(since)).await {
        Ok(feed) => Ok(Ok(feed)),
        Err(leasehold_service::Failure::Compacted { oldest }) => Ok(Err(Revision(oldest.0 + 1).max(compacted))),
        Err(failure) => Err(refused(failure)),
    }
}
