//! `lease entry`: keys and values, bound to a lease or not.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;

use clap::{Args, Subcommand};
use leasehold_api::Id;
use leasehold_client::http::Condition;
use leasehold_core::Key;

use crate::context::{Context, all_pages};
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::render::list;

/// The most that is read from stdin: more than any value may have.
const STDIN_MAX: u64 = 64 << 20;

/// Keys and values, bound to a lease or not.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  lease entry put config/mode fast
  lease entry get config/mode")]
pub(crate) enum Entry {
    Put(Put),
    Get(Get),
    Ls(Ls),
    Rm(Rm),
}

/// Put a value under a key.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease entry put config/mode fast
  lease entry put workers/7 up --lease 05f31c09a4e2b7d8    until the lease ends
  lease entry put config/mode slow --if-revision 41        if unchanged since
  lease entry put config/blob - < blob")]
pub(crate) struct Put {
    /// The key
    key: OsString,
    /// The value; `-` reads it from stdin
    #[arg(allow_hyphen_values = true)]
    value: OsString,
    /// Bind it to a lease: it goes when the lease ends
    #[arg(long, value_name = "ID")]
    lease: Option<Id>,
    /// Only if it was last changed at this revision
    #[arg(long, value_name = "N", conflicts_with = "if_absent")]
    if_revision: Option<u64>,
    /// Only if there is none yet
    #[arg(long)]
    if_absent: bool,
}

/// Print the value under a key.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  lease entry get config/mode")]
pub(crate) struct Get {
    /// The key
    key: OsString,
}

/// List entries.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  lease entry ls config/")]
pub(crate) struct Ls {
    /// Only keys that begin so
    #[arg(default_value = "", hide_default_value = true)]
    prefix: OsString,
}

/// Remove an entry.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  lease entry rm config/mode --if-revision 41")]
pub(crate) struct Rm {
    /// The key
    key: OsString,
    /// Only if it was last changed at this revision
    #[arg(long, value_name = "N")]
    if_revision: Option<u64>,
}

/// Carries out a command on entries.
pub(crate) async fn run(command: Entry, context: &Context) -> Result<(), Failure> {
    match command {
        Entry::Put(args) => put(args, context).await,
        Entry::Get(args) => get(args, context).await,
        Entry::Ls(args) => ls(args, context).await,
        Entry::Rm(args) => rm(args, context).await,
    }
}

async fn put(args: Put, context: &Context) -> Result<(), Failure> {
    let key = key(args.key)?;
    let value = if args.value == "-" { stdin()? } else { args.value.into_vec() };
    let condition = match (args.if_revision, args.if_absent) {
        (Some(revision), _) => Condition::Revision(revision),
        (None, true) => Condition::Absent,
        (None, false) => Condition::Always,
    };
    let answer = context.client.put(&key, &value, args.lease, condition).await?;
    let name = shown(&key);
    context.show(&answer, |_| name.clone(), |answer| format!("put {name}  revision={}", answer.revision))
}

async fn get(args: Get, context: &Context) -> Result<(), Failure> {
    let entry = context.client.entry(key(args.key)?).await?;
    if context.settings.output != Output::Human {
        return context.show(&entry, list::key_of, |_| String::new());
    }
    let Some(mut value) = entry.value_bytes() else {
        return Err(Failure::new(69, format!("the server sent no value for {}", list::key_of(&entry))));
    };
    // A file or a program gets the bytes as they are; a person gets a whole line.
    if output::is_shown() && !value.ends_with(b"\n") {
        value.push(b'\n');
    }
    Ok(output::bytes(&value)?)
}

async fn ls(args: Ls, context: &Context) -> Result<(), Failure> {
    let prefix = args.prefix.into_vec();
    let entries = all_pages(async |page| {
        let part = context.client.entries(&prefix, page).await?;
        Ok((part.entries, part.next))
    })
    .await?;
    context.show_list("entries", &entries, list::key_of, list::entries)
}

async fn rm(args: Rm, context: &Context) -> Result<(), Failure> {
    let key = key(args.key)?;
    let condition = args.if_revision.map_or(Condition::Always, Condition::Revision);
    let answer = context.client.delete(&key, condition).await?;
    let name = shown(&key);
    if answer.deleted == Some(0) {
        return Err(
            Failure::new(66, format!("there is no entry {name}")).hint("see what there is with  lease entry ls")
        );
    }
    context.show(&answer, |_| name.clone(), |answer| format!("removed {name}  revision={}", answer.revision))
}

/// Checks a key, so that a bad one does not become another address.
fn key(text: OsString) -> Result<Vec<u8>, Failure> {
    let bytes = text.into_vec();
    match Key::new(&bytes) {
        Ok(_) => Ok(bytes),
        Err(reason) => Err(Failure::new(2, format!("the key {:?} is not valid: {reason}", shown(&bytes)))),
    }
}

fn shown(key: &[u8]) -> String {
    crate::render::text::excerpt(&String::from_utf8_lossy(key))
}

fn stdin() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    std::io::stdin().lock().take(STDIN_MAX).read_to_end(&mut value)?;
    Ok(value)
}
