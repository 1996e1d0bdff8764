//! What operators ask a node: how it is, whether it has the same as others, and to hand leadership on.
//!
//! The one alarm is that of a full disk, and it is raised and taken back by the disk alone. A hash is of the entries that
//! this node has now: an older revision is answered with etcd's "compacted".

use leasehold_core::Revision;
use leasehold_service::{ClusterChange, Failure, Fingerprint};
use tonic::{Request, Response, Status};

use crate::dialect::{Dialect, SERVER_VERSION, number};
use crate::errors::EtcdError;
use crate::proto::etcdserverpb::maintenance_server::Maintenance;
use crate::proto::etcdserverpb::*;
use crate::refusal::refused;
use crate::streams::Answers;

#[tonic::async_trait]
impl Maintenance for Dialect {
    type SnapshotStream = Answers<SnapshotResponse>;

    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let asked = request.get_ref().alarm;
        let all = asked == AlarmType::None as i32;
        let alarms = self.alarms().into_iter().filter(|alarm| all || alarm.alarm == asked).collect();
        Ok(Response::new(AlarmResponse { header: Some(self.present_header()), alarms }))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let cluster = self.service().cluster(&self.caller()).map_err(refused)?;
        let header = self.present_header();
        let applied = cluster.applied.unwrap_or(0);
        let size = i64::try_from(cluster.log_bytes).unwrap_or(i64::MAX);
        let learns = |node: &leasehold_service::Member| node.node == cluster.node && !node.voter;
        Ok(Response::new(StatusResponse {
            version: SERVER_VERSION.to_owned(),
            db_size: size,
            leader: cluster.leader.unwrap_or(0),
            raft_index: cluster.last_log.unwrap_or(0).max(applied),
            raft_term: header.raft_term,
            raft_applied_index: applied,
            errors: self.complaints(cluster.leader.is_some()),
            db_size_in_use: size,
            is_learner: cluster.members.iter().any(learns),
            header: Some(header),
        }))
    }

    async fn defragment(&self, _: Request<DefragmentRequest>) -> Result<Response<DefragmentResponse>, Status> {
        // Snapshots free the log's space by themselves. etcd's answer has no header either.
        Ok(Response::new(DefragmentResponse::default()))
    }

    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        let Fingerprint { revision, hash } = self.fingerprint().await?;
        Ok(Response::new(HashResponse { header: Some(self.header(revision)), hash }))
    }

    async fn hash_kv(&self, request: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        let Fingerprint { revision, hash } = self.fingerprint().await?;
        check_revision(request.get_ref().revision, revision)?;
        let header = Some(self.header(revision));
        Ok(Response::new(HashKvResponse { header, hash, compact_revision: number(revision) }))
    }

    async fn snapshot(&self, _: Request<SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(Status::unimplemented(
            "this server writes no snapshots of etcd; `lease backup` writes everything it has to a file, and \
             `lease restore` makes a server of that",
        ))
    }

    async fn move_leader(&self, request: Request<MoveLeaderRequest>) -> Result<Response<MoveLeaderResponse>, Status> {
        let (caller, to) = (self.caller(), request.get_ref().target_id);
        let cluster = self.service().cluster(&caller).map_err(refused)?;
        if !cluster.members.iter().any(|node| node.node == to && node.voter) {
            return Err(EtcdError::BadTransferee.into());
        }
        if cluster.leader != Some(to) {
            let change = self.service().change_cluster(&caller, ClusterChange::Transfer { to: Some(to) });
            change.await.map_err(|failure| {
                let cannot = matches!(failure, Failure::ChangeRefused(_));
                if cannot { EtcdError::BadTransferee.into() } else { refused(failure) }
            })?;
        }
        // etcd's answer has no header either.
        Ok(Response::new(MoveLeaderResponse::default()))
    }

    async fn downgrade(&self, _: Request<DowngradeRequest>) -> Result<Response<DowngradeResponse>, Status> {
        Err(Status::unimplemented(
            "there is no older etcd to go back to; before another version of this server is installed, `lease backup` \
             keeps everything",
        ))
    }
}

impl Dialect {
    fn alarms(&self) -> Vec<AlarmMember> {
        let full = self.service().health().disk_full;
        let alarm = || AlarmMember { member_id: self.service().answerer().node, alarm: AlarmType::Nospace as i32 };
        full.then(alarm).into_iter().collect()
    }

    /// What is wrong with this node, in etcd's words.
    fn complaints(&self, led: bool) -> Vec<String> {
        let no_leader = (!led).then(|| EtcdError::NoLeader.text().to_owned());
        let alarm = |alarm: AlarmMember| format!("memberID:{} alarm:NOSPACE ", alarm.member_id);
        no_leader.into_iter().chain(self.alarms().into_iter().map(alarm)).collect()
    }

    async fn fingerprint(&self) -> Result<Fingerprint, Status> {
        let caller = self.caller();
        let taken = self.service().fingerprint(&caller, self.namespace());
        taken.await.map_err(refused)
    }
}

/// Whether what is asked for is what there is; 0 asks for that.
fn check_revision(asked: i64, present: Revision) -> Result<(), EtcdError> {
    match asked {
        0 => Ok(()),
        _ if asked == number(present) => Ok(()),
        _ if asked > number(present) => Err(EtcdError::FutureRevision),
        _ => Err(EtcdError::Compacted),
    }
}
