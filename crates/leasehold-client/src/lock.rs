//! What a lease should be like, put together step by step, then asked for.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use leasehold_api::{Class, Mode};
use leasehold_core::{Patience, Span, Ttl};

use crate::acquire::{Order, new_id};
use crate::client::Client;
use crate::held::Keeping;
use crate::keeper::Errand;
use crate::store::{Progress, ProgressTo, Wish};
use crate::{Error, Guard, Renewal};

/// A lease on its way: say what it should be like, then [`acquire`](Lock::acquire) it.
#[derive(Clone, Debug)]
#[must_use = "nothing is asked for before `acquire` or `try_acquire`"]
pub struct Lock {
    client: Client,
    resources: Vec<String>,
    holder: Option<String>,
    ttl: Option<Ttl>,
    class: Class,
    mode: Mode,
    wait: Patience,
    fair: bool,
    priority: i32,
    cooldown: Duration,
    metadata: BTreeMap<String, String>,
    renewal: Renewal,
    keep_in_jeopardy: bool,
    progress: ProgressTo,
}

impl Lock {
    pub(crate) fn new(client: Client, resources: Vec<String>, class: Class) -> Lock {
        let renewal = match class {
            Class::Lock => Renewal::HALF,
            Class::Election => Renewal::Continuous,
            Class::Session => Renewal::OnActivity,
            Class::Reservation => Renewal::Manual,
            Class::Cache => Renewal::None,
        };
        Lock {
            client,
            resources,
            holder: None,
            ttl: None,
            class,
            mode: Mode::Exclusive,
            wait: Patience::Endless,
            fair: false,
            priority: 0,
            cooldown: Duration::ZERO,
            metadata: BTreeMap::new(),
            renewal,
            keep_in_jeopardy: false,
            progress: ProgressTo::nobody(),
        }
    }

    /// For how long at a time it is granted; the default is that of its class.
    pub fn ttl(mut self, ttl: Duration) -> Lock {
        self.ttl = Some(Ttl::For(span(ttl)));
        self
    }

    /// Grants it without an end by time: only a release or a revoke ends it. Needs a right.
    pub fn endless(mut self) -> Lock {
        self.ttl = Some(Ttl::Endless);
        self
    }

    /// What kind of use it is, for people, and for the ttl if none is given. The strategy stays as it is.
    pub fn class(mut self, class: Class) -> Lock {
        self.class = class;
        self
    }

    /// Whom it is granted to, instead of the client's holder.
    pub fn holder(mut self, holder: impl Into<String>) -> Lock {
        self.holder = Some(holder.into());
        self
    }

    /// Holds together with others that hold in this mode too.
    pub fn shared(mut self) -> Lock {
        self.mode = Mode::Shared;
        self
    }

    /// Why it is held, for people who wait.
    pub fn reason(self, reason: impl Into<String>) -> Lock {
        self.metadata("reason", reason)
    }

    /// Where to read more.
    pub fn link(self, link: impl Into<String>) -> Lock {
        self.metadata("link", link)
    }

    /// Something else that people should know.
    pub fn metadata(mut self, name: impl Into<String>, text: impl Into<String>) -> Lock {
        self.metadata.insert(name.into(), text.into());
        self
    }

    /// Higher goes first in the queue; 0 unless given.
    pub fn priority(mut self, priority: i32) -> Lock {
        self.priority = priority;
        self
    }

    /// How long the resource rests if the lease expires.
    pub fn cooldown(mut self, cooldown: Duration) -> Lock {
        self.cooldown = cooldown;
        self
    }

    /// Demands to be served in order of arrival: an error from a store that cannot promise it.
    pub fn fair(mut self) -> Lock {
        self.fair = true;
        self
    }

    /// How long [`acquire`](Lock::acquire) waits at most.
    pub fn wait(mut self, wait: Duration) -> Lock {
        self.wait = if wait.is_zero() { Patience::None } else { Patience::For(span(wait)) };
        self
    }

    /// Waits as long as it takes: the default.
    pub fn wait_forever(mut self) -> Lock {
        self.wait = Patience::Endless;
        self
    }

    /// When it is renewed.
    pub fn renewal(mut self, renewal: Renewal) -> Lock {
        self.renewal = renewal;
        self
    }

    /// Calls this whenever the place in the queue, the holder or the estimate changes. It runs on the client's thread
    /// and must not block.
    pub fn on_progress(mut self, tell: impl Fn(Progress) + Send + Sync + 'static) -> Lock {
        self.progress = ProgressTo::new(move |progress| {
            // A panic of the caller's code must not take the renewals of all leases with it.
            let _ = catch_unwind(AssertUnwindSafe(|| tell(progress)));
        });
        self
    }

    /// Does not give the lease up when its time is over here, but goes on renewing: it may turn out that the store
    /// still counts it. Meanwhile it is in jeopardy, and its holder must not act.
    pub fn keep_in_jeopardy(mut self) -> Lock {
        self.keep_in_jeopardy = true;
        self
    }

    /// Gets the lease, waiting for it. Dropping the future leaves the queue, whatever the moment.
    pub async fn acquire(self) -> Result<Guard, Error> {
        let client = self.client.clone();
        let order = Box::new(self.order()?);
        order.wish.check(&**client.store())?;
        client.handle().ask(|reply| Errand::Acquire { order, reply }).await?
    }

    /// Gets the lease if it is free; [`Error::Held`] tells who has it.
    pub async fn try_acquire(mut self) -> Result<Guard, Error> {
        self.wait = Patience::None;
        self.acquire().await
    }

    fn order(self) -> Result<Order, Error> {
        let mut resources = self.resources;
        resources.sort();
        if resources.is_empty() {
            return Err(Error::invalid("resources", "name at least one resource"));
        }
        if let Some(twice) = resources.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid("resources", format!("{} is asked for twice", twice[0])));
        }
        let wish = Wish {
            id: new_id(),
            holder: self.holder.unwrap_or_else(|| self.client.holder().to_owned()),
            resources,
            mode: self.mode,
            ttl: self.ttl.unwrap_or_else(|| self.class.default_ttl()),
            class: self.class,
            patience: self.wait,
            fair: self.fair,
            priority: self.priority,
            cooldown: self.cooldown,
            metadata: self.metadata,
        };
        let keeping = Keeping { renewal: self.renewal, keep_in_jeopardy: self.keep_in_jeopardy };
        Ok(Order { wish, keeping, progress: self.progress })
    }
}

/// In whole milliseconds, at least one.
fn span(duration: Duration) -> Span {
    Span(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1))
}
