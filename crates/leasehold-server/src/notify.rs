//! Telling a service manager how it stands, by the protocol of `sd_notify`: lines in a datagram.
//!
//! Whoever runs under a service manager of the `Type=notify` kind uses it: the server, and `lease run` for its command.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The variable that names the service manager's socket.
pub const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// The way to the service manager; none if nobody wants to know.
#[derive(Debug)]
pub struct Notify(Option<(UnixDatagram, SocketAddr)>);

impl Notify {
    /// Tells the one that the environment names.
    pub fn from_env() -> io::Result<Notify> {
        match std::env::var_os(NOTIFY_SOCKET) {
            Some(path) if !path.is_empty() => Ok(Notify(Some((UnixDatagram::unbound()?, address(&path)?)))),
            Some(_) | None => Ok(Notify(None)),
        }
    }

    /// Tells nobody.
    pub fn nobody() -> Notify {
        Notify(None)
    }

    /// Tells a state in a few words.
    pub fn status(&self, text: &str) {
        self.send(&format!("STATUS={}\n", text.replace('\n', " ")));
    }

    /// Tells that starting takes up to `longer` from now on.
    pub fn starting(&self, text: &str, longer: Duration) {
        let micros = longer.as_micros();
        self.send(&format!("EXTEND_TIMEOUT_USEC={micros}\nSTATUS={}\n", text.replace('\n', " ")));
    }

    /// Tells that it is well, to one who would end it otherwise.
    pub fn alive(&self) {
        self.send("WATCHDOG=1\n");
    }

    /// Tells that it is ready, or that the command runs.
    pub fn ready(&self, text: &str) {
        self.send(&format!("READY=1\nSTATUS={}\n", text.replace('\n', " ")));
    }

    /// Tells that it comes to its end.
    pub fn stopping(&self, text: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={}\n", text.replace('\n', " ")));
    }

    /// A service manager that does not listen changes nothing.
    fn send(&self, text: &str) {
        if let Some((socket, address)) = &self.0 {
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

/// How often the service manager wants to hear that this process is well; none if it does not.
pub(crate) fn watchdog(variable: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let is_meant = match variable("WATCHDOG_PID") {
        Some(pid) => pid.parse() == Ok(std::process::id()),
        None => true,
    };
    let micros: u64 = variable("WATCHDOG_USEC").filter(|_| is_meant)?.parse().ok()?;
    (micros > 0).then(|| Duration::from_micros(micros))
}

/// The address of a socket: a path, or with `@` in front a name without a file.
fn address(path: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = path.as_bytes().strip_prefix(b"@") {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    SocketAddr::from_pathname(OsStr::from_bytes(path.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_is_meant_for_one_process() {
        let with = |pairs: Vec<(&'static str, String)>| {
            watchdog(move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()))
        };
        let micros = || ("WATCHDOG_USEC", "2000000".to_owned());
        assert_eq!(with(vec![micros()]), Some(Duration::from_secs(2)));
        assert_eq!(
            with(vec![micros(), ("WATCHDOG_PID", std::process::id().to_string())]),
            Some(Duration::from_secs(2))
        );
        assert_eq!(with(vec![micros(), ("WATCHDOG_PID", "1".to_owned())]), None);
        assert_eq!(with(vec![("WATCHDOG_USEC", "0".to_owned())]), None);
        assert_eq!(with(Vec::new()), None);
    }

    #[test]
    fn a_socket_is_a_path_or_a_name() {
        assert!(address(OsStr::new("/run/x")).unwrap().as_pathname().is_some());
        #[cfg(target_os = "linux")]
        {
            use std::os::linux::net::SocketAddrExt as _;
            let found = address(OsStr::new("@x")).unwrap();
            assert_eq!(found.as_abstract_name(), Some(&b"x"[..]));
        }
    }
}
