//! The service of elections: the leader is whoever was first of those whose keys are there.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use leasehold_core::{Binding, Compare, EntryView, Key, KeyRange, Operand, Relation, Revision, State, Write, WriteOp};
use leasehold_service::Feed;
use tonic::{Request, Response, Status};

use crate::contest::Contender;
use crate::dialect::{Dialect, holder, key, lease_id, lease_number, number};
use crate::errors::EtcdError;
use crate::keys::key_value;
use crate::names;
use crate::proto::v3electionpb::election_server::Election;
use crate::proto::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest, ProclaimResponse,
    ResignRequest, ResignResponse,
};
use crate::refusal::refused;
use crate::streams::{Answers, requires_leader};

#[tonic::async_trait]
impl Election for Dialect {
    async fn campaign(&self, request: Request<CampaignRequest>) -> Result<Response<CampaignResponse>, Status> {
        self.check_call(request.metadata())?;
        let holder = holder(request.extensions());
        let CampaignRequest { name, lease, value } = request.into_inner();
        let lease = self.lease_of(lease, holder).await?;
        let won = self.contend(Contender::new(&name, lease, value.clone())?).await?;
        let leader = LeaderKey {
            name,
            key: Bytes::copy_from_slice(won.entry.key.as_bytes()),
            rev: number(won.entry.created),
            lease: lease_number(Some(lease)),
        };
        let mut revision = won.revision;
        if won.entry.value[..] != value[..] {
            // It has campaigned before, and says something else now.
            revision = self.proclaim_as(&leader, value).await?;
        }
        Ok(Response::new(CampaignResponse { header: Some(self.header(revision)), leader: Some(leader) }))
    }

    async fn proclaim(&self, request: Request<ProclaimRequest>) -> Result<Response<ProclaimResponse>, Status> {
        self.check_call(request.metadata())?;
        let ProclaimRequest { leader, value } = request.into_inner();
        let revision = self.proclaim_as(&leader.ok_or(EtcdError::MissingLeader)?, value).await?;
        Ok(Response::new(ProclaimResponse { header: Some(self.header(revision)) }))
    }

    async fn leader(&self, request: Request<LeaderRequest>) -> Result<Response<LeaderResponse>, Status> {
        self.check_call(request.metadata())?;
        let all = names::contenders(&request.get_ref().name);
        let (leader, revision) = self.read(false, |state| leader(state, self, &all)).await?;
        let leader = leader.ok_or(EtcdError::ElectionNoLeader)?;
        let header = Some(self.header(revision));
        Ok(Response::new(LeaderResponse { header, kv: Some(key_value(&leader)) }))
    }

    type ObserveStream = Answers<LeaderResponse>;

    async fn observe(&self, request: Request<LeaderRequest>) -> Result<Response<Self::ObserveStream>, Status> {
        self.check_call(request.metadata())?;
        let require_leader = requires_leader(request.metadata());
        let all = names::contenders(&request.get_ref().name);
        let feed = self.service().feed(&self.caller(), self.namespace(), None).await.map_err(refused)?;
        let observer = Observer { dialect: self.clone(), all, feed, last: None, require_leader, is_over: false };
        Ok(Response::new(stream::unfold(observer, Observer::step).boxed()))
    }

    async fn resign(&self, request: Request<ResignRequest>) -> Result<Response<ResignResponse>, Status> {
        self.check_call(request.metadata())?;
        let leader = request.into_inner().leader.ok_or(EtcdError::MissingLeader)?;
        let key = key(&leader.key)?;
        let delete = WriteOp::Delete { range: KeyRange::One(key.clone()) };
        let write = Write { compares: vec![created_at(key, &leader)], then: vec![delete], ..Write::default() };
        let written = self.write(write).await?;
        Ok(Response::new(ResignResponse { header: Some(self.header(written.revision)) }))
    }
}

impl Dialect {
    async fn proclaim_as(&self, leader: &LeaderKey, value: Bytes) -> Result<Revision, Status> {
        let key = key(&leader.key)?;
        let binding = lease_id(leader.lease).map_or(Binding::None, Binding::To);
        let put = WriteOp::Put { key: key.clone(), value: Some(value[..].into()), binding };
        let write = Write { compares: vec![created_at(key, leader)], then: vec![put], ..Write::default() };
        let written = self.write(write).await?;
        if written.succeeded { Ok(written.revision) } else { Err(EtcdError::ElectionNotLeader.into()) }
    }
}

/// Holds while the key is that of the election that was won.
fn created_at(key: Key, leader: &LeaderKey) -> Compare {
    let created = Revision(u64::try_from(leader.rev).unwrap_or(0));
    Compare { range: KeyRange::One(key), relation: Relation::Equal, operand: Operand::Created(created) }
}

/// Who leads: whose key was created first.
fn leader(state: &State, dialect: &Dialect, all: &KeyRange) -> Option<EntryView> {
    let (entries, _) = state.entries(dialect.namespace(), all, usize::MAX);
    entries.into_iter().min_by_key(|entry| entry.created)
}

/// Somebody who wants to know who leads and what it says, from now on.
struct Observer {
    dialect: Dialect,
    all: KeyRange,
    feed: Feed,
    /// The key and the revision of what was told last.
    last: Option<(Key, Revision)>,
    require_leader: bool,
    is_over: bool,
}

impl Observer {
    async fn step(mut self) -> Option<(Result<LeaderResponse, Status>, Observer)> {
        if self.is_over {
            return None;
        }
        let answer = self.next().await;
        self.is_over = answer.is_err();
        Some((answer, self))
    }

    async fn next(&mut self) -> Result<LeaderResponse, Status> {
        loop {
            let look = |state: &State| leader(state, &self.dialect, &self.all);
            let (leader, revision) = self.dialect.read(self.last.is_some(), look).await?;
            let told = leader.as_ref().map(|leader| (leader.key.clone(), leader.modified));
            if let Some(leader) = leader.filter(|_| told != self.last) {
                self.last = told;
                let header = Some(self.dialect.header(revision));
                return Ok(LeaderResponse { header, kv: Some(key_value(&leader)) });
            }
            self.changed().await?;
        }
    }

    /// Returns when something about the election has changed.
    async fn changed(&mut self) -> Result<(), Status> {
        loop {
            let about = |subject: &[u8]| Key::new(subject).is_ok_and(|key| self.all.contains(&key));
            match self.feed.ready() {
                Ok(Some(changes)) => {
                    let mut facts = changes.iter().flat_map(|change| &change.events).map(|event| &event.fact);
                    if facts.any(|fact| fact.subject().is_some_and(about)) {
                        return Ok(());
                    }
                }
                Err(_) => return Ok(()),
                Ok(None) => {
                    if !self.feed.moved().await {
                        return Err(EtcdError::Stopped.into());
                    }
                    if self.require_leader {
                        self.dialect.need_leader()?;
                    }
                }
            }
        }
    }
}
