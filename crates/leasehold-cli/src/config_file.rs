//! The configuration file of the client commands: where it is and what it can say.
//!
//! `$LEASE_CONFIG` names it; otherwise it is `leasehold/config.toml` in `$XDG_CONFIG_HOME` or `~/.config`, and then it
//! need not exist. Keys that are not known are errors, as everywhere.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use leasehold_server::{ConfigError, read_file};
use serde::Deserialize;

use crate::failure::Failure;

/// What the file says. Every key is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ConfigFile {
    /// Where it was found, if it was.
    #[serde(skip)]
    pub(crate) path: Option<PathBuf>,
    pub(crate) addr: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) holder: Option<String>,
    pub(crate) output: Option<String>,
}

impl ConfigFile {
    /// Reads the file that this environment names.
    pub(crate) fn find(env: &impl Fn(&str) -> Option<OsString>) -> Result<ConfigFile, Failure> {
        let given = |name| env(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = given("LEASE_CONFIG") {
            return ConfigFile::read(&path).map_err(|failure| failure.hint("LEASE_CONFIG names this file"));
        }
        let folder = given("XDG_CONFIG_HOME").or_else(|| given("HOME").map(|home| home.join(".config")));
        let Some(path) = folder.map(|folder| folder.join("leasehold").join("config.toml")) else {
            return Ok(ConfigFile::default());
        };
        match read_file::<ConfigFile>(&path) {
            Err(ConfigError::Unreadable { source, .. }) if is_absent(&source) => Ok(ConfigFile::default()),
            read => found(read, &path),
        }
    }

    /// Reads this file, which must exist.
    fn read(path: &Path) -> Result<ConfigFile, Failure> {
        found(read_file(path), path)
    }
}

fn found(read: Result<ConfigFile, ConfigError>, path: &Path) -> Result<ConfigFile, Failure> {
    let file = read.map_err(|error| Failure::config(error.to_string()))?;
    Ok(ConfigFile { path: Some(path.to_path_buf()), ..file })
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pairs: &[(&str, &Path)]) -> Result<ConfigFile, Failure> {
        let env = |name: &str| pairs.iter().find(|(found, _)| *found == name).map(|(_, path)| OsString::from(path));
        ConfigFile::find(&env)
    }

    #[test]
    fn it_is_found_by_name_or_in_its_usual_place() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(find(&[("HOME", home.path())]).unwrap(), ConfigFile::default());
        let usual = home.path().join(".config/leasehold/config.toml");
        std::fs::create_dir_all(usual.parent().unwrap()).unwrap();
        std::fs::write(&usual, "namespace = 'shop'").unwrap();
        let file = find(&[("HOME", home.path())]).unwrap();
        assert_eq!((file.namespace.as_deref(), file.path.as_deref()), (Some("shop"), Some(&*usual)));
        let other = home.path().join("other.toml");
        std::fs::write(&other, "").unwrap();
        assert_eq!(find(&[("HOME", home.path()), ("LEASE_CONFIG", &other)]).unwrap().namespace, None);
    }

    #[test]
    fn a_file_that_was_named_must_exist_and_make_sense() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let failure = find(&[("LEASE_CONFIG", &path)]).unwrap_err();
        assert!(failure.text().contains("LEASE_CONFIG names this file"), "{}", failure.text());
        std::fs::write(&path, "\nnamespce = 'shop'").unwrap();
        let failure = find(&[("LEASE_CONFIG", &path)]).unwrap_err();
        assert!(failure.text().contains("a.toml:2: unknown key `namespce`; did you mean `namespace`?"));
        assert_eq!(failure.exit(), 78);
    }
}
