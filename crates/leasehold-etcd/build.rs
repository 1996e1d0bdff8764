//! Generates the types of etcd's contract from `proto/etcd`.
//!
//! The files are read by a compiler in Rust, so that building needs no `protoc`. Only the server's side is generated;
//! tests speak to it with etcd's own clients.

use std::path::{Path, PathBuf};

const FILES: [&str; 8] = ["kv", "watch", "lease", "cluster", "maintenance", "auth", "lock", "election"];

/// Steps of a transaction are boxed: a message of many empty ones must not fill the memory.
const BOXED: [&str; 3] = ["request_range", "request_put", "request_delete_range"];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.join("etcd").display());
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo tells where to write"));
    let mut contract = protox::Compiler::new([&root]).expect("the folder of the contract is there");
    contract.include_imports(true);
    for name in FILES {
        if let Err(error) = contract.open_file(format!("etcd/{name}.proto")) {
            panic!("the contract is not valid: {error}");
        }
    }
    std::fs::write(out.join("etcd.bin"), contract.encode_file_descriptor_set())
        .unwrap_or_else(|error| panic!("the description of the contract cannot be written: {error}"));
    let boxed = |config: tonic_prost_build::Builder, step: &&str| {
        config.boxed(format!(".etcdserverpb.RequestOp.request.{step}"))
    };
    // Messages know their names: by them the gateway finds their descriptions.
    let mut named = tonic_prost_build::Config::new();
    named.enable_type_names();
    let config = BOXED.iter().fold(tonic_prost_build::configure(), boxed);
    config
        .bytes(".")
        .build_client(false)
        .build_transport(false)
        .compile_fds_with_config(contract.file_descriptor_set(), named)
        .unwrap_or_else(|error| panic!("the contract cannot be generated: {error}"));
}
