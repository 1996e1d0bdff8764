//! The table of codes, as a golden file: names, statuses and exit codes are contract.

use leasehold_api::Code;

#[test]
fn the_table_is_as_recorded() {
    let mut table = String::from("# name, HTTP status, gRPC code, exit code, retry\n");
    for code in Code::ALL {
        let (status, grpc, exit) = (code.status(), code.grpc(), code.exit());
        table.push_str(&format!("{:<24}{status:>4}{grpc:>4}{exit:>4}  {}\n", code.name(), code.retry().name()));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/codes.txt");
    if std::env::var_os("RECORD").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let recorded = std::fs::read_to_string(path).unwrap();
    assert_eq!(table, recorded, "the table changed; if that is meant, record it with RECORD=1");
}
