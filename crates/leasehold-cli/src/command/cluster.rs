//! `lease cluster`: who belongs to the cluster, who leads, and changing that.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::time::Instant;

use clap::{Args, Subcommand};
use futures_util::future::join_all;
use leasehold_api::{AddMemberRequest, ClusterInfo, NodeInfo, checked_node_address, checked_node_name};
use leasehold_client::Endpoints;
use leasehold_client::http::{Error, HttpClient};
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::render::cluster as render;
use crate::render::text::plain;

/// No leader: nothing can be committed.
const NO_QUORUM: u8 = 69;
/// Whoever was asked did not permit it.
const NOT_PERMITTED: u8 = 77;

/// See who belongs to the cluster and who leads, and change it.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  lease cluster status
  lease cluster add n4 10.0.0.4:7118
  lease cluster transfer n2")]
pub(crate) enum Cluster {
    Status(Status),
    Members(Members),
    Add(Add),
    Remove(Remove),
    Transfer(Transfer),
}

/// Show how the cluster is doing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease cluster status
  LEASE_ADDR=box1:7117,box2:7117,box3:7117 lease cluster status

Every address of LEASE_ADDR is asked, and those that do not answer are told. Only the leader knows how far the others \
are: with its address among them the page says how many entries each node is behind and when it was last heard from. \
The exit code is 69 if nothing can be changed: nobody leads, or the leader is cut off.")]
pub(crate) struct Status {}

/// List the members.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease cluster members
  lease cluster members -o name")]
pub(crate) struct Members {}

/// Admit a node, and print how to start it.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  lease cluster add n4 10.0.0.4:7118

The address is the one at which other nodes reach it, not that for clients. The node becomes a voter when it was \
started with --join and has caught up.")]
pub(crate) struct Add {
    /// The name of the node
    #[arg(value_parser = name)]
    name: String,
    /// Where other nodes reach it
    #[arg(value_name = "HOST:PORT", value_parser = address)]
    address: String,
}

/// Remove a node for good.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease cluster remove n3
  lease cluster remove 619fce19f9f3b1f0 --yes

