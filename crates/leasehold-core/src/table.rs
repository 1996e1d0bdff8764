//! An ordered table whose copy costs next to nothing.
//!
//! Rows stand in chunks, and copies share chunks and rows until one side changes them. That is how a snapshot
//! sees a frozen state while commands go on: taking the copy clones one pointer per chunk, and the first change
//! to a shared chunk afterwards clones that chunk's pointers only. Order is by key, so equal tables read equal
//! whatever their past, and no choice of keys by a caller makes a look-up slow. What a command does with one key it
//! does in a row, so a look-up tries first where the last one ended.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicUsize};

/// A chunk with more rows is split.
const CHUNK_MAX: usize = 256;
/// A chunk with fewer rows joins a neighbour if both fit into one.
const CHUNK_MIN: usize = 64;

/// An ordered table of rows by key, cheap to copy.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    chunks: Vec<Chunk<K, V>>,
    len: usize,
    last: Last,
}

type Rows<K, V> = Vec<(K, Arc<V>)>;

#[derive(Debug)]
struct Chunk<K, V> {
    /// Not above the first key; keys of the chunk before are below it.
    from: K,
    rows: Arc<Rows<K, V>>,
}

/// Where a key is, or would be.
#[derive(Clone, Copy, Debug)]
struct Place {
    chunk: usize,
    row: usize,
    found: bool,
}

/// Where the last look-up ended. A hint that is checked before it is used: it may be old, and that of another look-up.
#[derive(Debug, Default)]
struct Last {
    chunk: AtomicUsize,
    row: AtomicUsize,
}

impl Last {
    fn get(&self) -> (usize, usize) {
        (self.chunk.load(atomic::Ordering::Relaxed), self.row.load(atomic::Ordering::Relaxed))
    }

    fn set(&self, chunk: usize, row: usize) {
        self.chunk.store(chunk, atomic::Ordering::Relaxed);
        self.row.store(row, atomic::Ordering::Relaxed);
    }
}

impl<K: Clone, V> Clone for Chunk<K, V> {
    fn clone(&self) -> Self {
        Self { from: self.from.clone(), rows: Arc::clone(&self.rows) }
    }
}

