//! What is asked of leases and resources, as commands.

use leasehold_api::grpc::kind::wait_of;
use leasehold_api::grpc::{
    ClaimRequest, Class, GrantRequest, HandoverRequest, LeaveRequest, Mode, RenewRequest, UnclaimRequest,
};
use leasehold_api::{Digest, GrantContext, Id, Invalid, SpanText, TtlText, once};
use leasehold_core::{
    AskHandover, Claim, Grant, LeaseId, LeaseTime, Leave, Patience, Renew, ResourceName, Revision, Token, Ttl, Unclaim,
};

/// What a grant does not say itself.
pub(crate) struct Usual {
    pub(crate) id: LeaseId,
    pub(crate) seen: LeaseTime,
}

pub(crate) fn grant(request: GrantRequest, usual: Usual) -> Result<Grant, Invalid> {
    let context =
        GrantContext { id: usual.id, seen: usual.seen, patience: patience(request.wait_ms, request.wait_forever)? };
    let class = Class::try_from(request.class).map_err(|_| Invalid::new("class", "this value is not known"))?;
    let asked = leasehold_api::GrantRequest {
        id: request.id.map(|id| lease("id", id).map(Id)).transpose()?,
        holder: request.holder,
        ttl: ttl(request.ttl_ms, request.ttl_endless)?.map(TtlText),
        class: class.into(),
        resources: Some(request.resources),
        mode: Some(mode(request.mode)?),
        parent: request.parent.map(|id| lease("parent", id).map(Id)).transpose()?,
        metadata: Some(request.metadata),
        priority: Some(request.priority),
        cooldown: Some(span("cooldown", request.cooldown_ms)?),
        seen: request.seen,
        ..leasehold_api::GrantRequest::default()
    };
    asked.into_grant(context)
}

pub(crate) fn claim(request: ClaimRequest) -> Result<Claim, Invalid> {
    let patience = patience(request.wait_ms, request.wait_forever)?;
    let asked = leasehold_api::ClaimRequest {
        resources: Some(request.resources),
        mode: Some(mode(request.mode)?),
        priority: Some(request.priority),
        cooldown: Some(span("cooldown", request.cooldown_ms)?),
        seq: request.seq,
        acked: request.acked,
        ..leasehold_api::ClaimRequest::default()
    };
    asked.into_claim(lease("lease", request.lease)?, patience)
}

pub(crate) fn unclaim(request: UnclaimRequest) -> Result<Unclaim, Invalid> {
    Ok(Unclaim {
        lease: lease("lease", request.lease)?,
        once: once(request.seq, request.acked)?,
        resource: resource(&request.resource)?,
        token: Token(request.token),
    })
}

pub(crate) fn renew(request: RenewRequest) -> Result<Renew, Invalid> {
    if request.leases.is_empty() {
        return Err(Invalid::new("leases", "it is empty; name at least one lease"));
    }
    Ok(Renew { leases: leases(&request.leases)?, ttl: ttl(request.ttl_ms, request.ttl_endless)? })
}

pub(crate) fn leave(request: LeaveRequest) -> Result<Leave, Invalid> {
    Ok(Leave { lease: lease("lease", request.lease)?, wait: Revision(request.wait) })
}

pub(crate) fn handover(request: HandoverRequest) -> Result<AskHandover, Invalid> {
    let resource = resource(&request.resource)?;
    leasehold_api::HandoverRequest { by: request.by, reason: request.reason }.into_ask(resource)
}

pub(crate) fn lease(field: &str, number: u64) -> Result<LeaseId, Invalid> {
    LeaseId::new(number).ok_or_else(|| Invalid::new(field, "a lease id is a number from 1 to 2^63 - 1"))
}

pub(crate) fn leases(numbers: &[u64]) -> Result<Vec<LeaseId>, Invalid> {
    let named = |(i, number): (usize, &u64)| match LeaseId::new(*number) {
        Some(id) => Ok(id),
        None => lease(&format!("leases[{i}]"), *number),
    };
    numbers.iter().enumerate().map(named).collect()
}

