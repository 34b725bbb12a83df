//! Little-endian cursors: the only place where bytes become numbers and back.

use crate::error::{FormatError, check};
use crate::ids::Uuid;

/// Reads forward; running out is `Truncated`, never a panic.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(FormatError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(FormatError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, FormatError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn uuid(&mut self) -> Result<Uuid, FormatError> {
        Ok(Uuid(self.array()?))
    }

    /// A byte that is 0 or 1.
    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, FormatError> {
        let byte = self.u8()?;
        check(byte <= 1, field, byte.into())?;
        Ok(byte == 1)
    }

    /// Reserved bytes: zero, or the writer knew something we do not.
    pub(crate) fn zeros(&mut self, len: usize) -> Result<(), FormatError> {
        let bytes = self.take(len)?;
        // All of them together first: that takes a fraction of the time of one after the other.
        if bytes.iter().fold(0, |all, byte| all | byte) == 0 {
            return Ok(());
        }
        let stray = bytes.iter().find(|byte| **byte != 0);
        stray.map_or(Ok(()), |byte| check(false, "reserved bytes", (*byte).into()))
    }

    /// A count of things that each need at least `each` more bytes: only then is it fit to
    /// allocate by.
    pub(crate) fn count(&self, count: usize, each: usize) -> Result<usize, FormatError> {
        match count.checked_mul(each) {
            Some(need) if need <= self.rest.len() => Ok(count),
            _ => Err(FormatError::Truncated),
        }
    }

    /// Nothing may be left over.
    pub(crate) fn end(&self) -> Result<(), FormatError> {
        check(self.rest.is_empty(), "bytes left over", self.rest.len() as u64)
    }
}

/// Appends to a vector.
pub(crate) struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn uuid(&mut self, value: &Uuid) {
        self.bytes(&value.0);
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    pub(crate) fn zeros(&mut self, len: usize) {
        self.0.resize(self.0.len() + len, 0);
    }
}

/// Writes a number over four bytes already there (checksums, lengths).
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}
