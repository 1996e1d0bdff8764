//! Clients of other systems: Python packages in virtual environments of their own, npm packages in a folder, and a Rust
//! program.
//!
//! `tests/etcd/` and `tests/openapi/` list every package with its exact version, also those that others need. A folder
//! that was made of the same list by the same program is used again: a copy of the list in it, written last, says so.
//! The Rust program is built here and not in the workspace because its client needs protoc to be built, which users of cargo may not have.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Found, debian, root, run};

/// The copy of the list of packages, written when all of them are there.
const STAMP: &str = "leasehold-stamp";

/// Packages that belong together in one folder.
struct Packages {
    name: &'static str,
    /// How tests are told where they are.
    variable: &'static str,
    /// The list of exact versions, below the project's root.
    list: &'static str,
    language: Language,
}

#[derive(Clone, Copy)]
enum Language {
    Python,
    JavaScript,
}

const ALL: [Packages; 4] = [
    Packages {
        name: "python etcd3",
        variable: "LEASEHOLD_PYTHON_ETCD3",
        list: "tests/etcd/python-etcd3.txt",
        language: Language::Python,
    },
    Packages {
        name: "python etcd3gw and aetcd",
        variable: "LEASEHOLD_PYTHON_OTHERS",
        list: "tests/etcd/python-others.txt",
        language: Language::Python,
    },
    Packages {
        name: "npm etcd3",
        variable: "LEASEHOLD_NODE_MODULES",
        list: "tests/etcd/package-lock.json",
        language: Language::JavaScript,
    },
    Packages {
        name: "openapi-spec-validator and schemathesis",
        variable: "LEASEHOLD_PYTHON_OPENAPI",
        list: "tests/openapi/python.txt",
        language: Language::Python,
    },
];

/// The package of the Rust program, below the project's root.
const RUST: &str = "tests/etcd/rust/Cargo.toml";

/// Finds or installs all of them.
pub(super) fn all(cache: &Path) -> Vec<Result<Found, String>> {
    let packages =
        ALL.iter().map(|packages| packages.find_or_install(cache).map_err(|why| format!("{}: {why}", packages.name)));
    let rust = build_rust(cache).map_err(|why| format!("rust etcd-client: {why}"));
    packages.chain([rust]).collect()
}

impl Packages {
    /// The program that runs tests with them for Python, the folder of modules for JavaScript.
    fn find_or_install(&self, cache: &Path) -> Result<Found, String> {
        let list = root().join(self.list);
        let text = fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
        let version = self.language.version()?;
        let wanted = format!("{version}\n{text}");
        let folder = cache.join(self.variable.trim_start_matches("LEASEHOLD_").to_lowercase());
        let stamp = folder.join(STAMP);
        if fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
            return Ok(self.found(&folder, version));
        }
        eprintln!("   {}: installing what {} lists", self.name, self.list);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        match self.language {
            Language::Python => install_python(&folder, &list)?,
            Language::JavaScript => install_javascript(&folder, &list)?,
        }
        fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
        Ok(self.found(&folder, version))
    }

    fn found(&self, folder: &Path, version: String) -> Found {
        let path: PathBuf = match self.language {
            Language::Python => folder.join("bin/python"),
            Language::JavaScript => folder.join("node_modules"),
        };
        Found { name: self.name, variable: self.variable, path, version }
    }
}

impl Language {
    fn version(self) -> Result<String, String> {
        let program = match self {
            Language::Python => "python3",
            Language::JavaScript => "node",
        };
        run(Command::new(program).arg("--version")).map(|said| said.trim().to_owned())
    }
}

/// Nothing but what is listed is installed, so a list that lacks a package shows at once.
fn install_python(folder: &Path, list: &Path) -> Result<(), String> {
    run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--requirement"]).arg(list);
    run(&mut pip)?;
    run(Command::new(folder.join("bin/python")).args(["-m", "pip", "check"])).map(|_| ())
}

/// What is installed must be, byte for byte, what the list has hashes of; nothing of it runs while it is installed.
fn install_javascript(folder: &Path, list: &Path) -> Result<(), String> {
    for file in [list, &list.with_file_name("package.json")] {
        let name = file.file_name().unwrap_or_default();
        fs::copy(file, folder.join(name)).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder);
    run(&mut npm).map(|_| ())
}

/// Cargo knows by itself whether anything is to be done.
fn build_rust(cache: &Path) -> Result<Found, String> {
    let protoc = debian::protoc(cache).ok_or("there is no protoc to build it with")?;
    let target = cache.join("rust_etcd_client");
    let (_, libraries) = debian::libraries_variable(cache);
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--locked", "--manifest-path"]).arg(root().join(RUST)).arg("--target-dir").arg(&target);
    run(cargo.env("PROTOC", protoc).env("LD_LIBRARY_PATH", libraries))?;
    let path = target.join("debug/etcd-client-scenes");
    let version = "etcd-client 0.21.1".to_owned();
    Ok(Found { name: "rust etcd-client", variable: "LEASEHOLD_RUST_ETCD_CLIENT", path, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_python_package_has_an_exact_version() {
        for packages in ALL.iter().filter(|packages| matches!(packages.language, Language::Python)) {
            let text = fs::read_to_string(root().join(packages.list)).unwrap();
            assert!(text.lines().count() > 3, "{} lists what others need, too", packages.list);
            for line in text.lines() {
                let (name, version) = line.split_once("==").unwrap_or_else(|| panic!("{}: {line}", packages.list));
                assert!(!name.is_empty() && version.starts_with(|first: char| first.is_ascii_digit()), "{line}");
            }
        }
    }
}
