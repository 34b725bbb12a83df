//! The tuples there are, zone by zone: the checkpoint of a zone looks at those of that zone only,
//! and what all of them take in memory is known without a look at each.

use std::ops::Index;

use rustc_hash::FxHashMap;

use crate::tuple::{Tuple, TupleKey};

pub struct Tuples {
    /// By the index of their first stripe in the zone.
    zones: Vec<FxHashMap<u32, Tuple>>,
    count: usize,
    bytes: u64,
}

impl Tuples {
    pub fn new(zones: u32) -> Tuples {
        let zones = (0..zones).map(|_| FxHashMap::default()).collect();
        Tuples { zones, count: 0, bytes: 0 }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// Memory that they take.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn get(&self, key: &TupleKey) -> Option<&Tuple> {
        self.zones[key.zone as usize].get(&key.index)
    }

    pub fn get_mut(&mut self, key: &TupleKey) -> Option<&mut Tuple> {
        self.zones[key.zone as usize].get_mut(&key.index)
    }

    pub fn insert(&mut self, tuple: Tuple) {
        let key = tuple.key();
        self.remove(&key);
        self.count += 1;
        self.bytes += tuple.memory();
        self.zones[key.zone as usize].insert(key.index, tuple);
    }

    pub fn remove(&mut self, key: &TupleKey) -> Option<Tuple> {
        let tuple = self.zones[key.zone as usize].remove(&key.index)?;
        self.count -= 1;
        self.bytes -= tuple.memory();
        Some(tuple)
    }

    /// Forgets those with a stripe in a zone.
    pub fn forget_zone(&mut self, zone: u32) {
        let here = |tuple: &&Tuple| tuple.stripes.iter().any(|stripe| stripe.zone == zone);
        let gone: Vec<TupleKey> = self.values().filter(here).map(Tuple::key).collect();
        for key in gone {
            self.remove(&key);
        }
    }

    /// Those of a zone, in no order.
    pub fn of_zone(&self, zone: u32) -> impl Iterator<Item = &Tuple> {
        self.zones[zone as usize].values()
    }

    pub fn values(&self) -> impl Iterator<Item = &Tuple> {
        self.zones.iter().flat_map(FxHashMap::values)
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Tuple> {
        self.zones.iter_mut().flat_map(FxHashMap::values_mut)
    }

    /// In order.
    pub fn keys(&self) -> Vec<TupleKey> {
        let mut keys: Vec<TupleKey> = self.values().map(Tuple::key).collect();
        keys.sort_unstable();
        keys
    }
}

impl Index<&TupleKey> for Tuples {
    type Output = Tuple;
    fn index(&self, key: &TupleKey) -> &Tuple {
        self.get(key).expect("a tuple that is there")
    }
}
