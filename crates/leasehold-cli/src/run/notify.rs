//! Telling a service manager how it stands, by the protocol of `sd_notify`: lines in a datagram.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable that names the service manager's socket.
pub(crate) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// The way to the service manager; none if nobody wants to know.
#[derive(Debug)]
pub(crate) struct Notify(Option<(UnixDatagram, SocketAddr)>);

impl Notify {
    /// Tells the one that the environment names.
    pub(crate) fn from_env() -> io::Result<Notify> {
        match std::env::var_os(NOTIFY_SOCKET) {
            Some(path) if !path.is_empty() => Ok(Notify(Some((UnixDatagram::unbound()?, address(&path)?)))),
            Some(_) | None => Ok(Notify(None)),
        }
    }

    /// Tells a state in a few words.
    pub(crate) fn status(&self, text: &str) {
        self.send(&format!("STATUS={}\n", text.replace('\n', " ")));
    }

    /// Tells that the command runs.
    pub(crate) fn ready(&self, text: &str) {
        self.send(&format!("READY=1\nSTATUS={}\n", text.replace('\n', " ")));
    }

    /// Tells that it comes to its end.
    pub(crate) fn stopping(&self, text: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={}\n", text.replace('\n', " ")));
    }

    /// A service manager that does not listen changes nothing.
    fn send(&self, text: &str) {
        if let Some((socket, address)) = &self.0 {
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
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
