//! Every aspect holds in every state within its bounds, and every broken rule is found.

use leasehold_model::catalogue::{ASPECTS, Listed, find};
use leasehold_model::check::Reach;
use leasehold_model::plant::Plant;

fn listed(aspect: &str) -> &'static Listed {
    find(aspect).unwrap_or_else(|| panic!("there is an aspect `{aspect}`"))
}

/// Tells the number of states, so that a change that empties a search is noticed.
fn holds(aspect: &str, states: usize) {
    let report = listed(aspect).search(None, Reach::default());
    eprintln!("{aspect}: {report}");
    assert!(report.holds(), "{aspect}: {report}");
    assert_eq!(report.states, states, "the bounds or the rules of {aspect} have changed");
}

fn finds_its_plants(aspect: &str) {
    for plant in listed(aspect).plants {
        let report = listed(aspect).search(Some(*plant), Reach::default());
        eprintln!("{aspect}, {}: {report}", plant.name());
        assert!(report.violation.is_some(), "{aspect} does not notice that {}", plant.what());
    }
}

macro_rules! aspects {
    ($($name:ident $states:literal)+) => {
        $(mod $name {
            #[test]
            fn holds_everywhere() {
                super::holds(stringify!($name), $states);
            }

            #[test]
            fn finds_every_broken_rule() {
                super::finds_its_plants(stringify!($name));
            }
        })+

        #[test]
        fn every_aspect_is_tested() {
            let tested = [$(stringify!($name)),+];
            assert!(ASPECTS.iter().map(|aspect| aspect.name).eq(tested));
        }
    };
}

aspects! {
    time 539_682
    renewals 309_365
    drift 174_122
    flapping 604_347
    queue 1_075_568
    backlog 137_863
    family 1_902_160
    grants 651_726
    numbered 216_127
    durability 1_103_448
}

#[test]
fn every_plant_has_an_aspect_that_finds_it() {
    let found = |plant: &&Plant| ASPECTS.iter().any(|aspect| aspect.plants.contains(plant));
    let idle: Vec<_> = Plant::ALL.iter().filter(|plant| !found(plant)).map(|plant| plant.name()).collect();
    assert!(idle.is_empty(), "no aspect looks for {idle:?}");
}

/// The way of leases whose renewals live in the leader's memory, which the design avoids.
mod renewals_in_leader_memory {
    use leasehold_model::check::{Reach, Violation};

    fn violation(name: &str) -> Violation {
        let report = super::listed(name).search(None, Reach::default());
        eprintln!("{name}: {report}");
        report.violation.expect("renewals in memory are not safe")
    }

    #[test]
    fn a_leader_that_wakes_up_ends_a_lease_that_others_kept_alive() {
        let violation = violation("leader-memory");
        assert_eq!(violation.property, "what a valid holder holds is its own, or rests");
        let steps = violation.steps.join("\n");
        assert!(steps.contains("n1 wakes up and believes that it still leads"), "{steps}");
        assert!(steps.contains("ann renews; n2 notes it"), "{steps}");
        assert!(steps.contains("n1 finds the deadline of ann passed and proposes its end"), "{steps}");
    }

    #[test]
    fn a_deposed_leader_acknowledges_what_its_successor_never_hears_of() {
        let violation = violation("leader-memory-fenced");
        let steps = violation.steps.join("\n");
        assert!(steps.contains("ann renews; n1 notes it in memory and acknowledges"), "{steps}");
        assert!(steps.contains("n2 finds the deadline of ann passed and proposes its end"), "{steps}");
    }
}
