//! Measures how fast the durable forms are written and read: `cargo run --release --example rates`.
//!
//! The numbers are for one thread, without disk: typical grants with one claim, renewals of one lease, and a
//! body of a million leases that hold one resource each.

#![allow(clippy::print_stdout, reason = "the numbers are what it is for")]

use std::hint::black_box;
use std::time::Instant;

use leasehold_core::*;
use leasehold_log::{Origin, Pack, encode_request, open, read_body, write_body};

const COMMANDS: u64 = 2_000_000;
const LEASES: u64 = 1_000_000;
const PER_ENTRY: usize = 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let grants = (1..=PER_ENTRY as u64).map(grant).collect::<Result<Vec<_>, _>>()?;
    let renewals = (1..=PER_ENTRY as u64).map(renewal).collect::<Result<Vec<_>, _>>()?;
    commands("grants", &grants)?;
    commands("renewals", &renewals)?;
    body()
}

/// A lease id that is spread over its range as random ones are.
fn lease(number: u64) -> Result<LeaseId, &'static str> {
    LeaseId::new((number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1).max(1)).ok_or("the id is in range")
}

fn request(command: Command) -> Result<Request, InvalidName> {
    Ok(Request { caller: Caller::default(), namespace: Namespace::new("default")?, command })
}

fn grant(number: u64) -> Result<Request, Box<dyn std::error::Error>> {
    let resource = ResourceName::new(&format!("orders/{number}"))?;
    Ok(request(Command::Grant(Grant {
        id: lease(number)?,
        holder: Holder::new(&format!("worker-{number}"))?,
        ttl: Ttl::For(Span(10_000)),
        class: Class::Lock,
        parent: None,
        metadata: Metadata::default(),
        asks: Asks { claims: vec![Ask { resource, mode: Mode::Exclusive }], ..Asks::default() },
        seen: LeaseTime(86_400_000),
    }))?)
}

fn renewal(number: u64) -> Result<Request, Box<dyn std::error::Error>> {
    Ok(request(Command::Renew(Renew { leases: vec![lease(number)?], ttl: None }))?)
}

fn commands(name: &str, requests: &[Request]) -> Result<(), Box<dyn std::error::Error>> {
    let rounds = COMMANDS / requests.len() as u64;
    let total = (rounds * requests.len() as u64) as f64;
    let mut buffer = Vec::with_capacity(256 << 10);
    let mut entry = Vec::new();

    let start = Instant::now();
    for _ in 0..rounds {
        buffer.clear();
        for request in requests {
            encode_request(request, &mut buffer);
        }
        let mut pack = Pack::with_capacity(buffer.len());
        pack.append(&buffer, requests.len() as u32);
        entry = black_box(pack.seal(Stamp::default(), Origin::default()));
    }
    let encoded = total / start.elapsed().as_secs_f64();

    let start = Instant::now();
    for _ in 0..rounds {
        for request in open(black_box(&entry))?.requests {
            black_box(request?);
        }
    }
    let decoded = total / start.elapsed().as_secs_f64();
    let each = entry.len() / requests.len();
    println!("{name:10} encode {:6.2} M/s  decode {:6.2} M/s  {each} bytes each", encoded / 1e6, decoded / 1e6);
    Ok(())
}

fn lease_record(number: u64) -> Result<Record, Box<dyn std::error::Error>> {
    Ok(Record::Lease(Box::new(LeaseRecord {
        namespace: NamespaceId(1),
        id: lease(number)?,
        holder: Holder::new(&format!("worker-{number}"))?,
        identity: None,
        ttl: Ttl::For(Span(10_000)),
        deadline: LeaseTime(86_410_000),
        granted: LeaseTime(86_000_000),
        granted_wall: WallTime(1_750_000_000_000),
        granted_at: Revision(1100),
        renewed: LeaseTime(86_400_000),
        class: Class::Lock,
        parent: None,
        metadata: Metadata::default(),
        fingerprint: number.wrapping_mul(0xd6e8_feb8_6659_fd93),
        changed: Revision(number),
        held: vec![HeldClaim {
            resource: ResourceName::new(&format!("orders/{number}"))?,
            mode: Mode::Exclusive,
            token: Token(number),
            since: LeaseTime(86_000_000),
            since_wall: WallTime(1_750_000_000_000),
            waited: Span(0),
            cooldown: Span(0),
        }],
        waits: Vec::new(),
        seq: 0,
        receipts: Vec::new(),
    })))
}

fn body() -> Result<(), Box<dyn std::error::Error>> {
    let records = (1..=LEASES).map(lease_record).collect::<Result<Vec<_>, _>>()?;
    let mut bytes = Vec::with_capacity(256 << 20);
    write_body(records.iter(), Revision(7), std::iter::empty(), &mut bytes)?; // Once ahead, so that the memory is there.
    bytes.clear();
    let start = Instant::now();
    write_body(records.iter(), Revision(7), std::iter::empty(), &mut bytes)?;
    let encoded = LEASES as f64 / start.elapsed().as_secs_f64();

    let start = Instant::now();
    let drop_it = |record| {
        drop::<Record>(black_box(record));
        Ok(())
    };
    read_body(&mut &bytes[..], drop_it, |_| Ok(()))?;
    let decoded = LEASES as f64 / start.elapsed().as_secs_f64();

    let start = Instant::now();
    let mut kept = Vec::with_capacity(records.len());
    let keep = |record| {
        kept.push(record);
        Ok(())
    };
    read_body(&mut &bytes[..], keep, |_| Ok(()))?;
    let loaded = LEASES as f64 / start.elapsed().as_secs_f64();
    assert_eq!(kept, records);
    let each = bytes.len() as u64 / LEASES;
    println!("{:10} encode {:6.2} M/s  decode {:6.2} M/s  {each} bytes each", "leases", encoded / 1e6, decoded / 1e6);
    println!("{:10} and kept in memory: {:6.2} M/s", "", loaded / 1e6);
    Ok(())
}
