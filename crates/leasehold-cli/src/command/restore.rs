//! `lease restore`: a new cluster from a backup, without a server.

use std::path::PathBuf;

use clap::Args;
use leasehold_api::SpanText;
use leasehold_core::Span;
use leasehold_server::{RestAfterRestore, Restored};
use serde::Serialize;

use crate::args::Globals;
use crate::command::backup::refused;
use crate::context;
use crate::failure::Failure;
use crate::output;
use crate::render::text::{plain, short};
use crate::settings::Settings;

/// Make a new cluster of one node from a backup.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease restore /backups/leasehold-monday --data /var/lib/leasehold
  lease serve --data /var/lib/leasehold

Stop what is left of the old cluster first. The whole file is verified before anything is made, and only an empty \
directory is taken. Every lease has its whole ttl ahead; tokens rise over all that were ever given out. Grants made after \
the backup are lost, but their holders may still act: until they cannot any more, no resource is granted to anybody \
new.")]
pub(crate) struct Restore {
    /// The backup
    file: PathBuf,
    /// The data directory to make; it must be empty or not there
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Grant resources at once: nobody acts on what was granted after the backup
    #[arg(long, conflicts_with = "rest")]
    no_rest: bool,
    /// How long nothing is granted to anybody new [default: the longest ttl ever granted]
    #[arg(long, value_name = "DURATION")]
    rest: Option<SpanText>,
}

/// What was restored, as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    data: String,
    cluster: String,
    revision_before: u64,
    revision: u64,
    leases: u64,
    leases_before: u64,
    entries: u64,
    rest: SpanText,
}

/// Restores a backup.
pub(crate) fn run(args: &Restore, globals: &Globals) -> Result<(), Failure> {
    let settings = Settings::new(globals, |name| std::env::var_os(name))?;
    let rest = match args.rest {
        _ if args.no_rest => RestAfterRestore::For(Span::ZERO),
        Some(rest) => RestAfterRestore::For(rest.0),
        None => RestAfterRestore::LongestTtl,
    };
    let restored = leasehold_server::restore_backup(&args.file, &args.data, rest).map_err(|error| refused(&error))?;
    if restored.clock_behind {
        output::message(
            "warning: the clock of this machine is behind the backup. Tokens are above those of the backup, but may come \
             twice if it is restored again.\n  set the clock, remove the directory and restore again",
        );
    }
    let Restored { backup, identity, revision, leases, rest, .. } = restored;
    let shown = Shown {
        data: args.data.display().to_string(),
        cluster: format!("{:032x}", identity.cluster),
        revision_before: backup.revision.0,
        revision: revision.0,
        leases,
        leases_before: backup.leases,
        entries: backup.entries,
        rest: SpanText(rest),
    };
    context::show(settings.output, &shown, |shown| shown.data.clone(), human)
}

fn human(shown: &Shown) -> String {
    let Shown { data, cluster, revision_before, revision, leases, leases_before, entries, rest } = shown;
    let waited = match leases_before - leases {
        0 => String::new(),
        waited => format!("; {waited} that waited ended"),
    };
    let rest = match rest.0 {
        Span::ZERO => "none: resources are granted at once".to_owned(),
        _ => format!("{}: until then no resource is granted to anybody new", short(*rest)),
    };
    let data = plain(data);
    format!(
        "restored into {data}\n  cluster   {cluster}, a new one\n  revision  {revision_before} in the backup, {revision} now\
         \n  leases    {leases}, each with its whole ttl ahead{waited}\n  entries   {entries}\n  rest      {rest}\n\
         start it with  lease serve --data {data}"
    )
}
