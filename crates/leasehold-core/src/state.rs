//! STUB for the http branch: signatures only, bodies arrive with the merge.
#![allow(missing_docs, clippy::unimplemented, unused_variables)]
use crate::*;

#[derive(Debug, Default)]
pub struct State;

#[derive(Clone, Debug, Default)]
pub struct LeaseFilter { pub holder: Option<Holder>, pub after: Option<LeaseId>, pub limit: usize }

impl State {
    pub fn now(&self) -> LeaseTime { unimplemented!() }
    pub fn revision(&self) -> Revision { unimplemented!() }
    pub fn lease(&self, namespace: &Namespace, id: LeaseId) -> Result<LeaseView, Box<Rejection>> { unimplemented!() }
    pub fn leases(&self, namespace: &Namespace, filter: &LeaseFilter) -> Page<LeaseView, LeaseId> { unimplemented!() }
    pub fn resource(&self, namespace: &Namespace, name: &ResourceName) -> Option<ResourceView> { unimplemented!() }
    pub fn resources(&self, namespace: &Namespace, prefix: &str, after: Option<&ResourceName>, limit: usize) -> Page<ResourceView, ResourceName> { unimplemented!() }
    pub fn queue(&self, namespace: &Namespace, name: &ResourceName, limit: usize) -> Vec<WaiterView> { unimplemented!() }
    pub fn history(&self, namespace: &Namespace, name: &ResourceName) -> Vec<Past> { unimplemented!() }
    pub fn check(&self, namespace: &Namespace, name: &ResourceName, token: Token) -> Result<Checked, Box<Rejection>> { unimplemented!() }
    pub fn entry(&self, namespace: &Namespace, key: &Key) -> Option<EntryView> { unimplemented!() }
    /// At most `limit` entries of the range, and how many there are in all.
    pub fn entries(&self, namespace: &Namespace, range: &KeyRange, limit: usize) -> (Vec<EntryView>, u64) { unimplemented!() }
}
