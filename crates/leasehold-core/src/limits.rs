//! Every bound, with its reason.
//!
//! Limits are part of the replicated state: they come from the log, never from a node's flags, so that
//! every node refuses the same command. Reaching one is a rejection, not a surprise.

use crate::Span;

/// Bounds on everything that can grow, and the piece sizes of bounded work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The shortest ttl: below this, ordinary delays end leases of healthy holders.
    pub ttl_min: Span,
    /// The longest ttl: above this, a lease is no longer a way to forget the dead.
    pub ttl_max: Span,
    /// The longest cooldown: a resource must not rest for ever.
    pub cooldown_max: Span,
    /// How long lease time stands still after a take-over, so that holders find the new leader.
    pub grace: Span,
    /// How long the cause of a lease's end can be asked for.
    pub tombstone_age: Span,
    /// How many ended leases are remembered.
    pub tombstones: u32,
    /// How many namespaces there may be.
    pub namespaces: u32,
    /// How many leases one namespace may have.
    pub leases: u32,
    /// How many leases one identity may have in a namespace; all anonymous callers count as one.
    pub leases_per_identity: u32,
    /// How many claims, held and waiting, one lease may have.
    pub claims_per_lease: u32,
    /// How many entries may be bound to one lease.
    pub entries_per_lease: u32,
    /// How many leases, claims and entries may end together in one revision, and how many holders one log entry may ask
    /// for a hand-over.
    pub tree_weight: u32,
    /// How deep leases may be nested.
    pub tree_depth: u8,
    /// How many leases may wait for one resource.
    pub waiters: u32,
    /// How many leases may hold one resource together.
    pub shared_holders: u32,
    /// How many entries one namespace may have.
    pub entries: u32,
    /// How many bytes an entry's value may have.
    pub value_bytes: u32,
    /// How many bytes all keys and values of one namespace may have.
    pub entry_bytes: u64,
    /// How many bytes all leases, claims and entries may have together, roughly counted; what is only remembered
    /// (tombstones, history, outcomes) has bounds of its own.
    pub state_bytes: u64,
    /// How many compares and steps a write may have.
    pub write_ops: u32,
    /// How many entries the ranges of a write may cover: compared, deleted or read, whichever way it goes.
    pub range_entries: u32,
    /// How many names and texts a lease's metadata may have.
    pub metadata_pairs: u32,
    /// How many bytes a lease's metadata, the reason of its revoke or that of an ask for a hand-over may have.
    pub metadata_bytes: u32,
    /// How many past facts each resource remembers.
    pub history: u32,
    /// How many resources that nobody holds or wants are remembered for their history.
    pub idle_resources: u32,
    /// How many outcomes a lease keeps for repeated commands.
    pub receipts: u32,
    /// How many leases one renewal may name.
    pub renewals: u32,
    /// How much of a backlog one log entry sweeps: leases, claims and entries together.
    pub sweep_piece: u32,
}

impl Default for Limits {
    /// The limits of a state that no command has configured. Part of the replicated contract: a change here
    /// is a change of the log's meaning and needs a new format version.
    fn default() -> Self {
        Self {
            ttl_min: Span(100),
            ttl_max: Span::seconds(30 * 86_400),
            cooldown_max: Span::seconds(86_400),
            grace: Span(500),
            tombstone_age: Span::seconds(600),
            tombstones: 262_144,
            namespaces: 4096,
            leases: 4_000_000,
            leases_per_identity: 2_000_000,
            claims_per_lease: 8192,
            entries_per_lease: 8192,
            tree_weight: 32_768,
            tree_depth: 8,
            waiters: 16_384,
            shared_holders: 16_384,
            entries: 4_000_000,
            value_bytes: 1 << 20,
            entry_bytes: 2 << 30,
            state_bytes: 4 << 30,
            write_ops: 128,
            range_entries: 16_384,
            metadata_pairs: 16,
            metadata_bytes: 4096,
            history: 16,
            idle_resources: 65_536,
            receipts: 64,
            renewals: 4096,
            sweep_piece: 1024,
        }
    }
}

impl Limits {
    /// Tells what is contradictory about the limits.
    pub fn contradiction(&self) -> Option<&'static str> {
        if self.ttl_min == Span::ZERO || self.ttl_min > self.ttl_max {
            return Some("ttl_min must be above zero and not above ttl_max");
        }
        if self.ttl_max.max(self.cooldown_max) > Span::seconds(10 * 365 * 86_400) {
            return Some("ttl_max and cooldown_max must not be above ten years");
        }
        if self.sweep_piece == 0 || self.renewals == 0 || self.write_ops == 0 {
            return Some("sweep_piece, renewals and write_ops must be above zero");
        }
        if self.receipts == 0 || self.tree_depth == 0 {
            return Some("receipts and tree_depth must be above zero");
        }
        None
    }
}
