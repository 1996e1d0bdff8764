//! Measures the service in process, and the client over its stream: every answer comes after fdatasync.
//!
//! `cargo xtask bench` runs everything; `cargo xtask bench -- grants expiry` runs some. Figures are printed, not asserted:
//! they belong to a machine, and docs/operations/performance.md says to which. Whole systems are put side by side by
//! `cargo xtask bench --compare`, which is a package of its own.

#![allow(clippy::print_stdout, reason = "figures go to stdout")]

mod client;
mod cluster;
mod expiry;
mod figures;
mod grants;
mod setup;
mod size;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, address, directory] = &wanted[..]
        && serve == client::SERVE
    {
        return client::serve(address, directory);
    }
    let all: [(&str, fn()); 13] = [
        ("disk", grants::disk),
        ("grants", grants::grants),
        ("renewals", grants::renewals),
        ("expiry", expiry::lateness),
        ("burst", expiry::burst),
        ("million", size::bare),
        ("million-locks", size::locks),
        ("restart", size::restart),
        ("locking", client::locking),
        ("keeping", client::keeping),
        ("cluster", cluster::commands),
        ("transfer", cluster::transfer),
        ("growth", cluster::growth),
    ];
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{cores} cores, {} build", if cfg!(debug_assertions) { "debug" } else { "release" });
    for (name, measure) in all {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            println!("\n## {name}");
            measure();
        }
    }
    std::process::ExitCode::SUCCESS
}
