//! Leasehold over its HTTP API: the same server, called with JSON over HTTP/1.1 on connections that are kept alive.
//!
//! A connection carries one call at a time. So callers that share a client share a pool, which has as many connections as
//! there are calls under way.

use std::path::Path;

use futures_util::future::try_join_all;
use leasehold_api::{ClaimRequest, GrantRequest, Id, TtlText};
use leasehold_client::http::{Condition, HttpClient, new_lease_id};
use leasehold_client::{Span, Ttl};
use leasehold_core::Patience;

use super::leasehold::{DURABILITY, FENCING, HOLDER, NAMESPACE, QUEUE, TTL, lease, serve};
use super::said;
use crate::client::{Client, Granter, Life, Locker, Renewer, Work, Writer};
use crate::process::version;
use crate::system::{About, Running, System};

pub(super) struct LeaseholdHttp;

impl System for LeaseholdHttp {
    fn name(&self) -> &'static str {
        "leasehold-http"
    }

    fn find(&self) -> Result<(), String> {
        lease().map(drop)
    }

    fn about(&self) -> About {
        About {
            version: lease().map_or_else(|why| why, |program| version(&program)),
            durability: DURABILITY,
            fencing: FENCING,
            queue: QUEUE,
            client: "leasehold-client, its calls of the HTTP API; those who share have a pool, one call per connection",
        }
    }

    fn start(&self, directory: &Path) -> Result<Running, String> {
        serve(directory, &[])
    }

    fn connect<'a>(&'a self, running: &'a Running) -> Work<'a, Box<dyn Client>> {
        Box::pin(async move {
            let http = HttpClient::new(running.endpoint.parse().map_err(said)?, NAMESPACE);
            Ok(Box::new(Wire(http)) as Box<dyn Client>)
        })
    }
}

struct Wire(HttpClient);

impl Client for Wire {
    fn share(&self) -> Box<dyn Client> {
        Box::new(Wire(self.0.clone()))
    }

    fn greet(&self) -> Work<'_> {
        Box::pin(async { self.0.first_resources("greeting", 1).await.map(drop).map_err(said) })
    }

    fn writer(&self) -> Option<Box<dyn Writer>> {
        Some(Box::new(Caller(self.0.clone())))
    }

    fn granter(&self) -> Option<Box<dyn Granter>> {
        Some(Box::new(Caller(self.0.clone())))
    }

    fn renewer(&self, leases: usize) -> Option<Work<'_, Box<dyn Renewer>>> {
        Some(Box::pin(async move {
            let leases = try_join_all((0..leases).map(|_| granted(&self.0, None))).await?;
            Ok(Box::new(Renews { http: self.0.clone(), leases }) as Box<dyn Renewer>)
        }))
    }

    fn locker(&self, life: Life) -> Option<Work<'_, Box<dyn Locker>>> {
        Some(Box::pin(async move {
            let http = self.0.clone();
            Ok(match life {
                Life::Kept => Box::new(Claims { lease: granted(&http, None).await?, http, held: None }),
                Life::PerLock => Box::new(Locks { http, held: None }) as Box<dyn Locker>,
            })
        }))
    }
}

/// A new lease, on a resource if one is named; it waits for that as long as it takes.
async fn granted(http: &HttpClient, resource: Option<&str>) -> Result<Id, String> {
    let id = new_lease_id();
    let request = GrantRequest {
        id: Some(id),
        holder: HOLDER.to_owned(),
        ttl: Some(TtlText(Ttl::For(Span(TTL)))),
        resource: resource.map(str::to_owned),
        ..GrantRequest::default()
    };
    let patience = if resource.is_some() { Patience::Endless } else { Patience::None };
    http.grant(&request, patience).await.map_err(said)?;
    Ok(id)
}

struct Caller(HttpClient);

impl Writer for Caller {
    fn put<'a>(&'a mut self, key: &'a str, value: &'a [u8]) -> Work<'a> {
        Box::pin(async move { self.0.put(key, value, None, Condition::Always).await.map(drop).map_err(said) })
    }
}

impl Granter for Caller {
    fn grant(&mut self) -> Work<'_> {
        Box::pin(async move { granted(&self.0, None).await.map(drop) })
    }
}

/// Leases that are renewed together.
struct Renews {
    http: HttpClient,
    leases: Vec<Id>,
}

impl Renewer for Renews {
    fn renew(&mut self) -> Work<'_> {
        Box::pin(async move {
            if let [lease] = self.leases[..] {
                return self.http.renew(lease, None).await.map(drop).map_err(said);
            }
            let answer = self.http.renew_many(self.leases.clone(), None).await.map_err(said)?;
            match answer.results.into_iter().find_map(|result| result.problem) {
                Some(problem) => Err(problem.detail),
                None => Ok(()),
            }
        })
    }
}

/// A lease for each lock.
struct Locks {
    http: HttpClient,
    held: Option<Id>,
}

impl Locker for Locks {
    fn lock<'a>(&'a mut self, name: &'a str) -> Work<'a> {
        Box::pin(async move {
            self.held = Some(granted(&self.http, Some(name)).await?);
            Ok(())
        })
    }

    fn unlock(&mut self) -> Work<'_> {
        Box::pin(async move {
            let lease = self.held.take().ok_or("nothing is held")?;
            self.http.release(lease).await.map_err(said)
        })
    }
}

/// Claims of one lease.
struct Claims {
    http: HttpClient,
    lease: Id,
    /// The name and the token of the lock that is held.
    held: Option<(String, u64)>,
}

impl Locker for Claims {
    fn lock<'a>(&'a mut self, name: &'a str) -> Work<'a> {
        Box::pin(async move {
            let request = ClaimRequest { resource: Some(name.to_owned()), ..ClaimRequest::default() };
            let lease = self.http.claim(self.lease, &request, Patience::Endless).await.map_err(said)?;
            let token = lease.held.iter().find(|held| held.resource == name).map(|held| held.token);
            self.held = Some((name.to_owned(), token.ok_or("the claim is not held")?));
            Ok(())
        })
    }

    fn unlock(&mut self) -> Work<'_> {
        Box::pin(async move {
            let (name, token) = self.held.take().ok_or("nothing is held")?;
            self.http.unclaim(self.lease, &name, token).await.map_err(said)
        })
    }
}
