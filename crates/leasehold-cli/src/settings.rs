//! Settings of the client commands: flag over environment over default.
//!
//! A bad value in the environment is an error that names its variable: it was set far from where it hurts.

use std::ffi::OsString;
use std::str::FromStr;

use clap::ValueEnum as _;
use leasehold_client::Endpoints;

use crate::args::{Globals, holder, namespace};
use crate::failure::Failure;
use crate::output::Output;

/// The longest part of a default holder that comes from the system.
const PART_MAX: usize = 64;

/// Where to go, as whom, and how to show what is found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) endpoints: Endpoints,
    pub(crate) namespace: String,
    pub(crate) holder: String,
    /// What the holders of the same user and host begin with, if the holder was not chosen.
    pub(crate) holder_prefix: Option<String>,
    pub(crate) output: Output,
}

impl Settings {
    /// The settings of these flags and this environment.
    pub(crate) fn new(flags: &Globals, env: impl Fn(&str) -> Option<OsString>) -> Result<Settings, Failure> {
        let chosen = pick(flags.holder.as_ref(), &env, "LEASE_HOLDER", holder)?;
        let prefix = default_holder_prefix(&env);
        Ok(Settings {
            endpoints: pick(flags.addr.as_ref(), &env, "LEASE_ADDR", Endpoints::from_str)?.unwrap_or_default(),
            namespace: pick(flags.namespace.as_ref(), &env, "LEASE_NAMESPACE", namespace)?
                .unwrap_or_else(|| "default".to_owned()),
            holder: chosen.clone().unwrap_or_else(|| format!("{prefix}{}", std::process::id())),
            holder_prefix: chosen.is_none().then_some(prefix),
            output: pick(flags.output.as_ref(), &env, "LEASE_OUTPUT", output)?.unwrap_or_default(),
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

/// The flag, or else the variable if it is set and not empty.
fn pick<T: Clone, E: ToString>(
    flag: Option<&T>,
    env: impl Fn(&str) -> Option<OsString>,
    variable: &str,
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Failure> {
    if flag.is_some() {
        return Ok(flag.cloned());
    }
    let Some(value) = env(variable).filter(|value| !value.is_empty()) else { return Ok(None) };
    let Some(text) = value.to_str() else {
        return Err(Failure::config(format!("{variable} is not UTF-8")));
    };
    read(text).map(Some).map_err(|reason| {
        Failure::config(format!("{variable} is {text:?}: {}", reason.to_string()))
            .hint(format!("correct it, or unset {variable} to use the default"))
    })
}

fn output(text: &str) -> Result<Output, String> {
    Output::from_str(text, false).map_err(|_| "use human, json, jsonl or name".to_owned())
}

/// `user@host/`, from what the system tells.
fn default_holder_prefix(env: &impl Fn(&str) -> Option<OsString>) -> String {
    let user = ["USER", "LOGNAME"].into_iter().filter_map(env).map(|name| part(&name.to_string_lossy()));
    let user = user.into_iter().find(|name| !name.is_empty());
    let user = user.unwrap_or_else(|| format!("uid{}", rustix::process::getuid().as_raw()));
    let host = part(&rustix::system::uname().nodename().to_string_lossy());
    let host = if host.is_empty() { "localhost".to_owned() } else { host };
    format!("{user}@{host}/")
}

/// A part of a holder's name without what would be refused or misread there.
fn part(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !matches!(c, '@' | '/')).take(PART_MAX).collect()
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
