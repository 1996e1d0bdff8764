//! Programs of other systems from Debian's packages: Redis, etcd and its `etcdctl`, PostgreSQL. Whatever runs on Java is in
//! `java.rs`.
//!
//! What is on the machine is used as it is. What is missing is downloaded and unpacked into the cache, with the shared
//! libraries it needs, so nothing is installed; only where that fails and it may is it installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Found, run};

/// Where tests find the shared libraries that came with a server.
const LIBRARIES: &str = "LEASEHOLD_PEER_LIBRARIES";
/// Libraries that must be the machine's own, or that a server only loads for what tests do not do.
const LEFT_OUT: [&str; 7] = ["libc6", "libc-bin", "libcrypt1", "libgcc-s1", "libstdc++6", "libllvm", "libpam"];

/// A program that tests start.
struct Peer {
    name: &'static str,
    /// How tests are told where it is.
    variable: &'static str,
    program: &'static str,
    /// The packages that it is in. A name with a version in it is found through the one that stands for it.
    packages: &'static [&'static str],
}

const PEERS: [Peer; 5] = [
    Peer {
        name: "redis",
        variable: "LEASEHOLD_REDIS_SERVER",
        program: "redis-server",
        packages: &["redis-server", "redis-tools"],
    },
    Peer { name: "etcd", variable: "LEASEHOLD_ETCD", program: "etcd", packages: &["etcd-server"] },
    Peer { name: "etcdctl", variable: "LEASEHOLD_ETCDCTL", program: "etcdctl", packages: &["etcd-client"] },
    // Builds the Rust client of etcd.
    Peer {
        name: "protoc",
        variable: "LEASEHOLD_PROTOC",
        program: "protoc",
        packages: &["protobuf-compiler", "libprotobuf-dev"],
    },
    Peer { name: "postgres", variable: "LEASEHOLD_POSTGRES", program: "postgres", packages: &["postgresql"] },
];

/// Finds or fetches all of them.
pub(super) fn all(cache: &Path) -> Vec<Result<Found, String>> {
    let found = PEERS.iter().map(|peer| match peer.find(cache).map_or_else(|| peer.fetch(cache), Ok) {
        Ok((path, version)) => Ok(Found { name: peer.name, variable: peer.variable, path, version }),
        Err(why) => Err(format!("{}: {why}", peer.name)),
    });
    found.collect()
}

/// The compiler of protocol files, once it was found or fetched.
pub(super) fn protoc(cache: &Path) -> Option<PathBuf> {
    let peer = PEERS.iter().find(|peer| peer.name == "protoc")?;
    peer.find(cache).map(|(path, _)| path)
}

/// Tells tests where the shared libraries are.
pub(super) fn libraries_variable(cache: &Path) -> (String, String) {
    let libraries: Vec<String> = libraries(cache).iter().map(|folder| folder.display().to_string()).collect();
    (LIBRARIES.to_owned(), libraries.join(":"))
}

impl Peer {
    /// The program on this machine or in the cache, if it runs, and its version.
    fn find(&self, cache: &Path) -> Option<(PathBuf, String)> {
        let named = std::env::var_os(self.variable).filter(|path| !path.is_empty()).map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let root = cache.join("root");
        let folders = std::env::split_paths(&path)
            .chain(postgres_folders(Path::new("/")))
            .chain([root.join("usr/bin"), root.join("usr/sbin")])
            .chain(postgres_folders(&root));
        let files = folders.map(|folder| folder.join(self.program));
        named.into_iter().chain(files).filter(|file| file.is_file()).find_map(|file| {
            let version = version(&file, cache)?;
            Some((file, version))
        })
    }

    /// Brings its packages here.
    fn fetch(&self, cache: &Path) -> Result<(PathBuf, String), String> {
        eprintln!("   {}: fetching {}", self.name, self.packages.join(", "));
        let unpacked = self.unpack(cache);
        if let (Ok(()), Some(found)) = (&unpacked, self.find(cache)) {
            return Ok(found);
        }
        let why = unpacked.err().unwrap_or_else(|| "what was unpacked does not run".to_owned());
        let mut install = Command::new("apt-get");
        install.args(["install", "--yes", "--no-install-recommends"]).args(self.packages);
        install.env("DEBIAN_FRONTEND", "noninteractive");
        match run(&mut install) {
            Ok(_) => self.find(cache).ok_or_else(|| "what was installed does not run".to_owned()),
            Err(error) => Err(format!("it can neither be unpacked ({why}) nor installed ({error})")),
        }
    }

