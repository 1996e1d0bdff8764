//! What being served does to the life of a lease: it counts as a renewal, also for a holder that is gone.

use leasehold_model::core::{Command, Core, NEVER, Stamp};
use leasehold_model::plant::Rules;

const RULES: Rules = Rules { ahead: 9, ..Rules::DESIGN };

fn at(core: &mut Core, now: u8, command: Command) {
    core.apply(&RULES, 1, Stamp { leader: 1, now }, command, &mut Vec::new());
}

fn grant(lease: usize, ttl: u8, ask: Option<(usize, u8)>) -> Command {
    Command::Grant { lease, ttl, parent: None, ask, seen: 0 }
}

/// Promise 5 bounds the life of a lease that nobody renews by 2 ttl after faults; each served wait adds a ttl to that.
#[test]
fn every_served_wait_keeps_a_dead_holder_for_one_more_ttl() {
    let mut core = Core::new();
    at(&mut core, 0, grant(0, 9, Some((0, 0))));
    at(&mut core, 0, grant(1, 9, Some((1, 0))));
    at(&mut core, 0, grant(2, 4, None));
    at(&mut core, 0, Command::Claim { lease: 2, resource: 0, patience: NEVER, seq: 1 });
    at(&mut core, 0, Command::Claim { lease: 2, resource: 1, patience: NEVER, seq: 2 });
    assert_eq!(core.deadline(2), 4, "nothing is heard of its holder from here on");
    at(&mut core, 4, Command::Release { lease: 0 });
    assert_eq!(core.deadline(2), 8);
    at(&mut core, 8, Command::Release { lease: 1 });
    assert_eq!(core.deadline(2), 12, "three ttls after the last sign of its holder");
    at(&mut core, 12, Command::Tick);
    assert!(core.leases[2].is_living());
    at(&mut core, 13, Command::Tick);
    assert!(!core.leases[2].is_living());
}
