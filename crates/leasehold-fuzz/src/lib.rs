//! Arbitrary bytes against everything that reads bytes: requests, messages, files, settings, names, commands.
//!
//! A target is a function that takes any bytes, must not panic, and asserts what it can: that what is read is written and
//! read again as the same, that a refusal is a clean one, that memory stays bounded, that invariants hold. The same
//! targets run on stable as short tests (`tests/short.rs`), for longer with the mutations of `mutate.rs` (this crate's
//! binary), and guided by coverage (`cargo xtask fuzz`). Where a format has checksums they are made right after a change,
//! so that changes get behind them. See docs/decisions/0021-fuzzing.md.

mod here;
mod mutate;
mod run;
mod source;
mod targets;

pub use run::{Failure, be_quiet, beginnings, corpus, keep, mutations, once, reduced};
pub use source::{Source, put_piece};

use targets::{apply, client, config, grpc, http, log, node, snapshots, words};

/// Something that takes any bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also that of its folder in `corpus/`.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Takes an input; panics if something is not as it must be.
    pub run: fn(&[u8]),
    /// Makes valid inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that its inputs are made of.
    pub words: &'static [&'static str],
    /// How many bytes of memory an input may take.
    pub memory: usize,
    /// How many mutations of the fixed seed the short test gives to it: about a second's worth.
    pub short: u64,
}

/// What small readers may take: far more than any input has, far less than a length can claim.
const SMALL: usize = 4 << 20;
/// What a service of its own may take.
const LARGE: usize = 64 << 20;

const NO_WORDS: &[&str] = &[];

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "apply",
        about: "the state machine under any commands",
        run: apply::run,
        seeds: apply::seeds,
        words: NO_WORDS,
        memory: LARGE,
        short: 400,
    },
    Target {
        name: "entry",
        about: "log entries, parcels, events",
        run: log::entry,
        seeds: log::entry_seeds,
        words: NO_WORDS,
        memory: SMALL,
        short: 20_000,
    },
    Target {
        name: "record",
        about: "log records, positions, votes",
        run: log::record,
        seeds: log::record_seeds,
        words: NO_WORDS,
        memory: SMALL,
        short: 20_000,
    },
    Target {
        name: "membership",
        about: "who belongs to the cluster, as it is stored",
        run: log::membership,
        seeds: log::membership_seeds,
        words: NO_WORDS,
        memory: SMALL,
        short: 20_000,
    },
    Target {
        name: "body",
        about: "the body of a snapshot, and the state it makes",
        run: snapshots::body,
        seeds: snapshots::body_seeds,
        words: NO_WORDS,
        memory: SMALL,
        short: 3_000,
    },
    Target {
        name: "file",
        about: "snapshot and backup files",
        run: snapshots::file,
        seeds: snapshots::file_seeds,
        words: NO_WORDS,
        memory: SMALL,
        short: 3_000,
    },
    Target {
        name: "log_file",
        about: "the log's files",
        run: node::log_file,
        seeds: node::log_file_seeds,
        words: NO_WORDS,
        memory: LARGE,
        short: 200,
    },
    Target {
        name: "frames",
        about: "what nodes say to each other",
        run: node::frames,
        seeds: leasehold_raft::fuzzing::frame_seeds,
        words: NO_WORDS,
        memory: SMALL,
        short: 8_000,
    },
    Target {
        name: "hello",
        about: "the handshake between nodes",
        run: node::hello,
        seeds: leasehold_raft::fuzzing::hello_seeds,
        words: NO_WORDS,
        memory: SMALL,
        short: 8_000,
    },
    Target {
        name: "config",
        about: "configuration files",
        run: config::run,
        seeds: config::seeds,
        words: config::WORDS,
        memory: SMALL,
        short: 2_000,
    },
    Target {
        name: "words",
        about: "durations, ids, names, addresses, small files",
        run: words::run,
        seeds: words::seeds,
        words: words::WORDS,
        memory: SMALL,
        short: 8_000,
    },
    Target {
        name: "http",
        about: "requests to the HTTP API",
        run: http::run,
        seeds: http::seeds,
        words: http::WORDS,
        memory: LARGE,
        short: 400,
    },
    Target {
        name: "grpc",
        about: "calls of the gRPC API",
        run: grpc::run,
        seeds: grpc::seeds,
        words: NO_WORDS,
        memory: LARGE,
        short: 400,
    },
    Target {
        name: "events",
        about: "events of a watch, as a client reads them",
        run: client::events,
        seeds: client::event_seeds,
        words: &["data: ", "id: ", "event: ", "retry: ", "\n\n", "\r", ":"],
        memory: SMALL,
        short: 5_000,
    },
    Target {
        name: "answers",
        about: "answers in JSON, as a client reads them",
        run: client::answers,
        seeds: client::answer_seeds,
        words: http::WORDS,
        memory: SMALL,
        short: 5_000,
    },
    Target {
        name: "stream",
        about: "messages of the stream, as a client reads them",
        run: client::stream,
        seeds: client::stream_seeds,
        words: NO_WORDS,
        memory: SMALL,
        short: 20_000,
    },
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
