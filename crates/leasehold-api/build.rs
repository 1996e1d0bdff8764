//! Generates the types of the gRPC contract from `proto/leasehold/v1`.
//!
//! The files are read by a compiler in Rust, so that building needs no `protoc`. Nothing is generated without the
//! feature `grpc`.

fn main() {
    #[cfg(feature = "grpc")]
    grpc::generate();
}

#[cfg(feature = "grpc")]
mod grpc {
    use std::path::{Path, PathBuf};

    const FILES: [&str; 8] = ["types", "lease", "connect", "leases", "resources", "entries", "watch", "cluster"];

    /// What is large in a list of small things is boxed: a message of a few bytes each must not fill the memory.
    const BOXED: [&str; 16] = [
        "Command.command.hello",
        "Command.command.grant",
        "Command.command.renew",
        "Command.command.release",
        "Command.command.revoke",
        "Command.command.claim",
        "Command.command.unclaim",
        "Command.command.leave",
        "Command.command.txn",
        "Command.command.handover",
        "Command.command.attach",
        "Compare.range",
        "TxnStep.step.put",
        "TxnStep.step.delete",
        "TxnStep.step.read",
        "RenewResult.result.problem",
    ];

    pub(super) fn generate() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
        println!("cargo::rerun-if-changed={}", root.display());
        let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo tells where to write"));
        let mut contract = protox::Compiler::new([&root]).expect("the folder of the contract is there");
        contract.include_source_info(true).include_imports(true);
        for name in FILES {
            if let Err(error) = contract.open_file(format!("leasehold/v1/{name}.proto")) {
                panic!("the contract is not valid: {error}");
            }
        }
        std::fs::write(out.join("leasehold.v1.bin"), contract.encode_file_descriptor_set())
            .unwrap_or_else(|error| panic!("the description of the contract cannot be written: {error}"));
        let boxed = |config: tonic_prost_build::Builder, path: &&str| config.boxed(format!(".leasehold.v1.{path}"));
        let config = BOXED.iter().fold(tonic_prost_build::configure(), boxed);
        config
            .bytes(".leasehold.v1")
            .btree_map(".leasehold.v1")
            .build_transport(false)
            .compile_fds(contract.file_descriptor_set())
            .unwrap_or_else(|error| panic!("the contract cannot be generated: {error}"));
    }
}
