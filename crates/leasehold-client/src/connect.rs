//! Clients of a Leasehold server: by address, or as the environment says.

use crate::store::Leasehold;
use crate::{Client, ClientBuilder, Endpoints, Error};

/// The namespace of those who name none.
const NAMESPACE: &str = "default";

impl Client {
    /// A client as the environment says: `LEASE_ADDR` (a comma list of addresses), `LEASE_NAMESPACE` and
    /// `LEASE_HOLDER`. Nothing is sent yet: a server that is not there is told by the first call.
    pub async fn from_env() -> Result<Client, Error> {
        Client::builder().with_vars(|name| std::env::var(name).ok())
    }

    /// A client of the servers at these addresses, such as `http://127.0.0.1:7117`; several of one cluster are
    /// separated by commas. Nothing is sent yet.
    pub fn connect(addresses: &str) -> Result<Client, Error> {
        Ok(Client::over(Leasehold::new(endpoints("addresses", addresses)?, NAMESPACE)))
    }
}

impl ClientBuilder {
    fn with_vars(self, var: impl Fn(&str) -> Option<String>) -> Result<Client, Error> {
        let var = |name: &str| var(name).filter(|text| !text.is_empty());
        let endpoints = match var("LEASE_ADDR") {
            Some(text) => endpoints("LEASE_ADDR", &text)?,
            None => Endpoints::default(),
        };
        let builder = match var("LEASE_HOLDER") {
            Some(holder) => self.holder(holder),
            None => self,
        };
        let namespace = var("LEASE_NAMESPACE").unwrap_or_else(|| NAMESPACE.to_owned());
        Ok(builder.over(Leasehold::new(endpoints, namespace)))
    }
}

fn endpoints(field: &str, text: &str) -> Result<Endpoints, Error> {
    text.parse().map_err(|invalid| Error::invalid(field, format!("{field} is not an address: {invalid}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_where_and_as_whom() {
        let client = Client::builder()
            .with_vars(|name| (name == "LEASE_HOLDER").then(|| "ann".to_owned()))
            .expect("the default address is an address");
        assert_eq!((client.holder(), client.store().name()), ("ann", "leasehold"));
        let bad = Client::builder().with_vars(|name| (name == "LEASE_ADDR").then(|| "ftp://a".to_owned()));
        let detail = bad.unwrap_err().to_string();
        assert!(detail.starts_with("LEASE_ADDR is not an address: `ftp://a`"), "{detail}");
    }
}