Its data is of no use any more: to return, it is added anew and starts with an empty directory. On a terminal you are \
asked first.")]
pub(crate) struct Remove {
    /// The name or id of the node
    #[arg(value_name = "NAME|ID")]
    node: String,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// Hand leadership to another node.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease cluster transfer        to the node that is most up to date
  lease cluster transfer n2

No lease ends by it and nothing is refused; commands wait for as long as it takes.")]
pub(crate) struct Transfer {
    /// The name or id of the node that is to lead
    #[arg(value_name = "NAME|ID")]
    to: Option<String>,
}

fn name(text: &str) -> Result<String, String> {
    checked_node_name(text).map(str::to_owned).map_err(|invalid| invalid.detail)
}

fn address(text: &str) -> Result<String, String> {
    checked_node_address(text).map(str::to_owned).map_err(|invalid| invalid.detail)
}

/// Carries out a command on the cluster.
pub(crate) async fn run(command: Cluster, context: &Context) -> Result<(), Failure> {
    match command {
        Cluster::Status(Status {}) => status(context).await,
        Cluster::Members(Members {}) => members(context).await,
        Cluster::Add(args) => add(args, context).await,
        Cluster::Remove(args) => remove(args, context).await,
        Cluster::Transfer(args) => transfer(args, context).await,
    }
}

async fn status(context: &Context) -> Result<(), Failure> {
    let asked = everybody(&context.settings.endpoints, &context.settings.namespace).await;
    let mut silent = Vec::new();
    let mut answers = Vec::new();
    for (addr, answer) in asked {
        match answer {
            Ok(info) => answers.push((addr, info)),
            Err(error) => silent.push(error),
        }
    }
    let Some((addr, info)) = best(&answers) else {
        let error = silent.into_iter().next().map(Failure::from);
        return Err(error.unwrap_or_else(|| Failure::new(NO_QUORUM, "there is no address to ask")));
    };
    for error in &silent {
        output::message(format!("warning: {}", plain(&error.to_string())));
    }
    let others: Vec<&ClusterInfo> = answers.iter().map(|(_, info)| info).collect();
    context.show(info, |info| info.cluster.clone(), |info| render::status(info, addr, &others))?;
    if info.leader.is_none() || !info.ready { Err(Failure::quiet(NO_QUORUM)) } else { Ok(()) }
}

/// What each address answers; all are asked at once.
async fn everybody(endpoints: &Endpoints, namespace: &str) -> Vec<(String, Result<ClusterInfo, Error>)> {
    let ask = |addr: &str| {
        let addr = addr.to_owned();
        async move {
            let answer = match addr.parse::<Endpoints>() {
                Ok(alone) => HttpClient::new(alone, namespace).cluster().await,
                Err(invalid) => Err(Error::Unreachable { addr: addr.clone(), cause: invalid.to_string() }),
            };
            (addr, answer)
        }
    };
    join_all(endpoints.iter().map(ask)).await
}

/// The answer that knows most: the leader's with the highest term, else the first that knows who leads.
fn best(answers: &[(String, ClusterInfo)]) -> Option<&(String, ClusterInfo)> {
    let worth = |info: &ClusterInfo| (info.leads, info.leader.as_ref().map_or(0, |leader| leader.term));
    answers.iter().rev().max_by_key(|(_, info)| worth(info))
}

async fn members(context: &Context) -> Result<(), Failure> {
    let info = context.client.cluster().await?;
    context.show_list("members", &info.members, |member| member.name.clone(), render::members)
}

async fn add(args: Add, context: &Context) -> Result<(), Failure> {
    let Add { name, address } = args;
    let info = context.client.cluster().await?;
    let request = AddMemberRequest { name: name.clone(), address: address.clone() };
    let added = context.client.add_member(&request).await?;
    context.show(&added, |added| added.name.clone(), |added| render::added(added, &address, &info.members))
}

/// What was removed.
#[derive(Debug, Serialize)]
struct Removed {
    removed: NodeInfo,
}

async fn remove(args: Remove, context: &Context) -> Result<(), Failure> {
    let info = context.client.cluster().await?;
    let found = info.members.iter().find(|member| member.name == args.node);
    let found = found.or_else(|| info.members.iter().find(|member| member.id.to_string() == args.node));
    let Some(member) = found else {
        let failure = Failure::new(66, format!("no member has the name or id {:?}", plain(&args.node)));
        return Err(failure.hint("see who belongs to it with  lease cluster members"));
    };
    if !args.yes && !confirmed(&render::removal(member, &info.members))? {
        return Err(Failure::outcome(NOT_PERMITTED, "nothing was changed"));
    }
    // By its id: another node could have got the name meanwhile.
    context.client.remove_member(&member.id.to_string()).await?;
    let removed = Removed { removed: NodeInfo { id: member.id, name: member.name.clone() } };
    let human = format!(
        "removed {}  id={}\n  stop it if it still runs; its data is of no use any more",
        plain(&member.name),
        member.id
    );
    context.show(&removed, |removed| removed.removed.name.clone(), |_| human)
}

/// Asks whoever sits at the terminal; without one the command itself is the answer.
fn confirmed(question: &str) -> io::Result<bool> {
    if !io::stdin().is_terminal() || !output::is_watched() {
        return Ok(true);
    }
    output::message(format!("{question} [y/N]"));
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// What came of a transfer.
#[derive(Debug, Serialize)]
struct Transferred {
    leader: NodeInfo,
    took_ms: u64,
}

async fn transfer(args: Transfer, context: &Context) -> Result<(), Failure> {
    let started = Instant::now();
    let leader = context.client.transfer(args.to.as_deref()).await?;
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let human = |done: &Transferred| format!("{} leads, after {} ms", plain(&done.leader.name), done.took_ms);
    context.show(&Transferred { leader, took_ms }, |done| done.leader.name.clone(), human)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(leads: bool, term: Option<u64>) -> (String, ClusterInfo) {
        let mut info: ClusterInfo = serde_json::from_str(include_str!("../../tests/golden/cluster.json")).unwrap();
        info.leads = leads;
        info.leader = info.leader.and_then(|leader| Some(leasehold_api::LeaderInfo { term: term?, ..leader }));
        (format!("{leads} {term:?}"), info)
    }

    #[test]
    fn the_leader_of_the_highest_term_knows_most() {
        let chosen = |answers: &[(String, ClusterInfo)]| best(answers).map(|(addr, _)| addr.clone());
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[info(false, None), info(false, Some(3))]).as_deref(), Some("false Some(3)"));
        assert_eq!(chosen(&[info(false, Some(9)), info(true, Some(3))]).as_deref(), Some("true Some(3)"));
        assert_eq!(chosen(&[info(true, Some(3)), info(true, Some(4))]).as_deref(), Some("true Some(4)"));
    }
}
