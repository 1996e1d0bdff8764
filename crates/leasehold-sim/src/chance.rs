//! Randomness of the whole process from one seed: the system's call for it is answered here.
//!
//! Libraries draw at places that a simulation cannot reach: the order in which `select!` looks, hashers, the spread of
//! election timeouts, ids. All of them ask the system first, through `getrandom`; this executable has that function
//! itself, so that the same seed gives the same draws. Other threads than the main one get draws of their own, so that
//! they do not disturb its order. This is the only unsafe code of the project, and it is part of no product.
#![allow(unsafe_code, reason = "the system's function has a C signature")]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

static SEED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static DRAWN: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Begins the draws of this thread; call it first of all.
pub(crate) fn seed(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
    DRAWN.set(Some(seed ^ 0x9e37_79b9_7f4a_7c15));
}

/// The next draw: splitmix64, which is enough for what it serves.
fn draw() -> u64 {
    let state = DRAWN.get().unwrap_or_else(|| SEED.load(Ordering::Relaxed)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    DRAWN.set(Some(state));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Fills `bytes` as the system's function of this name would, but from the seed.
///
/// # Safety
/// `bytes` must point at `count` bytes that may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getrandom(bytes: *mut u8, count: usize, _flags: u32) -> isize {
    let mut written = 0;
    while written < count {
        let piece = draw().to_le_bytes();
        let length = piece.len().min(count - written);
        // SAFETY: the caller owns `count` bytes from `bytes` on, and `written + length` is at most `count`.
        unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), bytes.add(written), length) };
        written += length;
    }
    count as isize
}
