//! The table in the guide says what the code says.

use leasehold_client::store::{Capability, Store};

const GUIDE: &str = include_str!("../../../../docs/guide/stores.md");

const COLUMNS: [(Capability, &str); 11] = [
    (Capability::Fencing, "fencing tokens"),
    (Capability::FairQueue, "fair queue"),
    (Capability::Push, "push of losses"),
    (Capability::SubSecondTtl, "fractions of a second"),
    (Capability::SharedMode, "shared mode"),
    (Capability::SeveralResources, "several resources"),
    (Capability::Priority, "priorities"),
    (Capability::Cooldown, "cooldown"),
    (Capability::Handover, "hand-over"),
    (Capability::EndlessTtl, "leases without end"),
    (Capability::Durability, "survives a crash"),
];

/// A row of the table for what a store promises.
fn row(capability: Capability, title: &str, stores: &[Box<dyn Store>]) -> String {
    let cells = stores.iter().map(|store| if store.capabilities().has(capability) { "yes" } else { "no" });
    format!("| {title} | {} |", cells.collect::<Vec<_>>().join(" | "))
}

#[test]
fn the_guide_lists_what_each_store_promises() {
    use leasehold_client::store::{Etcd, Leasehold, Memory, Postgres, Redis};

    let stores: Vec<Box<dyn Store>> = vec![
        Box::new(Leasehold::new(Default::default(), "default")),
        Box::new(Memory::new()),
        Box::new(Redis::at("redis://127.0.0.1").unwrap()),
        Box::new(Etcd::at("http://127.0.0.1:2379").unwrap()),
        Box::new(Postgres::at("postgres://127.0.0.1/x").unwrap()),
    ];
    let names: Vec<String> = stores.iter().map(|store| format!("`{}`", store.name())).collect();
    let mut expected = vec![format!("| | {} |", names.join(" | ")), format!("|---{}|", "|---".repeat(stores.len()))];
    expected.extend(COLUMNS.iter().map(|(capability, title)| row(*capability, title, &stores)));
    let expected = expected.join("\n");
    assert!(GUIDE.contains(&expected), "docs/guide/stores.md should have this table:\n{expected}");
}
