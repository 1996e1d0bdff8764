//! An ordered set that takes little more memory than its keys.
//!
//! Keys stand in chunks, in order. Most of what it holds comes in rising order (deadlines, grants), so a full last
//! chunk is left full and the next one begun, where a tree would leave its nodes half empty. Most of it goes in that
//! order, too, so the first key of a chunk goes without moving the others.

use std::collections::VecDeque;

/// A chunk with more keys is split.
const CHUNK_MAX: usize = 512;
/// A chunk with fewer keys joins the next one if both fit into half a chunk.
const CHUNK_MIN: usize = 64;

/// An ordered set of keys.
#[derive(Debug)]
pub(crate) struct OrderedSet<K> {
    chunks: Vec<Chunk<K>>,
    len: usize,
}

#[derive(Debug)]
struct Chunk<K> {
    /// Not above the first key; keys of the chunk before are below it.
    from: K,
    keys: VecDeque<K>,
}

impl<K> Default for OrderedSet<K> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<K: Ord + Copy> OrderedSet<K> {
    /// Puts a set together from its keys, in any order.
    pub(crate) fn of(mut keys: Vec<K>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        let chunks = keys.chunks(CHUNK_MAX).map(|keys| Chunk { from: keys[0], keys: keys.to_vec().into() }).collect();
        Self { chunks, len: keys.len() }
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The lowest key.
    pub(crate) fn first(&self) -> Option<&K> {
        self.chunks.first().map(|chunk| &chunk.keys[0])
    }

    fn last(&self) -> Option<&K> {
        self.chunks.last()?.keys.back()
    }

    /// Adds a key.
    pub(crate) fn insert(&mut self, key: K) {
        if self.last().is_none_or(|last| *last < key) {
            return self.append(key);
        }
        let at = self.chunk_of(&key);
        let chunk = &mut self.chunks[at];
        let Err(place) = chunk.keys.binary_search(&key) else { return };
        self.len += 1;
        chunk.from = chunk.from.min(key);
        chunk.keys.insert(place, key);
        if chunk.keys.len() > CHUNK_MAX {
            let upper = chunk.keys.split_off(CHUNK_MAX / 2);
            chunk.keys.shrink_to_fit();
            self.chunks.insert(at + 1, Chunk { from: upper[0], keys: upper });
        }
    }

    /// Adds a key above all others.
    fn append(&mut self, key: K) {
        self.len += 1;
        match self.chunks.last_mut() {
            Some(last) if last.keys.len() < CHUNK_MAX => last.keys.push_back(key),
            Some(_) | None => self.chunks.push(Chunk { from: key, keys: VecDeque::from([key]) }),
        }
    }

    /// Takes a key away.
    pub(crate) fn remove(&mut self, key: &K) {
        let at = self.chunk_of(key);
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        let Ok(place) = chunk.keys.binary_search(key) else { return };
        chunk.keys.remove(place);
        self.len -= 1;
        let left = chunk.keys.len();
        if left == 0 {
            self.chunks.remove(at);
        } else if left < CHUNK_MIN
            && self.chunks.get(at + 1).is_some_and(|next| left + next.keys.len() <= CHUNK_MAX / 2)
        {
            let next = self.chunks.remove(at + 1);
            self.chunks[at].keys.extend(next.keys);
        }
    }

    /// The keys from `start` on, in order.
    pub(crate) fn range_from<'a>(&'a self, start: &K) -> impl Iterator<Item = &'a K> + use<'a, K> {
        let at = self.chunk_of(start);
        let first = self.chunks.get(at).map(|chunk| {
            let place = chunk.keys.partition_point(|key| key < start);
            chunk.keys.range(place..)
        });
        let rest = self.chunks.get(at + 1..).unwrap_or_default();
        first.into_iter().flatten().chain(rest.iter().flat_map(|chunk| &chunk.keys))
    }

    fn chunk_of(&self, key: &K) -> usize {
        self.chunks.partition_point(|chunk| chunk.from <= *key).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_behaves_as_an_ordered_set(
            begin in prop::collection::vec(0u16..4000, 0..3000),
            steps in prop::collection::vec((0u16..4000, any::<bool>()), 0..4000),
            start in 0u16..4000,
        ) {
            let mut ordered = OrderedSet::of(begin.clone());
            let mut set: BTreeSet<u16> = begin.into_iter().collect();
            for (key, add) in steps {
                if add {
                    ordered.insert(key);
                    set.insert(key);
                } else {
                    ordered.remove(&key);
                    set.remove(&key);
                }
                prop_assert_eq!(ordered.len(), set.len());
                prop_assert_eq!(ordered.first(), set.first());
            }
            prop_assert!(ordered.range_from(&start).eq(set.range(start..)));
            prop_assert!(ordered.range_from(&0).eq(set.iter()));
        }
    }

    #[test]
    fn rising_keys_leave_full_chunks() {
        let mut ordered = OrderedSet::default();
        for key in 0..100_000u32 {
            ordered.insert(key);
        }
        assert_eq!(ordered.chunks.len(), 100_000usize.div_ceil(CHUNK_MAX));
        for key in 0..100_000u32 {
            assert_eq!(ordered.first(), Some(&key));
            ordered.remove(&key);
        }
        assert!(ordered.first().is_none() && ordered.chunks.is_empty());
    }
}
