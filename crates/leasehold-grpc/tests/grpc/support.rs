//! A server in this process, and what tests say to it.

use std::net::SocketAddr;
use std::sync::Arc;

use leasehold_api::Problem;
use leasehold_api::grpc::cluster_client::ClusterClient;
use leasehold_api::grpc::entries_client::EntriesClient;
use leasehold_api::grpc::leases_client::LeasesClient;
use leasehold_api::grpc::resources_client::ResourcesClient;
use leasehold_api::grpc::watch_client::WatchClient;
use leasehold_api::grpc::{
    self, Answer, Cancel, Command, Down, GrantRequest, Notice, PROBLEM_TRAILER, Progress, ReleaseRequest, Up, answer,
    command,
};
use leasehold_grpc::GrpcOptions;
use leasehold_http::HttpOptions;
use leasehold_service::{Cluster, MachineClocks, MemoryLog, Options, Replica, Service};
use prost::Message as _;
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

/// A server and a connection to it.
pub(crate) struct Bench {
    pub(crate) service: Service,
    pub(crate) address: SocketAddr,
    pub(crate) channel: Channel,
}

impl Bench {
    pub(crate) async fn new() -> Bench {
        Bench::with(Options::default()).await
    }

    /// A node of this cluster.
    pub(crate) async fn of(cluster: Arc<dyn Cluster>) -> Bench {
        Bench::with(Options { cluster: Some(cluster), ..Options::default() }).await
    }

    async fn with(options: Options) -> Bench {
        let replica = Arc::new(Replica::new());
        let log = MemoryLog::start(Arc::clone(&replica));
        let service = Service::start(log, replica, MachineClocks, options);
        while !service.health().ready {
            tokio::task::yield_now().await;
        }
        let http = leasehold_http::router(service.clone(), HttpOptions::default());
        let routes = http.merge(leasehold_grpc::router(service.clone(), GrpcOptions::default()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        Bench { service, address, channel }
    }

    pub(crate) fn leases(&self) -> LeasesClient<Channel> {
        LeasesClient::new(self.channel.clone())
    }

    pub(crate) fn resources(&self) -> ResourcesClient<Channel> {
        ResourcesClient::new(self.channel.clone())
    }

    pub(crate) fn entries(&self) -> EntriesClient<Channel> {
        EntriesClient::new(self.channel.clone())
    }

    pub(crate) fn watches(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel.clone())
    }

    pub(crate) fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone())
    }

    pub(crate) async fn grant(&self, id: u64, resource: &str) -> grpc::Lease {
        self.leases().grant(grant(id, resource)).await.unwrap().into_inner()
    }

    pub(crate) async fn connect(&self) -> Stream {
        Stream::open(self.leases()).await
    }
}

/// A grant of a minute.
pub(crate) fn grant(id: u64, resource: &str) -> GrantRequest {
    GrantRequest {
        id: Some(id),
        holder: format!("holder-{id}"),
        ttl_ms: Some(60_000),
        resources: vec![resource.to_owned()],
        ..GrantRequest::default()
    }
}

/// A grant that waits for ever.
pub(crate) fn patient(id: u64, resource: &str) -> GrantRequest {
    GrantRequest { wait_forever: true, ..grant(id, resource) }
}

pub(crate) fn release(lease: u64) -> ReleaseRequest {
    ReleaseRequest { lease, ..ReleaseRequest::default() }
}

/// The problem of a refused call.
pub(crate) fn problem(status: &Status) -> Problem {
    let bytes = status.metadata().get_bin(PROBLEM_TRAILER).unwrap_or_else(|| panic!("no problem in {status:?}"));
    let problem: Problem = grpc::Problem::decode(bytes.to_bytes().unwrap()).unwrap().try_into().unwrap();
    let code = problem.known_code().expect("the code is in the table");
    assert_eq!((status.code() as i32, status.message()), (i32::from(code.grpc()), problem.detail.as_str()));
    problem
}

/// The code of a refused call.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<Response<T>, Status>) -> String {
    problem(&result.unwrap_err()).code
}

/// The revision that an answer carries.
pub(crate) fn revision<T>(response: &Response<T>) -> u64 {
    response.metadata().get("lease-revision").unwrap().to_str().unwrap().parse().unwrap()
}

/// A stream of commands, and all that came down.
pub(crate) struct Stream {
    pub(crate) up: Option<mpsc::Sender<Up>>,
    pub(crate) down: Streaming<Down>,
    answers: Vec<Answer>,
    pub(crate) progress: Vec<Progress>,
    notices: Vec<Notice>,
}

impl Stream {
    pub(crate) async fn open(mut client: LeasesClient<Channel>) -> Stream {
        let (up, taken) = mpsc::channel(16);
        let sent = futures_util::stream::unfold(taken, |mut taken: mpsc::Receiver<Up>| async move {
            taken.recv().await.map(|up| (up, taken))
        });
        let down = client.connect(sent).await.unwrap().into_inner();
        let (answers, progress, notices) = Default::default();
        Stream { up: Some(up), down, answers, progress, notices }
    }

    pub(crate) async fn send_all(&self, commands: impl IntoIterator<Item = (u64, command::Command)>) {
        let commands =
            commands.into_iter().map(|(number, command)| Command { number, command: Some(command) }).collect();
        self.up.as_ref().unwrap().send(Up { commands }).await.unwrap();
    }

    pub(crate) async fn send(&self, number: u64, command: command::Command) {
        self.send_all([(number, command)]).await;
    }

    pub(crate) async fn cancel(&self, number: u64) {
        self.send(0, command::Command::Cancel(Cancel { number })).await;
    }

    pub(crate) async fn take(&mut self) -> Result<bool, Status> {
        let Some(down) = self.down.message().await? else { return Ok(false) };
        self.answers.extend(down.answers);
        self.progress.extend(down.progress);
        self.notices.extend(down.notices);
        Ok(true)
    }

    /// The answer to a command.
    pub(crate) async fn answer(&mut self, number: u64) -> answer::Outcome {
        loop {
            if let Some(at) = self.answers.iter().position(|answer| answer.number == number) {
                let answer = self.answers.remove(at);
                assert!(answer.revision > 0 || answer.now > 0 || number > 0);
                return answer.outcome.expect("an answer has an outcome");
            }
            assert!(self.take().await.unwrap(), "the stream ended before {number} was answered");
        }
    }

    pub(crate) async fn ask(&mut self, number: u64, command: command::Command) -> answer::Outcome {
        self.send(number, command).await;
        self.answer(number).await
    }

    /// Grants over the stream.
    pub(crate) async fn granted(&mut self, number: u64, request: GrantRequest) -> grpc::Lease {
        let answered = self.ask(number, command::Command::Grant(Box::new(request))).await;
        let answer::Outcome::Granted(lease) = answered else { panic!("{answered:?}") };
        lease
    }

    /// The refusal of a command.
    pub(crate) async fn refusal(&mut self, number: u64) -> Problem {
        let answered = self.answer(number).await;
        let answer::Outcome::Problem(problem) = answered else { panic!("{answered:?}") };
        problem.try_into().unwrap()
    }

    pub(crate) async fn notice(&mut self) -> grpc::notice::Notice {
        while self.notices.is_empty() {
            assert!(self.take().await.unwrap(), "the stream ended before a notice came");
        }
        self.notices.remove(0).notice.unwrap()
    }

    pub(crate) async fn told(&mut self, count: usize) {
        while self.progress.len() < count {
            assert!(self.take().await.unwrap(), "the stream ended before progress came");
        }
    }
}
