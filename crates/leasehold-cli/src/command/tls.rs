//! `lease tls`: certificates with which the nodes of a cluster prove themselves to each other.
//!
//! What is in the folder is never overwritten: all is looked at first, and either everything that is missing is made or
//! nothing. Keys are for their owner only. How certificates are made is `certificates.rs`'s.

use std::fs;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use rustls_pki_types::DnsName;
use serde::Serialize;

use crate::args::Globals;
use crate::certificates::{self, Authority, Pair};
use crate::context;
use crate::failure::Failure;
use crate::output;
use crate::render::table::aligned;
use crate::settings::Settings;

/// The exit code for a conflict.
const CONFLICT: u8 = 73;
/// The exit code for a file that cannot be read or written.
const IO_FAILED: u8 = 74;

/// Make certificates for the connections between nodes.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Example:
  lease tls init --dir certs --node n1=10.0.0.1 --node n2=10.0.0.2")]
pub(crate) enum Tls {
    Init(Init),
}

/// Make a CA and a certificate for each node.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease tls init --dir certs --node n1 --node n2 --node n3
  lease tls init --dir certs --node n4=10.0.0.4,n4.example    one more, later
  lease serve --name n1 --peer-listen 10.0.0.1:7118 \\
    --members n1=10.0.0.1:7118,n2=10.0.0.2:7118,n3=10.0.0.3:7118 \\
    --peer-ca certs/ca.pem \\
    --peer-cert certs/n1.pem --peer-key certs/n1-key.pem

The folder gets ca.pem, ca-key.pem, and NAME.pem and NAME-key.pem for each node. What is there already is kept, so \
only what is missing is made; to renew a certificate, move its two files away first. ca.pem goes to every node, NAME.pem \
and NAME-key.pem to node NAME alone, and ca-key.pem to none: whoever has it can make nodes. The CA is valid for \
ten years.")]
pub(crate) struct Init {
    /// The folder for the files; made if it is not there
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// A node, and the names and addresses it can also be known by
    #[arg(long = "node", required = true, value_name = "NAME[=HOST,...]")]
    nodes: Vec<NodeNames>,
    /// How many days the certificates of nodes are valid
    #[arg(long, value_name = "N", default_value_t = 730, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
}

/// A node and its other names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeNames {
    name: String,
    hosts: Vec<String>,
}

impl FromStr for NodeNames {
    type Err = String;

    fn from_str(text: &str) -> Result<NodeNames, String> {
        let (name, hosts) = match text.split_once('=') {
            Some((name, hosts)) => (name, hosts.split(',').collect()),
            None => (text, Vec::new()),
        };
        if DnsName::try_from(name).is_err() {
            return Err("a name has letters, digits, `-`, `_` and `.`".into());
        }
        // Its files would be those of the CA, or of another node.
        if name.eq_ignore_ascii_case("ca") || name.to_ascii_lowercase().ends_with("-key") {
            return Err("a node cannot be called `ca`, and its name cannot end with `-key`".into());
        }
        if let Some(host) =
            hosts.iter().find(|host| host.parse::<IpAddr>().is_err() && DnsName::try_from(**host).is_err())
        {
            return Err(format!("{host:?} is neither a name nor an address; give it without a port"));
        }
        Ok(NodeNames { name: name.to_owned(), hosts: hosts.into_iter().map(str::to_owned).collect() })
    }
}

/// A file that is there now.
#[derive(Debug, Serialize)]
struct Shown {
    file: String,
    /// Whether it is new.
    made: bool,
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The last day of a new certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

/// Carries out a command on certificates.
pub(crate) fn run(command: Tls, globals: &Globals) -> Result<(), Failure> {
    let Tls::Init(args) = command;
    let output = Settings::new(globals, |name| std::env::var_os(name))?.output;
    let shown = init(&args, SystemTime::now())?;
    context::show_list(output, "files", &shown, |shown| shown.file.clone(), human)?;
    let used = args.nodes.iter().map(|node| node.name.as_str());
    output::message("lease: give each node its own files, and start it with them:");
    for name in used {
        let file = |end: &str| args.dir.join(format!("{name}{end}")).display().to_string();
        output::message(format!(
            "  lease serve --name {name} ... --peer-ca {} --peer-cert {} --peer-key {}",
            args.dir.join("ca.pem").display(),
            file(".pem"),
            file("-key.pem"),
        ));
    }
    Ok(())
}

/// The two files of a certificate.
struct Files {
    cert: PathBuf,
    key: PathBuf,
}

impl Files {
    fn of(dir: &Path, name: &str) -> Files {
        Files { cert: dir.join(format!("{name}.pem")), key: dir.join(format!("{name}-key.pem")) }
    }

    /// Says whether both are there; one alone is a conflict.
    fn are_there(&self) -> Result<bool, Failure> {
        // A link that leads nowhere is there, too: nothing is written through it.
        let there = |path: &Path| match fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(cannot("look at", path, &error)),
        };
        match (there(&self.cert)?, there(&self.key)?) {
            (true, true) => Ok(true),
            (false, false) => Ok(false),
            (true, false) => Err(half(&self.cert, &self.key)),
            (false, true) => Err(half(&self.key, &self.cert)),
        }
    }

