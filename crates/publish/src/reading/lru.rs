//! A bounded map that forgets the entry that was used least recently.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// A map whose entries have costs.
pub(crate) struct Lru<K, V> {
    limit: u64,
    cost: u64,
    clock: u64,
    entries: HashMap<K, Cached<V>>,
    by_age: BTreeMap<u64, K>,
}

struct Cached<V> {
    value: V,
    cost: u64,
    used: u64,
}

impl<K: Hash + Eq + Copy, V: Clone> Lru<K, V> {
    /// Makes an empty map whose costs add up to `limit` at most.
    pub(crate) fn new(limit: u64) -> Self {
        Lru { limit, cost: 0, clock: 0, entries: HashMap::new(), by_age: BTreeMap::new() }
    }

    /// Returns a value, which is the one used last from now on.
    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.get_mut(key)?;
        self.by_age.remove(&entry.used);
        self.clock += 1;
        entry.used = self.clock;
        self.by_age.insert(self.clock, *key);
        Some(entry.value.clone())
    }

    /// The sum of all costs at most.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// True where the map has a value.
    pub(crate) fn has(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Adds a value, and forgets others. One that costs more than all may is not kept.
    pub(crate) fn insert(&mut self, key: K, value: V, cost: u64) {
        self.remove(&key);
        if cost > self.limit {
            return;
        }
        while self.cost + cost > self.limit {
            let Some((_, oldest)) = self.by_age.pop_first() else { break };
            self.cost -= self.entries.remove(&oldest).map_or(0, |entry| entry.cost);
        }
        self.clock += 1;
        self.cost += cost;
        self.by_age.insert(self.clock, key);
        self.entries.insert(key, Cached { value, cost, used: self.clock });
        debug_assert!(self.cost <= self.limit, "{} of {} are in use", self.cost, self.limit);
        debug_assert_eq!(self.by_age.len(), self.entries.len(), "each entry has one age");
    }

    /// Forgets a value, and returns it.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.by_age.remove(&entry.used);
        self.cost -= entry.cost;
        Some(entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_used_least_recently_goes_first() {
        let mut lru = Lru::new(10);
        lru.insert(1, 'a', 4);
        lru.insert(2, 'b', 4);
        assert_eq!(lru.get(&1), Some('a'));
        lru.insert(3, 'c', 4);
        assert_eq!((lru.get(&1), lru.get(&2), lru.get(&3)), (Some('a'), None, Some('c')));
        lru.insert(1, 'd', 6);
        assert_eq!((lru.get(&1), lru.get(&3), lru.cost), (Some('d'), Some('c'), 10));
        lru.insert(4, 'e', 11);
        assert_eq!(lru.get(&4), None);
        assert_eq!(lru.remove(&1), Some('d'));
        assert_eq!(lru.cost, 4);
    }
}
