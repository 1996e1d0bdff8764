//! `lease config`: whether a configuration can be used, and which settings are in force.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use leasehold_server::{Config, Flags, Setting, Source};
use serde::Serialize;

use crate::args::Globals;
use crate::command::serve::PeerArgs;
use crate::context;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::table::Table;
use crate::render::text::plain;
use crate::settings::Settings;

/// Check a configuration, or show which settings are in force.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  lease config check /etc/leasehold.toml
  lease config dump")]
pub(crate) enum ConfigCommand {
    Check(Check),
    Dump(Box<Dump>),
}

/// Check a configuration file; a bad one is exit code 78.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease config check /etc/leasehold.toml    as `lease serve --config` would
  lease config check                        the client's file and environment

Nothing is started or changed. Keys that are not known are errors, told with their line and what was probably \
meant.")]
pub(crate) struct Check {
    /// The configuration file of a server; without it the client's settings are checked
    file: Option<PathBuf>,
}

/// Show every setting, its value and where it came from.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease config dump
  lease config dump --config /etc/leasehold.toml    with what that file says
  lease config dump -o json | jq '.client[]'

A flag goes before the environment, that before a file, that before the default. The flags above are those of \
`lease serve`; the settings of a server that runs elsewhere cannot be seen from here.")]
pub(crate) struct Dump {
    /// The configuration file of the server
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// As for `lease serve`
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// As for `lease serve`
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// As for `lease serve`
    #[arg(long, value_name = "ADDR")]
    etcd: Option<String>,
    /// As for `lease serve`
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    peers: PeerArgs,
}

/// A setting of the client or the server, as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    key: String,
    value: String,
    from: String,
}

/// All settings as one document.
#[derive(Debug, Serialize)]
struct All {
    client: Vec<Shown>,
    server: Vec<Shown>,
}

/// Carries out a command on configurations.
pub(crate) fn run(command: ConfigCommand, globals: &Globals) -> Result<(), Failure> {
    let env = |name: &str| std::env::var_os(name);
    match command {
        ConfigCommand::Check(Check { file: Some(file) }) => {
            let flags = Flags { config: Some(file.clone()), ..Flags::default() };
            Config::load(flags).map_err(|error| Failure::config(in_file(&file, &error.to_string())))?;
            let name = file.display().to_string();
            let output = Settings::new(globals, env)?.output;
            context::show(
                output,
                &serde_json::json!({ "file": name, "ok": true }),
                |_| name.clone(),
                |_| format!("{name}: ok"),
            )
        }
        ConfigCommand::Check(Check { file: None }) => {
            let settings = Settings::new(globals, env)?;
            let all = client(&settings);
            let human = "the client's settings: ok; see them with  lease config dump";
            context::show(
                settings.output,
                &serde_json::json!({ "client": all, "ok": true }),
                |_| "client".to_owned(),
                |_| human.to_owned(),
            )
        }
        ConfigCommand::Dump(args) => dump(*args, &Settings::new(globals, env)?),
    }
}

/// The complaint with the name of the file, which some complaints have already.
fn in_file(file: &std::path::Path, complaint: &str) -> String {
    let name = file.display().to_string();
    if complaint.contains(&name) { complaint.to_owned() } else { format!("{name}: {complaint}") }
}

fn dump(args: Dump, settings: &Settings) -> Result<(), Failure> {
    let Dump { config, listen, data, etcd, insecure, peers } = args;
    let flags = peers.into_flags(Flags { config, listen, data, etcd, insecure, ..Flags::default() });
    let server = Config::settings(&flags).map_err(|error| Failure::config(error.to_string()))?;
    let all = All { client: client(settings), server: server.into_iter().map(Shown::from).collect() };
    if settings.output == Output::Jsonl {
        let with_part = |part: &str, shown: &Shown| serde_json::json!({ "part": part, "key": shown.key, "value": shown.value, "from": shown.from });
        let lines = all.client.iter().map(|shown| with_part("client", shown));
        let lines: Vec<_> = lines.chain(all.server.iter().map(|shown| with_part("server", shown))).collect();
        return context::show_list(settings.output, "settings", &lines, |_| String::new(), |_| String::new());
    }
    context::show(settings.output, &all, names, human)
}

/// The settings of the client commands. A secret is never shown.
fn client(settings: &Settings) -> Vec<Shown> {
    let row = |key: &str, value: &str, source: &Source| Shown {
        key: key.to_owned(),
        value: plain(value),
        from: source.to_string(),
    };
    let Settings { endpoints, namespace, holder, output, sources, .. } = settings;
    let output = match output {
        Output::Human => "human",
        Output::Json => "json",
        Output::Jsonl => "jsonl",
        Output::Name => "name",
    };
    let (token, token_source) = match &sources.token {
        Some(source) => ("set, but not sent: servers do not check it yet", source),
        None => ("not set", &Source::Default),
    };
    vec![
        row("addr", &endpoints.to_string(), &sources.addr),
        row("namespace", namespace, &sources.namespace),
        row("holder", holder, &sources.holder),
        row("output", output, &sources.output),
        row("token", token, token_source),
    ]
}

fn names(all: &All) -> String {
    let keys = all.client.iter().chain(&all.server).map(|shown| shown.key.clone() + "\n");
    keys.collect()
}

fn human(all: &All) -> String {
    let part = |title: &str, rows: &[Shown]| {
        let mut table = Table::new([title, "VALUE", "FROM"]);
        for Shown { key, value, from } in rows {
            table.row([key.clone(), value.clone(), from.clone()]);
        }
        table.lines().join("\n")
    };
    format!("{}\n\n{}", part("CLIENT", &all.client), part("SERVER", &all.server))
}

impl From<Setting> for Shown {
    fn from(setting: Setting) -> Shown {
        Shown { key: setting.key, value: plain(&setting.value), from: setting.source.to_string() }
    }
}