    /// Downloads its packages with the libraries that are not on the machine, and unpacks them.
    fn unpack(&self, cache: &Path) -> Result<(), String> {
        let packages = match self.needed() {
            Ok(packages) => packages,
            // A machine that never asked knows no packages.
            Err(_) => {
                run(Command::new("apt-get").arg("update"))?;
                self.needed()?
            }
        };
        unpack(self.name, packages.iter().map(String::as_str), cache)
    }

    /// Its own packages, and the libraries they need that are not installed.
    fn needed(&self) -> Result<BTreeSet<String>, String> {
        let mut ask = Command::new("apt-cache");
        ask.args(["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks"]);
        let listed = run(ask.args(["--no-replaces", "--no-enhances"]).args(self.packages))?;
        let all = listed.lines().filter(|line| !line.starts_with([' ', '<', '|'])).map(str::trim);
        let needed: BTreeSet<String> = all.filter(|package| self.is_needed(package)).map(str::to_owned).collect();
        if needed.is_empty() { Err(format!("apt knows no package {}", self.packages.join(", "))) } else { Ok(needed) }
    }

    fn is_needed(&self, package: &str) -> bool {
        let own = self.packages.iter().any(|own| {
            // `postgresql` stands for `postgresql-15`, or whatever this release of Debian has.
            package == *own
                || package.strip_prefix(*own).is_some_and(|rest| rest.trim_start_matches('-').parse::<u32>().is_ok())
        });
        let left_out = LEFT_OUT.iter().any(|name| package.starts_with(name));
        own || (package.starts_with("lib") && !left_out && !is_installed(package))
    }
}

/// Downloads packages and unpacks them into the cache.
pub(super) fn unpack<'a>(name: &str, packages: impl Iterator<Item = &'a str>, cache: &Path) -> Result<(), String> {
    let packages: Vec<&str> = packages.collect();
    let folder = cache.join("packages").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let download = || run(Command::new("apt-get").arg("download").args(&packages).current_dir(&folder));
    if download().is_err() {
        // The versions that the machine knows of may be gone.
        run(Command::new("apt-get").arg("update"))?;
        download()?;
    }
    let files = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for file in files.flatten() {
        run(Command::new("dpkg").arg("-x").arg(file.path()).arg(cache.join("root")))?;
    }
    Ok(())
}

fn is_installed(package: &str) -> bool {
    run(Command::new("dpkg-query").args(["--show", "--showformat", "${db:Status-Status}", package]))
        .is_ok_and(|status| status.trim() == "installed")
}

/// Where Debian puts PostgreSQL below `root`: the newest first.
fn postgres_folders(root: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(root.join("usr/lib/postgresql")).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    folders.reverse();
    folders
}

/// The folders of the cache that hold shared libraries: `usr/lib/x86_64-linux-gnu` and the like.
fn libraries(cache: &Path) -> Vec<PathBuf> {
    let parents = [cache.join("root/usr/lib"), cache.join("root/lib")];
    let folders = parents.iter().flat_map(|parent| fs::read_dir(parent).into_iter().flatten().flatten());
    folders.map(|folder| folder.path()).filter(|path| path.to_string_lossy().ends_with("-linux-gnu")).collect()
}

/// The first line that a program says about its version; none if it does not run.
fn version(program: &Path, cache: &Path) -> Option<String> {
    let mut command = Command::new(program);
    if program.starts_with(cache) {
        command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries(cache)).ok()?);
    }
    // `etcdctl` has a command where others have a flag.
    let word = if program.ends_with("etcdctl") { "version" } else { "--version" };
    let said = run(command.arg(word)).ok()?;
    said.lines().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_a_version_in_its_name_is_found_through_the_one_that_stands_for_it() {
        let [_, etcd, .., postgres] = &PEERS;
        assert!(postgres.is_needed("postgresql-15") && postgres.is_needed("postgresql"));
        assert!(!postgres.is_needed("postgresql-common") && !postgres.is_needed("adduser"));
        assert!(etcd.is_needed("etcd-server") && !etcd.is_needed("libc6"));
        assert!(etcd.is_needed("libnot-there-at-all1"), "a library that is not installed");
    }
}
