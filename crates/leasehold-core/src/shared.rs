//! Texts that are often the same, kept once.
//!
//! A client names the same holder on every lease, and each arrives as a text of its own. A small cache gives back the
//! copy that is already there. It saves memory and decides nothing: whether a text is shared is invisible.

use crate::{Holder, fingerprint};

/// How many texts are remembered; one that hashes to the place of another takes it.
const PLACES: usize = 1024;

/// Recently seen holders.
#[derive(Debug)]
pub(crate) struct SharedHolders(Vec<Option<Holder>>);

impl Default for SharedHolders {
    fn default() -> Self {
        Self(vec![None; PLACES])
    }
}

impl SharedHolders {
    /// The same holder, as the copy that was seen before if there is one.
    pub(crate) fn share(&mut self, holder: Holder) -> Holder {
        let place = &mut self.0[place_of(holder.as_str())];
        match place {
            Some(seen) if *seen == holder => seen.clone(),
            Some(_) | None => place.insert(holder).clone(),
        }
    }
}

fn place_of(text: &str) -> usize {
    (fingerprint::of_text(text) >> 32) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_memory_and_others_do_not() {
        let mut shared = SharedHolders::default();
        let first = shared.share(Holder::new("ann").unwrap());
        let again = shared.share(Holder::new("ann").unwrap());
        let other = shared.share(Holder::new("bob").unwrap());
        assert!(std::ptr::eq(first.as_str(), again.as_str()));
        assert_eq!(other.as_str(), "bob");
        for n in 0..10_000 {
            let name = format!("holder-{n}");
            assert_eq!(shared.share(Holder::new(&name).unwrap()).as_str(), name);
        }
    }
}
