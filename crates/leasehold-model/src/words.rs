//! Words for commands and states, shared by the stories of all aspects.

use crate::core::{Claim, Command, Core, LEASES, Lease, NEVER, RESOURCES};

const RESOURCE_NAMES: [&str; RESOURCES] = ["r", "s"];

/// The name of a resource.
pub fn resource(resource: usize) -> &'static str {
    RESOURCE_NAMES[resource]
}

/// What a client asks for.
pub fn asked(command: Command) -> String {
    match command {
        Command::Tick => "asks for nothing".to_owned(),
        Command::Grant { ttl, ask, parent, .. } => {
            let child = if parent.is_some() { "child " } else { "" };
            let wanted = ask.map(|(at, patience)| format!(" on {}{}", resource(at), patient(patience)));
            format!("asks for a {child}lease of {ttl}{}", wanted.unwrap_or_default())
        }
        Command::Renew { ttl: None, .. } => "renews".to_owned(),
        Command::Renew { ttl: Some(ttl), .. } => format!("renews for {ttl}"),
        Command::Release { .. } => "releases".to_owned(),
        Command::Revoke { .. } => "is revoked".to_owned(),
        Command::Claim { resource: at, patience, seq, .. } => {
            format!("claims {}{} (seq {seq})", resource(at), patient(patience))
        }
        Command::Unclaim { resource: at, token, seq, .. } => {
            format!("gives {} with token {token} back (seq {seq})", resource(at))
        }
    }
}

fn patient(patience: u8) -> String {
    match patience {
        0 => String::new(),
        NEVER => " and would wait".to_owned(),
        patience => format!(" and would wait for {patience}"),
    }
}

/// A state in a line: real and lease time, who has what until when, and who believes to hold something.
pub fn leases<'a>(core: &Core, real: u8, names: &[&str], valid: impl Iterator<Item = &'a str>) -> String {
    let living = (0..LEASES).filter(|lease| core.leases[*lease].is_living());
    let mut facts: Vec<String> = living.map(|lease| fact(names[lease], &core.leases[lease])).collect();
    for (at, row) in core.resources.iter().enumerate() {
        if row.rests_until > 0 {
            facts.push(format!("{} rests until {}", resource(at), row.rests_until));
        }
    }
    let valid: Vec<&str> = valid.collect();
    let facts = if facts.is_empty() { "nothing lives".to_owned() } else { facts.join(", ") };
    let acting = if valid.is_empty() { "nobody acts".to_owned() } else { format!("{} acts", valid.join(" and ")) };
    format!("[real {real}, lease time {}: {facts}; {acting}]", core.now)
}

fn fact(name: &str, lease: &Lease) -> String {
    let claim = |(at, claim): (usize, &Claim)| match claim {
        Claim::None => None,
        Claim::Held { token } => Some(format!(" holds {} ({token})", resource(at))),
        Claim::Waiting { .. } => Some(format!(" waits for {}", resource(at))),
    };
    let claims: String = lease.claims.iter().enumerate().filter_map(claim).collect();
    format!("{name}{claims} until {}", lease.deadline)
}

/// Tells a path: what happened, and how things stand then.
pub fn tell<S, A>(
    path: &[(S, Option<A>)],
    happened: impl Fn(&A) -> String,
    stand: impl Fn(&S) -> String,
) -> Vec<String> {
    let after = path.iter().skip(1).map(|(state, _)| state);
    let actions = path.iter().filter_map(|(_, action)| action.as_ref());
    actions.zip(after).map(|(action, state)| format!("{}. {}", happened(action), stand(state))).collect()
}
