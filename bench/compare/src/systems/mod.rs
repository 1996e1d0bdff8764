//! All systems that are compared. A further one is a further file and a line here.

mod etcd;
#[cfg(feature = "etcd")]
mod etcd_wire;
#[cfg(not(feature = "etcd"))]
#[path = "no_etcd_wire.rs"]
mod etcd_wire;
mod leasehold;
mod leasehold_etcd;
mod leasehold_http;
#[cfg(test)]
mod nothing;
mod postgres;
mod redis;
mod zookeeper;
mod zookeeper_wire;

use std::fmt::Display;

#[cfg(test)]
pub(crate) use self::nothing::Nothing;
use crate::system::System;

/// All systems; what others are compared with comes first.
pub(crate) fn all() -> Vec<Box<dyn System>> {
    vec![
        Box::new(etcd::Etcd::One),
        Box::new(zookeeper::ZooKeeper),
        Box::new(postgres::Postgres),
        Box::new(redis::Redis::Always),
        Box::new(redis::Redis::EverySecond),
        Box::new(leasehold_etcd::LeaseholdEtcd),
        Box::new(leasehold_http::LeaseholdHttp),
        Box::new(leasehold::Leasehold::One),
        Box::new(etcd::Etcd::Three),
        Box::new(leasehold::Leasehold::Three),
        Box::new(leasehold::Leasehold::ThreeClose),
    ]
}

/// What went wrong, in words.
fn said(error: impl Display) -> String {
    error.to_string()
}
