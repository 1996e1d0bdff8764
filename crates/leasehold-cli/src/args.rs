//! What can be typed: every command and flag, with its help.

use clap::{Args, Parser, Subcommand};
use leasehold_api::Id;
use leasehold_client::Endpoints;
use leasehold_core::{Holder, Namespace, ResourceName};

use crate::command::{
    acquire, backup, cluster, config, elect, entry, lab, manual, operator, resources, restore, run, serve, tls, top,
    watch,
};
use crate::output::Output;

/// Lends resources for a limited time: locks, elections, reservations.
///
/// `lease serve` is the server; most other commands talk to one.
#[derive(Debug, Parser)]
#[command(name = "lease", version, propagate_version = true, arg_required_else_help = true)]
#[command(max_term_width = 80)]
#[command(after_help = "\
Examples:
  lease serve                      start a server here
  lease run orders/7 -- ./job.sh   run a command while holding it
  lease acquire orders/7 --hold    hold a resource until Ctrl-C
  lease ls                         see who holds what
  lease describe orders/7          see why one is not free
  lease top                        watch it all
  lease lab fencing                see why tokens matter

Exit codes: 0 done, 2 usage, 66 not found, 69 unreachable, 73 conflict or stale token, 75 not acquired, \
77 not permitted, 78 bad configuration, 79 lease lost, 80 handed over, 124 held for too long, 126 and 127 command not \
executable or not found, 128+n died of signal n; `run` and `elect` else exit as their command does")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes. A flag goes before the environment, and that before the configuration file.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// Addresses of the servers, tried in order [env: LEASE_ADDR] [default: http://127.0.0.1:7117]
    #[arg(long, global = true, value_name = "URL,...")]
    pub(crate) addr: Option<Endpoints>,
    /// The set of names to work in [env: LEASE_NAMESPACE] [default: default]
    #[arg(long, short, global = true, value_name = "NAME", value_parser = namespace)]
    pub(crate) namespace: Option<String>,
    // Not a comment for the documentation, which would take the default for a link.
    #[arg(help = "Whom leases are granted to [env: LEASE_HOLDER] [default: user@host/pid]")]
    #[arg(long, global = true, value_name = "TEXT", value_parser = holder)]
    pub(crate) holder: Option<String>,
    /// How to show data [env: LEASE_OUTPUT] [default: human]
    #[arg(long, short, global = true, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    #[command(flatten)]
    Client(ClientCommand),
    #[command(flatten)]
    Local(LocalCommand),
}

/// What a server can be asked to do.
#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    Run(Box<run::Run>),
    Elect(Box<elect::Elect>),
    Acquire(acquire::Acquire),
    Renew(Renew),
    Release(Release),
    Show(Show),
    Ls(resources::Ls),
    Describe(resources::Describe),
    History(resources::History),
    Check(resources::Check),
    Revoke(operator::Revoke),
    RequestHandover(operator::RequestHandover),
    Watch(watch::Watch),
    Top(top::Top),
    #[command(subcommand)]
    Entry(entry::Entry),
    #[command(subcommand)]
    Cluster(cluster::Cluster),
    Backup(backup::Backup),
}

/// What needs no server.
#[derive(Debug, Subcommand)]
pub(crate) enum LocalCommand {
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Restore(restore::Restore),
    #[command(subcommand)]
    Lab(lab::Lab),
    #[command(subcommand)]
    Tls(tls::Tls),
    Completions(manual::Completions),
    #[command(name = "man")]
    Manual(manual::Manual),
}

/// Extend leases.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  lease renew 05f31c09a4e2b7d8 --ttl 30s

With several ids each gets an answer of its own; the exit code is that of the first refusal.")]
pub(crate) struct Renew {
    /// The ids that `lease acquire` printed
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<Id>,
    /// A new ttl; a shorter one counts from the next renewal
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) ttl: Option<leasehold_api::TtlText>,
}

/// Give leases back, with all they hold.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  lease release 05f31c09a4e2b7d8

Releasing a lease that has ended already is no error.")]
pub(crate) struct Release {
    /// The ids that `lease acquire` printed
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<Id>,
}

/// Show a lease with all it carries, or why it ended.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  lease show 05f31c09a4e2b7d8")]
pub(crate) struct Show {
    /// The id that `lease acquire` printed
    #[arg(value_name = "ID")]
    pub(crate) id: Id,
}

/// Reads the name of a namespace.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    Namespace::new(text).map(|name| name.to_string()).map_err(|reason| reason.to_string())
}

/// Reads the name of a holder.
pub(crate) fn holder(text: &str) -> Result<String, String> {
    Holder::new(text).map(|name| name.to_string()).map_err(|reason| reason.to_string())
}

/// Reads the name of a resource.
pub(crate) fn resource(text: &str) -> Result<String, String> {
    ResourceName::new(text).map(|name| name.to_string()).map_err(|reason| reason.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    /// Calls `look` with each command and its name, like `lease-entry-put`.
    fn sweep(look: &mut impl FnMut(&str, &mut clap::Command)) {
        fn go(name: &str, command: &mut clap::Command, look: &mut impl FnMut(&str, &mut clap::Command)) {
            look(name, command);
            for part in command.get_subcommands_mut().filter(|part| part.get_name() != "help") {
                let name = format!("{name}-{}", part.get_name());
                go(&name, part, look);
            }
        }
        let mut root = Cli::command().term_width(80);
        root.build();
        go("lease", &mut root, look);
    }

    #[test]
    fn every_command_has_an_example() {
        sweep(&mut |name, command| {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{name}");
        });
    }

    /// `UPDATE_GOLDEN=1 cargo test` records the help anew; read it before it is committed.
    #[test]
    fn help_is_as_recorded_and_fits_80_columns() {
        let is_recorded = std::env::var_os("UPDATE_GOLDEN").is_some();
        sweep(&mut |name, command| {
            let help = command.render_long_help().to_string().trim_end().to_owned() + "\n";
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
            let path = format!("tests/golden/help/{name}.txt");
            if is_recorded {
                std::fs::write(&path, &help).unwrap();
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), help, "{path}");
        });
    }

    /// A line of an example that is wrapped cannot be copied.
    #[test]
    fn examples_fit_80_columns() {
        sweep(&mut |name, command| {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().filter(|line| line.starts_with("  ")) {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
        });
    }
}