pub(crate) fn digest(text: &str) -> Result<Digest, Invalid> {
    text.parse().map_err(|message: &str| Invalid::new("digest", message))
}

pub(crate) fn resource(text: &str) -> Result<ResourceName, Invalid> {
    ResourceName::new(text).map_err(|reason| Invalid::name("resource", text, reason))
}

fn mode(number: i32) -> Result<leasehold_api::Mode, Invalid> {
    match Mode::try_from(number) {
        Ok(mode) => Ok(mode.into()),
        Err(_) => Err(Invalid::new("mode", "this value is not known")),
    }
}

fn ttl(millis: Option<u64>, endless: bool) -> Result<Option<Ttl>, Invalid> {
    match (millis, endless) {
        (None, false) => Ok(None),
        (None, true) => Ok(Some(Ttl::Endless)),
        (Some(_), true) => Err(Invalid::new("ttl", "give `ttl_ms` or `ttl_endless`, not both")),
        (Some(0), false) => Err(Invalid::new("ttl", "it must be longer than zero")),
        (Some(millis), false) => Ok(Some(Ttl::For(span("ttl", millis)?.0))),
    }
}

fn patience(millis: u64, forever: bool) -> Result<Patience, Invalid> {
    if forever && millis > 0 {
        return Err(Invalid::new("wait", "give `wait_ms` or `wait_forever`, not both"));
    }
    Ok(wait_of(span("wait", millis)?.0.0, forever))
}

fn span(field: &str, millis: u64) -> Result<SpanText, Invalid> {
    SpanText::from_millis(millis).map_err(|reason| Invalid::new(field, reason.to_string()))
}

#[cfg(test)]
mod tests {
    use leasehold_core::Span;

    use super::*;

    fn granted(change: impl FnOnce(&mut GrantRequest)) -> Result<Grant, Invalid> {
        let mut request = GrantRequest { holder: "ann".into(), ttl_ms: Some(1500), ..GrantRequest::default() };
        change(&mut request);
        grant(request, Usual { id: LeaseId::new(7).unwrap(), seen: LeaseTime(42) })
    }

    #[test]
    fn a_grant_says_what_it_says_and_leaves_the_rest() {
        let found = granted(|_| {}).unwrap();
        assert_eq!((found.id.number(), found.seen, found.ttl), (7, LeaseTime(42), Ttl::For(Span(1500))));
        let found = granted(|request| {
            request.id = Some(9);
            request.seen = Some(3);
            request.ttl_ms = None;
            request.class = Class::Session.into();
            request.wait_forever = true;
            request.resources = vec!["b".into(), "a".into()];
            request.mode = Mode::Shared.into();
        })
        .unwrap();
        assert_eq!((found.id.number(), found.seen, found.ttl), (9, LeaseTime(3), Ttl::For(Span::seconds(900))));
        assert_eq!((found.asks.patience, found.asks.claims.len()), (Patience::Endless, 2));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_field() {
        type Change = fn(&mut GrantRequest);
        let bad: [(&str, Change); 12] = [
            ("id", |request| request.id = Some(0)),
            ("id", |request| request.id = Some(u64::MAX)),
            ("holder", |request| request.holder.clear()),
            ("ttl", |request| request.ttl_ms = Some(0)),
            ("ttl", |request| request.ttl_ms = Some(u64::MAX)),
            ("ttl", |request| request.ttl_ms = None),
            ("ttl", |request| request.ttl_endless = true),
            ("class", |request| request.class = 77),
            ("mode", |request| request.mode = -1),
            ("wait", |request| (request.wait_ms, request.wait_forever) = (5, true)),
            ("cooldown", |request| request.cooldown_ms = u64::MAX),
            ("resources[0]", |request| request.resources = vec![String::new()]),
        ];
        for (field, change) in bad {
            assert_eq!(granted(change).unwrap_err().field, field);
        }
        assert_eq!(renew(RenewRequest::default()).unwrap_err().field, "leases");
        let some = RenewRequest { leases: vec![1, 0], ..RenewRequest::default() };
        assert_eq!(renew(some).unwrap_err().field, "leases[1]");
    }
}