impl<K: Clone, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), len: self.len, last: Last::default() }
    }
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0, last: Last::default() }
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The row under `key`.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let at = self.place(key);
        at.found.then(|| &*self.chunks[at.chunk].rows[at.row].1)
    }

    /// Tells whether there is a row under `key`.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.place(key).found
    }

    /// The row under `key`, to be changed.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.place(key);
        if !at.found {
            return None;
        }
        Some(Arc::make_mut(&mut Arc::make_mut(&mut self.chunks[at.chunk].rows)[at.row].1))
    }

    /// Puts a row under `key`, in place of one that is there.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let (at, value) = (self.place(&key), Arc::new(value));
        let Some(chunk) = self.chunks.get_mut(at.chunk) else {
            self.chunks.push(Chunk { from: key.clone(), rows: Arc::new(vec![(key, value)]) });
            self.len = 1;
            return;
        };
        let rows = Arc::make_mut(&mut chunk.rows);
        if at.found {
            rows[at.row].1 = value;
            return;
        }
        if key < chunk.from {
            chunk.from = key.clone();
        }
        rows.insert(at.row, (key, value));
        self.len += 1;
        if rows.len() > CHUNK_MAX {
            self.split(at.chunk);
        }
    }

    /// Takes the row under `key` away.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.place(key);
        if !at.found {
            return None;
        }
        let (_, value) = Arc::make_mut(&mut self.chunks[at.chunk].rows).remove(at.row);
        self.len -= 1;
        self.shrink(at.chunk);
        Some(Arc::unwrap_or_clone(value))
    }

    /// The rows from `start` on, in order.
    pub(crate) fn range_from(&self, start: Bound<&K>) -> impl Iterator<Item = (&K, &V)> + use<'_, K, V> {
        let (chunk, at) = match start {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) | Bound::Excluded(key) => {
                let chunk = self.chunk_of(key);
                let past = matches!(start, Bound::Excluded(_));
                let before = |k: &K| if past { k <= key } else { k < key };
                let at = self.chunks.get(chunk).map_or(0, |c| c.rows.partition_point(|(k, _)| before(k)));
                (chunk, at)
            }
        };
        let first = self.chunks.get(chunk).map_or(&[][..], |c| &c.rows[at..]);
        let rest = self.chunks.get(chunk + 1..).unwrap_or_default();
        first.iter().chain(rest.iter().flat_map(|c| c.rows.iter())).map(|(k, v)| (k, &**v))
    }

    /// All rows, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> + use<'_, K, V> {
        self.range_from(Bound::Unbounded)
    }

    /// Where `key` is, or would be.
    fn place(&self, key: &K) -> Place {
        if let Some(place) = self.last_place(key) {
            return place;
        }
        let chunk = self.chunk_of(key);
        let rows = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk.rows);
        let row = rows.binary_search_by(|(k, _)| k.cmp(key));
        let found = row.is_ok();
        let (Ok(row) | Err(row)) = row;
        self.last.set(chunk, row);
        Place { chunk, row, found }
    }

    /// Where the last look-up ended, if `key` is there, or would be.
    fn last_place(&self, key: &K) -> Option<Place> {
        let (chunk, row) = self.last.get();
        let Chunk { from, rows } = self.chunks.get(chunk)?;
        let before_next = match rows.get(row).map(|(k, _)| key.cmp(k)) {
            Some(Ordering::Equal) => return Some(Place { chunk, row, found: true }),
            Some(order) => order.is_lt(),
            None => self.chunks.get(chunk + 1).is_none_or(|next| *key < next.from),
        };
        let after_previous = || match row.checked_sub(1) {
            Some(previous) => rows.get(previous).is_some_and(|(k, _)| k < key),
            None => chunk == 0 || from <= key,
        };
        (before_next && after_previous()).then_some(Place { chunk, row, found: false })
    }

    /// The chunk that holds `key` or would.
    fn chunk_of(&self, key: &K) -> usize {
        self.chunks.partition_point(|c| c.from <= *key).saturating_sub(1)
    }

    fn split(&mut self, chunk: usize) {
        // A table filled in rising order keeps its chunks nearly full.
        let rising = chunk + 1 == self.chunks.len();
        let rows = Arc::make_mut(&mut self.chunks[chunk].rows);
        let at = if rising { rows.len() * 7 / 8 } else { rows.len() / 2 };
        let upper = rows.split_off(at);
        rows.shrink_to_fit();
        let from = upper[0].0.clone();
        self.chunks.insert(chunk + 1, Chunk { from, rows: Arc::new(upper) });
    }

    fn shrink(&mut self, chunk: usize) {
        let len = self.chunks[chunk].rows.len();
        if len == 0 {
            self.chunks.remove(chunk);
            return;
        }
        if len >= CHUNK_MIN || chunk + 1 >= self.chunks.len() {
            return;
        }
        if len + self.chunks[chunk + 1].rows.len() <= CHUNK_MAX / 2 {
            let next = self.chunks.remove(chunk + 1);
            Arc::make_mut(&mut self.chunks[chunk].rows).extend(next.rows.iter().cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_copy_does_not_see_later_changes() {
        let mut table = Table::default();
        for n in 0..1000 {
            table.insert(n, n);
        }
        let frozen = table.clone();
        for n in 0..1000 {
            *table.get_mut(&n).unwrap() += 1;
        }
        table.remove(&5);
        assert!(frozen.iter().all(|(k, v)| k == v));
        assert_eq!(frozen.len(), 1000);
        assert_eq!((table.len(), table.get(&5), table.get(&6)), (999, None, Some(&7)));
    }

    proptest! {
        #[test]
        fn it_behaves_as_an_ordered_map(steps in prop::collection::vec((0u16..600, any::<bool>()), 0..3000), start in 0u16..600) {
            let (mut table, mut map) = (Table::default(), BTreeMap::new());
            for (n, (key, put)) in steps.into_iter().enumerate() {
                if put {
                    table.insert(key, n);
                    map.insert(key, n);
                } else {
                    prop_assert_eq!(table.remove(&key), map.remove(&key));
                }
                prop_assert_eq!(table.len(), map.len());
            }
            prop_assert!(table.iter().eq(map.iter()));
            prop_assert!(table.range_from(Bound::Included(&start)).eq(map.range(start..)));
            prop_assert!(table.range_from(Bound::Excluded(&start)).eq(map.range((Bound::Excluded(start), Bound::Unbounded))));
            for key in 0..600 {
                prop_assert_eq!(table.get(&key), map.get(&key));
            }
        }
    }
}
