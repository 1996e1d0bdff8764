//! What fits the log: looked at before a command goes there, because what is in the log must be readable for ever.

use leasehold_core::{Asks, Command, Compare, KEY_MAX, Operand, Write, WriteOp};

use crate::Failure;
use crate::lanes::COMMAND_BYTES_MAX;

/// Refuses a command that does not fit the log.
pub(crate) fn check(command: &Command) -> Result<(), Failure> {
    if let Command::Write(write) = command {
        write.check_depth()?;
    }
    match rough_size(command) {
        size if size > COMMAND_BYTES_MAX => Err(Failure::TooLarge { size, max: COMMAND_BYTES_MAX }),
        _ => Ok(()),
    }
}

/// Roughly how many bytes a command takes in the log, counted without encoding it.
fn rough_size(command: &Command) -> usize {
    let asks = |asks: &Asks| asks.claims.iter().map(|ask| ask.resource.as_str().len() + 8).sum::<usize>();
    let variable = match command {
        Command::Grant(grant) | Command::GrantAnew(grant) => grant.metadata.size() + asks(&grant.asks),
        Command::Claim(claim) => asks(&claim.asks),
        Command::ClaimMarked(marked) => asks(&marked.claim.asks) + KEY_MAX + marked.marker.value.len(),
        Command::Renew(renew) => renew.leases.len() * 8,
        Command::Write(write) => write_size(write),
        Command::Revoke(revoke) => revoke.reason.len(),
        Command::AskHandover(ask) => ask.reason.as_ref().map_or(0, |reason| reason.len()),
        Command::Release(_) | Command::Unclaim(_) | Command::Leave(_) | Command::Configure(_) => 0,
    };
    variable + 1024
}

fn write_size(write: &Write) -> usize {
    let step = |op: &WriteOp| match op {
        WriteOp::Put { key, value, .. } => key.as_bytes().len() + value.as_ref().map_or(0, |value| value.len()),
        WriteOp::Delete { .. } | WriteOp::Read { .. } => 2 * KEY_MAX,
        WriteOp::Nested(write) => write_size(write),
    };
    let compared = |compare: &Compare| match &compare.operand {
        Operand::Value(value) => value.len() + KEY_MAX,
        Operand::Version(_) | Operand::Created(_) | Operand::Modified(_) | Operand::Lease(_) => KEY_MAX,
    };
    let steps = write.then.iter().chain(&write.otherwise).map(step).sum::<usize>();
    steps + write.compares.iter().map(compared).sum::<usize>()
}
