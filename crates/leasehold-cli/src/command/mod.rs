//! The commands, one file per group.

pub(crate) mod acquire;
pub(crate) mod backup;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod elect;
pub(crate) mod entry;
pub(crate) mod hold;
pub(crate) mod lab;
pub(crate) mod leases;
pub(crate) mod manual;
pub(crate) mod operator;
pub(crate) mod reaction;
pub(crate) mod resources;
pub(crate) mod restore;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod tls;
pub(crate) mod top;
pub(crate) mod watch;

use crate::args::{ClientCommand, Globals, LocalCommand};
use crate::context::Context;
use crate::failure::Failure;

/// Carries out a client command.
pub(crate) async fn run(command: ClientCommand, context: Context) -> Result<(), Failure> {
    match command {
        ClientCommand::Run(args) => run::run(args, &context).await,
        ClientCommand::Elect(args) => elect::run(args, &context).await,
        ClientCommand::Acquire(args) => acquire::run(args, &context).await,
        ClientCommand::Renew(args) => leases::renew(args, &context).await,
        ClientCommand::Release(args) => leases::release(args, &context).await,
        ClientCommand::Show(args) => leases::show(args, &context).await,
        ClientCommand::Ls(args) => resources::ls(args, &context).await,
        ClientCommand::Describe(args) => resources::describe(args, &context).await,
        ClientCommand::History(args) => resources::history(args, &context).await,
        ClientCommand::Check(args) => resources::check(args, &context).await,
        ClientCommand::Revoke(args) => operator::revoke(args, &context).await,
        ClientCommand::RequestHandover(args) => operator::request_handover(args, &context).await,
        ClientCommand::Watch(args) => watch::run(args, &context).await,
        ClientCommand::Top(args) => top::run(args, &context).await,
        ClientCommand::Entry(args) => entry::run(args, &context).await,
        ClientCommand::Backup(args) => backup::run(args, &context).await,
        ClientCommand::Cluster(args) => cluster::run(args, &context).await,
    }
}

/// Carries out a command that needs no server.
pub(crate) fn run_local(command: LocalCommand, globals: &Globals) -> Result<(), Failure> {
    match command {
        LocalCommand::Config(command) => config::run(command, globals),
        LocalCommand::Restore(args) => restore::run(&args, globals),
        LocalCommand::Lab(lab) => lab::run(lab, globals),
        LocalCommand::Tls(command) => tls::run(command, globals),
        LocalCommand::Completions(args) => manual::completions(&args),
        LocalCommand::Manual(args) => manual::manual(&args),
    }
}
