//! Whom leases are granted to if nobody says otherwise: `user@host/pid`.

use std::ffi::OsString;

/// The longest part of a name that comes from the system.
const PART_MAX: usize = 64;

/// What the default holders of this user and host begin with: `user@host/`, from what the system and `env` tell.
pub fn default_holder_prefix(env: impl Fn(&str) -> Option<OsString>) -> String {
    let names = ["USER", "LOGNAME"].into_iter().filter_map(env);
    let user = names.map(|name| part(&name.to_string_lossy())).find(|name| !name.is_empty());
    let user = user.unwrap_or_else(|| format!("uid{}", rustix::process::getuid().as_raw()));
    let host = part(&rustix::system::uname().nodename().to_string_lossy());
    let host = if host.is_empty() { "localhost".to_owned() } else { host };
    format!("{user}@{host}/")
}

/// `user@host/pid` of this process.
pub(crate) fn default_holder() -> String {
    format!("{}{}", default_holder_prefix(|name| std::env::var_os(name)), std::process::id())
}

/// A part of a holder's name without what would be refused or misread there.
fn part(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !matches!(c, '@' | '/')).take(PART_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_holder_tells_user_host_and_process() {
        let holder = default_holder();
        assert!(holder.contains('@') && holder.ends_with(&format!("/{}", std::process::id())), "{holder}");
        assert_eq!(part("a@b/c\n"), "abc");
    }
}
