//! Refusals: what happened, to what, and what to do next.

use leasehold_api::{Code, HolderInfo, Problem, WaitText};
use leasehold_client::http::Error;
use leasehold_core::{Patience, Span};

use super::text::{clock, ends_in, mode, names, ordinal, plain, quoted, short};
use crate::failure::Failure;

/// A wait that is worth suggesting.
const WORTH_WAITING: Span = Span::seconds(300);

/// The failure of a command that was refused.
pub(crate) fn failure(problem: &Problem) -> Failure {
    let failure = Failure::new(problem.exit(), plain(&problem.detail));
    let failure = match problem.retry_after {
        Some(after) => failure.hint(format!("try again in {}", short(after))),
        None => failure,
    };
    let hint = match problem.known_code() {
        Some(Code::IdInUse) => "leave out --id, or repeat the first call exactly, with the same --holder",
        Some(Code::Compacted) => {
            return match problem.oldest {
                Some(oldest) => failure.hint(format!("watch again with  --since {oldest}  or later, or without it")),
                None => failure.hint("watch again without --since"),
            };
        }
        Some(Code::UnknownRoute | Code::MethodNotAllowed | Code::UnsupportedMediaType) => {
            "the server may be older than this client; compare with `lease --version`"
        }
        _ => return failure,
    };
    failure.hint(hint)
}

/// What happened to a connection that is made again.
pub(crate) fn lost(error: &Error) -> String {
    match error {
        Error::Unreachable { addr, cause } => format!("lost the connection to {addr}: {cause}"),
        Error::Refused(_) | Error::Protocol { .. } => plain(&error.to_string()),
    }
}

/// The failure of a claim that was not granted within `wait`.
pub(crate) fn not_acquired(problem: &Problem, wait: Patience, exit: u8) -> Failure {
    let Some(resource) = problem.resource.as_deref().map(plain) else {
        return Failure::outcome(exit, format!("not acquired: {}", plain(&problem.detail)));
    };
    let failure = Failure::outcome(exit, format!("not acquired: {resource} {}", state(problem)));
    let place = problem.queue.and_then(|queue| queue.position).map(|position| match problem.known_code() {
        Some(Code::WaitElapsed) => format!("you were {} in the queue; ", ordinal(position)),
        _ => format!("you would be {} in the queue; ", ordinal(position)),
    });
    let longer = match wait {
        Patience::For(span) if span >= WORTH_WAITING => Patience::Endless,
        Patience::None | Patience::For(_) | Patience::Endless => Patience::For(WORTH_WAITING),
    };
    let place = place.unwrap_or_default();
    let or = match problem.holders.as_deref() {
        Some([_, ..]) => format!("or  lease request-handover {resource}"),
        Some([]) | None => format!("or see  lease describe {resource}"),
    };
    failure.hint(format!("{place}try  --wait {}  {or}", WaitText(longer)))
}

/// Why the resource could not be had.
fn state(problem: &Problem) -> String {
    let holders = problem.holders.as_deref().unwrap_or_default();
    let count = problem.holder_count.unwrap_or(0);
    match (holders, problem.rests) {
        ([], Some(rests)) => format!("rests for {} more after an unclean end or a restore", short(rests)),
        ([], None) => match problem.queue.map_or(0, |queue| queue.length) {
            0 => "was not free".to_owned(),
            length => format!("is wanted by {length} before you"),
        },
        ([only], _) if count <= 1 => format!("is held by {}", held(only)),
        (holders, _) => format!("is held by {} ({})", names(holders, count), mode(holders[0].mode)),
    }
}

/// A holder with all that tells how long it may take.
fn held(holder: &HolderInfo) -> String {
    let (name, held_for, ends) = (plain(&holder.holder), clock(holder.held_for), ends_in(holder.remaining));
    format!("{name}{} (token {}, for {held_for}, {ends})", quoted(holder.reason.as_deref()), holder.token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Problem {
        serde_json::from_str(include_str!("../../tests/golden/wait_elapsed.json")).unwrap()
    }

    #[test]
    fn a_wait_that_elapsed_names_the_holder_and_the_place() {
        let failure = not_acquired(&sample(), Patience::For(Span::seconds(5)), 75);
        let text = "lease: not acquired: nightly is held by bob@box2/990 (token 5, for 00:41, ends in 9s unless \
                    renewed)\n  you were 1st in the queue; try  --wait 5m  or  lease request-handover nightly";
        assert_eq!((failure.text().as_str(), failure.exit()), (text, 75));
    }

    #[test]
    fn a_longer_wait_is_suggested() {
        let failure = not_acquired(&sample(), Patience::For(WORTH_WAITING), 3);
        assert!(failure.text().contains("--wait forever"), "{}", failure.text());
        assert_eq!(failure.exit(), 3);
    }

    #[test]
    fn rest_and_others_before_you_are_told() {
        let problem = Problem {
            holders: Some(Vec::new()),
            rests: Some("4s".parse().unwrap()),
            ..Problem { code: "held".into(), ..sample() }
        };
        let text = not_acquired(&problem, Patience::None, 75).text();
        assert!(text.contains("nightly rests for 4s more after an unclean end or a restore"), "{text}");
        assert!(text.contains("you would be 1st in the queue"), "{text}");
        let problem = Problem { rests: None, ..problem };
        let text = not_acquired(&problem, Patience::None, 75).text();
        assert!(text.contains("nightly is wanted by 1 before you"), "{text}");
    }
}
