//! What the last checkpoint consists of, for `audit`: slots, and what they should hold.

use format::ObjectKey;
use io::Env;

use crate::shard::Shard;

/// An object of the last checkpoint.
pub struct StoredImage {
    pub key: ObjectKey,
    pub seq: u64,
    /// (part, slot), several of a part where drives are gone.
    pub homes: Vec<(u16, u32)>,
    /// Its parts as they would be written now; `None` if it changed since, or is no more.
    pub parts: Option<Vec<Vec<u8>>>,
}

pub struct MetaImage {
    /// In order of their keys.
    pub objects: Vec<StoredImage>,
    pub free: Vec<u32>,
    pub total: u32,
    pub chunks_max: u64,
}

impl<E: Env> Shard<E> {
    pub fn meta_image(&self, is_dirty: impl Fn(ObjectKey) -> bool) -> MetaImage {
        let state = self.state.borrow();
        let objects = state.meta.objects.iter().map(|(&key, stored)| StoredImage {
            key,
            seq: stored.seq,
            homes: stored.homes().collect(),
            parts: (!is_dirty(key)).then(|| self.export(key)).flatten(),
        });
        MetaImage {
            objects: objects.collect(),
            free: state.meta.free.clone(),
            total: state.meta.total,
            chunks_max: state.meta.chunks_max(),
        }
    }
}
