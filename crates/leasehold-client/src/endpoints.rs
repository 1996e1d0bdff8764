//! The addresses of the servers: a comma list like `http://10.0.0.1:7117,http://10.0.0.2:7117`.

use std::fmt;
use std::str::FromStr;

use http::Uri;

/// Where a server is if nobody says otherwise.
const DEFAULT: &str = "http://127.0.0.1:7117";

/// The addresses of one or more servers of a cluster, in the order they are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints(Vec<String>);

/// Tells what is wrong with an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoints {
    /// There is none.
    #[error("no address is given; write one like {DEFAULT}")]
    Empty,
    /// It asks for TLS.
    #[error("`{0}`: https is not supported yet; use http:// over a network you trust")]
    Https(String),
    /// It asks for another protocol.
    #[error("`{0}`: the scheme is not known; write an address like {DEFAULT}")]
    Scheme(String),
    /// It has more than a host and a port, or less.
    #[error("`{0}` is not an address; write it like {DEFAULT}, with nothing behind the port")]
    Form(String),
}

impl Endpoints {
    /// The addresses, each like `http://127.0.0.1:7117`.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The address at `index`, counted round and round.
    pub(crate) fn at(&self, index: usize) -> &str {
        &self.0[index % self.0.len()]
    }

    /// How many there are; never zero.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

impl Default for Endpoints {
    fn default() -> Self {
        Endpoints(vec![DEFAULT.to_owned()])
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

impl FromStr for Endpoints {
    type Err = InvalidEndpoints;

    fn from_str(text: &str) -> Result<Endpoints, InvalidEndpoints> {
        let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        if parts.is_empty() {
            return Err(InvalidEndpoints::Empty);
        }
        parts.into_iter().map(endpoint).collect::<Result<_, _>>().map(Endpoints)
    }
}

/// Checks one address; without a scheme it is taken for http.
fn endpoint(text: &str) -> Result<String, InvalidEndpoints> {
    let form = || InvalidEndpoints::Form(text.to_owned());
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    match scheme.to_ascii_lowercase().as_str() {
        "http" => {}
        "https" => return Err(InvalidEndpoints::Https(text.to_owned())),
        _ => return Err(InvalidEndpoints::Scheme(text.to_owned())),
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let address = format!("http://{rest}");
    let uri: Uri = address.parse().map_err(|_| form())?;
    let authority = uri.authority().filter(|authority| authority.as_str() == rest && !rest.contains('@'));
    let authority = authority.ok_or_else(form)?;
    let host = authority.host();
    // A port that is out of range is no port to the parser, but it is text behind the host.
    let port_fits = host.len() == rest.len() || authority.port_u16().is_some_and(|port| port > 0);
    if port_fits && !host.is_empty() { Ok(address) } else { Err(form()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<String>, InvalidEndpoints> {
        text.parse().map(|endpoints: Endpoints| endpoints.0)
    }

    #[test]
    fn a_comma_list_is_read_in_order() {
        assert_eq!(parse("http://a:1, http://b:2/").unwrap(), ["http://a:1", "http://b:2"]);
        assert_eq!(parse("127.0.0.1:7117,").unwrap(), ["http://127.0.0.1:7117"]);
        assert_eq!(parse("http://[::1]:7117").unwrap(), ["http://[::1]:7117"]);
        assert_eq!(parse("HTTP://a").unwrap(), ["http://a"]);
    }

    #[test]
    fn what_is_not_an_address_is_told() {
        assert_eq!(parse(" , "), Err(InvalidEndpoints::Empty));
        assert!(matches!(parse("https://a:1"), Err(InvalidEndpoints::Https(_))));
        assert!(matches!(parse("ftp://a:1"), Err(InvalidEndpoints::Scheme(_))));
        for bad in ["http://", "http://a:1/v1", "http://me@a:1", "http://a:99999", "http://a:0", "http://a b", ":7117"]
        {
            assert!(matches!(parse(bad), Err(InvalidEndpoints::Form(_))), "{bad}");
        }
    }
}
