//! A lease in full, and the one line of a grant.

use leasehold_api::{Class, Lease, LeaseState};

use super::text::{clock, ends_in, mode, plain, short};

/// The line for each resource of a grant. The id comes last, so that it is easy to cut.
pub(crate) fn granted(lease: &Lease, id: &str) -> String {
    let lines: Vec<String> = lease
        .held
        .iter()
        .map(|claim| {
            let waited = match claim.waited.0.0 {
                0 => String::new(),
                _ => format!("  waited={}", short(claim.waited)),
            };
            format!("acquired {}  token={}  ttl={}{waited}  id={id}", plain(&claim.resource), claim.token, lease.ttl)
        })
        .collect();
    lines.join("\n")
}

/// The description of a lease.
pub(crate) fn show(lease: &Lease) -> String {
    let id = lease.id.map_or_else(|| lease.digest.to_string(), |id| id.to_string());
    let mut lines = vec![format!("{id}  {}, {}", state(lease.state), class(lease.class))];
    lines.push(format!("  holder    {}", plain(&lease.holder)));
    lines.push(format!(
        "  ttl       {}   granted {} ago   {} (renewed {} ago)",
        lease.ttl,
        clock(lease.age),
        ends_in(lease.remaining),
        short(lease.renewed_ago)
    ));
    for claim in &lease.held {
        let (resource, mode, held) = (plain(&claim.resource), mode(claim.mode), clock(claim.held_for));
        lines.push(format!("  holds     {resource}  token {}  {mode}  since {held}", claim.token));
    }
    for wait in &lease.waits {
        for place in &wait.places {
            let (resource, waited) = (plain(&place.resource), clock(wait.waited));
            let estimate = place.estimate.map(|span| format!("  about {} to go", short(span))).unwrap_or_default();
            let (position, length) = (place.position, place.length);
            lines.push(format!("  waits     {resource}  position {position} of {length}  since {waited}{estimate}"));
        }
    }
    if lease.entries > 0 {
        lines.push(format!("  entries   {}", lease.entries));
    }
    if lease.children > 0 {
        lines.push(format!("  children  {}", lease.children));
    }
    if let Some(parent) = lease.parent {
        lines.push(format!("  parent    {parent}"));
    }
    for (name, text) in &lease.metadata {
        lines.push(format!("  {:<8}  {}", plain(name), plain(text)));
    }
    lines.join("\n")
}

fn state(state: LeaseState) -> &'static str {
    match state {
        LeaseState::Live => "live",
        LeaseState::Waiting => "waiting",
        LeaseState::Ending => "ending",
    }
}

fn class(class: Class) -> &'static str {
    match class {
        Class::Lock => "lock",
        Class::Election => "election",
        Class::Session => "session",
        Class::Reservation => "reservation",
        Class::Cache => "cache",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_shows_what_it_carries() {
        let lease: Lease = serde_json::from_str(include_str!("../../tests/golden/show.json")).unwrap();
        assert_eq!(show(&lease) + "\n", include_str!("../../tests/golden/show.txt"));
    }

    #[test]
    fn a_grant_ends_with_its_id() {
        let lease: Lease = serde_json::from_str(include_str!("../../tests/golden/show.json")).unwrap();
        let line = "acquired orders/7  token=12  ttl=10s  waited=53s  id=05f31c09a4e2b7d8";
        assert_eq!(granted(&lease, "05f31c09a4e2b7d8"), line);
    }
}
