//! Settings of the client commands: flag over environment over file over default.
//!
//! A bad value in the environment or the file is an error that names where it stands: it was set far from where it
//! hurts. Each setting remembers where it came from, for `lease config dump`.

use std::ffi::OsString;
use std::str::FromStr;

use clap::ValueEnum as _;
use leasehold_client::{Endpoints, default_holder_prefix};
use leasehold_server::Source;

use crate::args::{Globals, holder, namespace};
use crate::config_file::ConfigFile;
use crate::failure::Failure;
use crate::output::Output;

/// Where to go, as whom, and how to show what is found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) endpoints: Endpoints,
    pub(crate) namespace: String,
    pub(crate) holder: String,
    /// What the holders of the same user and host begin with, if the holder was not chosen.
    pub(crate) holder_prefix: Option<String>,
    pub(crate) output: Output,
    pub(crate) sources: Sources,
}

/// Where each setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sources {
    pub(crate) addr: Source,
    pub(crate) namespace: Source,
    pub(crate) holder: Source,
    pub(crate) output: Source,
    /// Where a secret came from, if there is one. Nothing is done with it: no server checks it yet.
    pub(crate) token: Option<Source>,
}

impl Settings {
    /// The settings of these flags, this environment and the file that it names.
    pub(crate) fn new(flags: &Globals, env: impl Fn(&str) -> Option<OsString>) -> Result<Settings, Failure> {
        let file = ConfigFile::find(&env)?;
        let pick = Picker { env: &env, file: &file };
        let addr =
            pick.one(("--addr", flags.addr.as_ref()), "LEASE_ADDR", ("addr", &file.addr), Endpoints::from_str)?;
        let space = (("--namespace", flags.namespace.as_ref()), ("namespace", &file.namespace));
        let space = pick.one(space.0, "LEASE_NAMESPACE", space.1, namespace)?;
        let chosen = pick.one(("--holder", flags.holder.as_ref()), "LEASE_HOLDER", ("holder", &file.holder), holder)?;
        let output = pick.one(("--output", flags.output.as_ref()), "LEASE_OUTPUT", ("output", &file.output), output)?;
        let prefix = default_holder_prefix(&env);
        let token = env("LEASE_TOKEN").is_some_and(|value| !value.is_empty());
        Ok(Settings {
            endpoints: addr.0.unwrap_or_default(),
            namespace: space.0.unwrap_or_else(|| "default".to_owned()),
            holder: chosen.0.clone().unwrap_or_else(|| format!("{prefix}{}", std::process::id())),
            holder_prefix: chosen.0.is_none().then_some(prefix),
            output: output.0.unwrap_or_default(),
            sources: Sources {
                addr: addr.1,
                namespace: space.1,
                holder: chosen.1,
                output: output.1,
                token: token.then_some(Source::Environment("LEASE_TOKEN")),
            },
        })
    }

    /// Whether a holder is this one, or with a default holder another process of the same user and host.
    pub(crate) fn is_mine(&self, holder: &str) -> bool {
        match &self.holder_prefix {
            Some(prefix) => holder.strip_prefix(&**prefix).is_some_and(|pid| pid.bytes().all(|b| b.is_ascii_digit())),
            None => holder == self.holder,
        }
    }
}

/// Where values are picked from, after the flags.
struct Picker<'a, E> {
    env: &'a E,
    file: &'a ConfigFile,
}

impl<E: Fn(&str) -> Option<OsString>> Picker<'_, E> {
    /// The flag, or else the variable if it is set and not empty, or else what the file says.
    fn one<T: Clone, W: ToString>(
        &self,
        (flag, given): (&'static str, Option<&T>),
        variable: &'static str,
        (key, written): (&str, &Option<String>),
        read: impl Fn(&str) -> Result<T, W>,
    ) -> Result<(Option<T>, Source), Failure> {
        if given.is_some() {
            return Ok((given.cloned(), Source::Flag(flag)));
        }
        if let Some(value) = (self.env)(variable).filter(|value| !value.is_empty()) {
            let Some(text) = value.to_str() else {
                return Err(Failure::config(format!("{variable} is not UTF-8")));
            };
            let hint = format!("correct it, or unset {variable} to use the default");
            let value = read(text).map_err(|reason| bad(variable, text, &reason).hint(hint))?;
            return Ok((Some(value), Source::Environment(variable)));
        }
        let (Some(text), Some(path)) = (written, &self.file.path) else { return Ok((None, Source::Default)) };
        let name = format!("{}: {key}", path.display());
        let value = read(text).map_err(|reason| bad(&name, text, &reason).hint("correct it, or remove the line"))?;
        Ok((Some(value), Source::File(path.clone())))
    }
}

