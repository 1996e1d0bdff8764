//! What a planted mistake does to entries.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "../../leasehold-core/tests/contrast/mod.rs"]
mod contrast;

use contrast::contrast;
use leasehold_core::planted::Bug;
use leasehold_core::{LeaderId, LeaseTime, Stamp, WallTime};
use leasehold_log::{Origin, Pack, open};

fn stamp(term: u64) -> Stamp {
    Stamp { leader: LeaderId { term, node: term }, now: LeaseTime(1000 * term), wall: WallTime(0) }
}

/// The stamp of commands that a deposed leader sends on to the next one.
fn restamped() -> Stamp {
    let origin = Origin { run: 7, number: 1 };
    let sealed = Pack::new().seal(stamp(2), origin);
    let (returned, _) = Pack::unpack(&sealed).unwrap();
    let (taken, of) = Pack::unpack(&returned.parcel(origin)).unwrap();
    assert_eq!(of, origin);
    open(&taken.seal(stamp(3), of)).unwrap().stamp
}

#[test]
fn foreign_entry_counts() {
    contrast(Bug::ForeignEntryCounts, restamped, stamp(3), stamp(2));
}
