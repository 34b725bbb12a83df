//! stub
use crate::ids::Uuid;

/// Another format's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    pub what: &'static str,
    pub detail: String,
    pub offset: u64,
}

/// A label of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    pub pool: Option<Uuid>,
    pub detail: String,
    pub offset: u64,
}

pub fn probe(_head: &[u8], _tail: &[u8], _size: u64) -> Option<Foreign> {
    None
}

pub fn own_label(_head: &[u8], _tail: &[u8], _size: u64) -> Option<Own> {
    None
}
