//! `lease serve`: hands over to the server library.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use leasehold_server::{Flags, PeerWords};

/// Start a server: durable, on this machine only unless told otherwise.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease serve
  lease serve --listen 127.0.0.1:8000 --data /var/lib/leasehold
  lease serve --etcd 127.0.0.1:2379
  lease serve --name n1 --peer-listen 10.0.0.1:7118 \\
      --members n1=box1:7118,n2=box2:7118,n3=box3:7118
  lease serve --name n4 --peer-listen 10.0.0.4:7118 --join 10.0.0.1:7118

With --members every node starts with the same list, in any order. They count for an empty data directory; later \
starts go on with what the directory has. See what came of it with `lease cluster status`.")]
pub(crate) struct Serve {
    /// Where to listen [default: 127.0.0.1:7117]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Where to keep the data [default: ./leasehold-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A configuration file; flags go before it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve clients of etcd there, such as 127.0.0.1:2379
    #[arg(long, value_name = "ADDR")]
    etcd: Option<String>,
    /// Permit what is otherwise refused, such as other machines without authentication
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    peers: PeerArgs,
}

/// What is said about other nodes.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Other nodes")]
pub(crate) struct PeerArgs {
    /// The name of this node [env: LEASE_NAME]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where to meet other nodes [env: LEASE_PEER_LISTEN] [default: the own address in --members]
    #[arg(long, value_name = "ADDR")]
    peer_listen: Option<String>,
    /// Where others reach this node, if not there [env: LEASE_PEER_ADVERTISE]
    #[arg(long, value_name = "HOST:PORT")]
    peer_advertise: Option<String>,
    /// Form a cluster of these nodes, by their peer addresses [env: LEASE_MEMBERS]
    #[arg(long, value_name = "NAME=HOST:PORT,...")]
    members: Option<String>,
    /// Join the running cluster of one of these nodes, by their peer addresses [env: LEASE_JOIN]
    #[arg(long, value_name = "HOST:PORT,...")]
    join: Option<String>,
    /// The certificate of the authority that all nodes trust [env: LEASE_PEER_CA]
    #[arg(long, value_name = "FILE")]
    peer_ca: Option<String>,
    /// The certificate of this node [env: LEASE_PEER_CERT]
    #[arg(long, value_name = "FILE")]
    peer_cert: Option<String>,
    /// The key of that certificate [env: LEASE_PEER_KEY]
    #[arg(long, value_name = "FILE")]
    peer_key: Option<String>,
}

impl PeerArgs {
    /// Puts them among the flags of the server, beside what the environment says.
    pub(crate) fn into_flags(self, flags: Flags) -> Flags {
        let PeerArgs { name, peer_listen, peer_advertise, members, join, peer_ca, peer_cert, peer_key } = self;
        Flags {
            peers: PeerWords {
                name,
                listen: peer_listen,
                advertise: peer_advertise,
                members,
                join,
                ca: peer_ca,
                cert: peer_cert,
                key: peer_key,
            },
            environment: PeerWords::from_environment(|name| std::env::var(name).ok()),
            ..flags
        }
    }
}

/// Runs the server until it is told to stop.
pub(crate) fn run(args: Serve) -> ExitCode {
    let Serve { listen, data, config, etcd, insecure, peers } = args;
    leasehold_server::run(peers.into_flags(Flags { listen, data, config, etcd, insecure, ..Flags::default() }))
}