fn bad(name: &str, text: &str, reason: &impl ToString) -> Failure {
    Failure::config(format!("{name} is {text:?}: {}", reason.to_string()))
}

fn output(text: &str) -> Result<Output, String> {
    Output::from_str(text, false).map_err(|_| "use human, json, jsonl or name".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| pairs.iter().find(|(found, _)| *found == name).map(|(_, value)| OsString::from(value))
    }

    #[test]
    fn a_flag_goes_before_the_environment() {
        let flags = Globals { namespace: Some("flag".into()), ..Globals::default() };
        let found = Settings::new(&flags, env(&[("LEASE_NAMESPACE", "env"), ("LEASE_OUTPUT", "json")])).unwrap();
        assert_eq!((found.namespace.as_str(), found.output), ("flag", Output::Json));
        let found = Settings::new(&Globals::default(), env(&[("LEASE_NAMESPACE", "")])).unwrap();
        assert_eq!((found.namespace.as_str(), found.endpoints), ("default", Endpoints::default()));
    }

    #[test]
    fn the_file_goes_before_the_default_and_after_the_environment() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        std::fs::write(path, "namespace = 'file'\noutput = 'name'\n").unwrap();
        let pairs = [("LEASE_CONFIG", path), ("LEASE_OUTPUT", "json"), ("LEASE_TOKEN", "secret")];
        let found = Settings::new(&Globals::default(), env(&pairs)).unwrap();
        assert_eq!((found.namespace.as_str(), found.output), ("file", Output::Json));
        assert_eq!(found.sources.namespace, Source::File(file.path().to_path_buf()));
        assert_eq!(found.sources.output, Source::Environment("LEASE_OUTPUT"));
        assert_eq!((&found.sources.addr, found.sources.token.is_some()), (&Source::Default, true));
        std::fs::write(path, "addr = 'ftp://x'").unwrap();
        let failure = Settings::new(&Globals::default(), env(&pairs)).unwrap_err();
        assert!(failure.text().starts_with(&format!("error: {path}: addr is \"ftp://x\": ")), "{}", failure.text());
        assert_eq!(failure.exit(), 78);
    }

    #[test]
    fn a_bad_variable_is_named() {
        for (name, value) in
            [("LEASE_ADDR", "https://a"), ("LEASE_NAMESPACE", "A/b"), ("LEASE_HOLDER", "a\n"), ("LEASE_OUTPUT", "xml")]
        {
            let failure = Settings::new(&Globals::default(), env(&[(name, value)])).unwrap_err();
            let text = failure.text();
            assert!(text.starts_with(&format!("error: {name} is {value:?}: ")), "{text}");
            assert_eq!(failure.exit(), 78);
        }
    }

    #[test]
    fn the_default_holder_tells_user_host_and_process() {
        let found = Settings::new(&Globals::default(), env(&[("USER", "an@a/\u{1b}")])).unwrap();
        assert!(found.holder.starts_with("ana@"), "{}", found.holder);
        assert!(found.holder.ends_with(&format!("/{}", std::process::id())), "{}", found.holder);
        assert_eq!(found.holder.matches(['@', '/']).count(), 2, "{}", found.holder);
        let nobody = Settings::new(&Globals::default(), env(&[])).unwrap();
        assert!(nobody.holder.starts_with("uid"), "{}", nobody.holder);
    }

    #[test]
    fn mine_is_what_the_same_user_holds_unless_a_holder_is_chosen() {
        let found = Settings::new(&Globals::default(), env(&[("USER", "ana")])).unwrap();
        let prefix = found.holder_prefix.clone().unwrap();
        assert!(found.is_mine(&format!("{prefix}1")));
        assert!(!found.is_mine("bob@elsewhere/1"));
        let found = Settings::new(&Globals::default(), env(&[("LEASE_HOLDER", "me")])).unwrap();
        assert!(found.is_mine("me") && !found.is_mine("me2"));
    }
}
