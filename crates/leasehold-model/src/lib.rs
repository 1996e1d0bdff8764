//! The rules of Leasehold as models that are searched exhaustively.
//!
//! The promises of the design are about everything that can happen: leaders that are deposed and do not know it, entries
//! that reach a log under another leader, messages that come twice, nodes that crash all at once. A model has few
//! clients, few ticks and few leaders, but within these bounds the checker (stateright) visits *every* state, and a
//! violation comes with a shortest way to it, in words.
//!
//! One model of everything would have too many states, so there are several small ones, the [`aspects`], which share
//! building blocks:
//!
//! | block | what it is |
//! |---|---|
//! | [`core`] | what every node computes from the log: leases, queues, families, retries, lease time |
//! | [`clock`] | the leader's lease clock |
//! | [`holder`] | the holder's side: until when it may act |
//! | [`raft`] | consensus with logs of each node, elections and deposed leaders |
//! | [`mod@line`] | consensus from outside: one line of entries, some in flight, some lost with their leader |
//! | [`audit`] | the promises: what must hold in every state and for every applied entry |
//! | [`plant`] | the rules that can be broken, one at a time; a test shows that each is noticed |
//! | [`check`] | the search and its report |
//!
//! [`catalogue`] lists the aspects with their plants. Nothing here is shared with `leasehold-core` or
//! `leasehold-raft`: this is a second statement of the rules, not a test of their code, and it must not know them.
//! What is abstracted away, and what was found, is in decision 0020.

pub mod aspects;
pub mod audit;
pub mod catalogue;
pub mod check;
pub mod clock;
pub mod core;
pub mod holder;
pub mod line;
pub mod plant;
pub mod raft;
pub mod words;