    fn read(&self) -> Result<Pair, Failure> {
        let read = |path: &Path| fs::read_to_string(path).map_err(|error| cannot("read", path, &error));
        Ok(Pair { cert: read(&self.cert)?, key: read(&self.key)? })
    }

    fn write(&self, pair: &Pair) -> Result<(), Failure> {
        write_new(&self.key, &pair.key, 0o600)?;
        write_new(&self.cert, &pair.cert, 0o644)
    }

    fn shown(&self, node: Option<&str>, made: bool, until: String) -> [Shown; 2] {
        let (cert, key) = if node.is_some() { ("certificate", "key") } else { ("CA", "key of the CA") };
        let shown = |path: &Path, what, until| Shown {
            file: path.display().to_string(),
            made,
            what,
            node: node.map(str::to_owned),
            until,
        };
        [shown(&self.cert, cert, made.then_some(until)), shown(&self.key, key, None)]
    }
}

/// Makes what is missing; returns all files.
fn init(args: &Init, now: SystemTime) -> Result<Vec<Shown>, Failure> {
    let mut names: Vec<_> = args.nodes.iter().map(|node| node.name.to_ascii_lowercase()).collect();
    names.sort();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Failure::new(2, format!("node {} is given twice", pair[0])));
    }
    let ca = Files::of(&args.dir, "ca");
    let nodes: Vec<_> = args.nodes.iter().map(|node| (node, Files::of(&args.dir, &node.name))).collect();
    let kept: Vec<bool> = nodes.iter().map(|(_, files)| files.are_there()).collect::<Result<_, _>>()?;
    // Without its key, as it should be on a node, the CA is of use as long as it need not sign.
    let ca_kept = if kept.contains(&false) { ca.are_there()? } else { ca.cert.exists() };
    if let (false, Some(at)) = (ca_kept, kept.iter().position(|kept| *kept)) {
        // A new CA would not be the one that signed it.
        return Err(half(&nodes[at].1.cert, &ca.cert));
    }
    let refused = |reason: String| Failure::new(CONFLICT, format!("the CA in {}: {reason}", ca.cert.display()));

    let mut made = Vec::new();
    if kept.contains(&false) {
        let authority = if ca_kept { Authority::take_up(ca.read()?) } else { Authority::make(now) }.map_err(refused)?;
        if !ca_kept {
            made.push((&ca, authority.pair.clone()));
        }
        for ((node, files), _) in nodes.iter().zip(&kept).filter(|(_, kept)| !**kept) {
            let names: Vec<_> = [&node.name].into_iter().chain(&node.hosts).cloned().collect();
            made.push((files, authority.issue(&names, args.days, now).map_err(refused)?));
        }
    }
    make_dir(&args.dir)?;
    for (files, pair) in &made {
        files.write(pair)?;
    }
    let until = certificates::last_day(now, args.days);
    let shown =
        nodes.iter().zip(kept).flat_map(|((node, files), kept)| files.shown(Some(&node.name), !kept, until.clone()));
    let shown = ca.shown(None, !ca_kept, certificates::authority_last_day(now)).into_iter().chain(shown);
    Ok(shown.filter(|shown| Path::new(&shown.file).exists()).collect())
}

fn make_dir(dir: &Path) -> Result<(), Failure> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| cannot("make", dir, &error))
}

/// Writes a file that must not be there yet.
fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let open = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = open.map_err(|error| cannot("make", path, &error))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // Half a file would be taken for a whole one.
        let _ = fs::remove_file(path);
        cannot("write", path, &error)
    })
}

fn half(there: &Path, missing: &Path) -> Failure {
    let text = format!("{} is there, but {} is not; nothing was made", there.display(), missing.display());
    Failure::new(CONFLICT, text).hint("put the missing file back, or move the other away")
}

fn cannot(action: &str, path: &Path, error: &io::Error) -> Failure {
    let exit = if error.kind() == io::ErrorKind::AlreadyExists { CONFLICT } else { IO_FAILED };
    Failure::new(exit, format!("cannot {action} {}: {error}", path.display()))
}

fn human(files: &[Shown]) -> String {
    let row = |shown: &Shown| {
        let made = if shown.made { "made" } else { "kept" };
        let of = shown.node.as_ref().map_or(String::new(), |node| format!(" of {node}"));
        let until = shown.until.as_ref().map_or(String::new(), |day| format!(", until {day}"));
        vec![made.to_owned(), shown.file.clone(), format!("{}{of}{until}", shown.what)]
    };
    aligned(&files.iter().map(row).collect::<Vec<_>>()).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_name_and_hosts_without_ports() {
        let node: NodeNames = "n1=10.0.0.1,fd00::1,n1.example".parse().unwrap();
        assert_eq!((node.name.as_str(), node.hosts.len()), ("n1", 3));
        assert_eq!("n1".parse::<NodeNames>().unwrap().hosts.len(), 0);
        for text in ["", "=a", "a/b", "../n1", "n1=", "n1=a,,b", "n1=10.0.0.1:7118", "n1=a b", "ca", "CA", "n1-key"] {
            text.parse::<NodeNames>().unwrap_err();
        }
    }
}
