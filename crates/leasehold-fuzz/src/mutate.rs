//! Changes inputs as damage, hostility and chance do: bits, edges, lengths, cuts, repetitions, parts of other inputs.
//!
//! It knows no format. Checksums are made to fit again by the targets that have them, so a change gets past them.

use rand::rngs::SmallRng;
use rand::{Rng, RngCore};

/// The longest input that is made.
pub(crate) const INPUT_MAX: usize = 16 * 1024;

/// Bytes at which readers decide.
const EDGES: [u8; 16] = [0, 1, 2, 3, 7, 8, 0x0a, 0x20, 0x22, 0x2f, 0x7b, 0x7f, 0x80, 0x81, 0xfe, 0xff];

/// Changes `input` in one to five places; `others` lend parts of themselves.
pub(crate) fn mutate(random: &mut SmallRng, input: &mut Vec<u8>, others: &[Vec<u8>], words: &[&str]) {
    // Mostly few changes: an input with many is refused at the first one.
    let times = 1 + random.random_range(0..5).min(random.random_range(0..5));
    for _ in 0..times {
        once(random, input, others, words);
    }
    input.truncate(INPUT_MAX);
}

fn once(random: &mut SmallRng, input: &mut Vec<u8>, others: &[Vec<u8>], words: &[&str]) {
    let at = random.random_range(0..=input.len());
    let longest = 1 << random.random_range(0..7);
    let run = random.random_range(1..=longest);
    let end = (at + run).min(input.len());
    match random.random_range(0..14) {
        0 | 1 if at < input.len() => input[at] ^= 1 << random.random_range(0..8),
        2 if at < input.len() => input[at] = random.random(),
        3 if at < input.len() => input[at] = EDGES[random.random_range(0..EDGES.len())],
        4 if at < input.len() => {
            let by = random.random_range(1..=16);
            input[at] = if random.random() { input[at].wrapping_add(by) } else { input[at].wrapping_sub(by) };
        }
        5 => number(random, input, at),
        6 => drop(input.drain(at..end)),
        7 => insert(input, at, &vec![random.random(); run]),
        8 => {
            let copied = input[at..end].to_vec();
            let to = random.random_range(0..=input.len());
            insert(input, to, &copied);
        }
        9 => input.truncate(at),
        10 | 11 => splice(random, input, at, others),
        12 if !words.is_empty() => {
            let word = words[random.random_range(0..words.len())].as_bytes();
            // In the place of a word as often as between two.
            let end = at + input[at..].iter().take(40).position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(0);
            let end = if random.random() { at } else { end };
            let tail = input.split_off(end);
            input.truncate(at);
            input.extend_from_slice(word);
            input.extend_from_slice(&tail);
        }
        _ => {
            let mut bytes = vec![0; run.min(16)];
            random.fill_bytes(&mut bytes);
            insert(input, at, &bytes);
        }
    }
}

/// Puts a number of 2, 4 or 8 bytes, an edge or next to what is there, as a length would be.
fn number(random: &mut SmallRng, input: &mut [u8], at: usize) {
    let width = 2 << random.random_range(0..3);
    let Some(place) = input.get_mut(at..at + width) else { return };
    let mut present = [0; 8];
    present[..width].copy_from_slice(place);
    let present = u64::from_le_bytes(present);
    let edges = [0, 1, u64::MAX, u64::MAX >> 1, u64::from(u32::MAX), 1 << 24, 1 << 20, 4096];
    let number = match random.random_range(0..3) {
        0 => present.wrapping_add(random.random_range(1..=32)),
        1 => present.wrapping_sub(random.random_range(1..=32)),
        _ => edges[random.random_range(0..edges.len())],
    };
    place.copy_from_slice(&number.to_le_bytes()[..width]);
}

/// Continues with, or takes in, a part of another input.
fn splice(random: &mut SmallRng, input: &mut Vec<u8>, at: usize, others: &[Vec<u8>]) {
    let Some(other) = others.get(random.random_range(0..others.len().max(1))) else { return };
    let from = random.random_range(0..=other.len());
    let to = random.random_range(from..=other.len());
    if random.random() {
        input.truncate(at);
        input.extend_from_slice(&other[from..]);
    } else {
        insert(input, at, &other[from..to]);
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let tail = input.split_off(at);
    input.extend_from_slice(bytes);
    input.extend_from_slice(&tail);
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_changes_and_none_grows_without_bound() {
        let others = vec![b"one two three".to_vec(), vec![0xff; 300]];
        let run = || {
            let mut random = SmallRng::seed_from_u64(7);
            let mut input = b"hello".to_vec();
            for _ in 0..5000 {
                mutate(&mut random, &mut input, &others, &["word"]);
                assert!(input.len() <= INPUT_MAX);
            }
            input
        };
        assert_eq!(run(), run());
    }
}
