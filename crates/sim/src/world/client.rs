//! A client: requests drawn from the world's mix, each told to the oracle.

use std::rc::Rc;

use engine::Volume;
use io::rng::Rng;
use io::virt::VirtEnv;
use io::{Buf, BufMut, Env, Nanos};

use super::context::{Asked, Context};
use super::plan::Mix;
use crate::failure::{Check, Failure};
use crate::oracle::WriteId;

const SECTOR: u64 = 512;
const FILL_STEP: u64 = 128 << 10;

pub struct Client {
    pub context: Rc<Context>,
    pub name: Rc<str>,
    pub volume: Volume<VirtEnv>,
    pub mix: Mix,
    /// Bytes of one stripe's data.
    pub stripe: u64,
    pub rng: Rng,
    pub cursor: u64,
}

#[derive(Clone, Copy)]
enum Zeroes {
    Trim,
    Write,
    WriteOrTrim,
}

/// As the NBD server does: the payload lies in memory as it lies in its pages; or not.
pub fn payload(bytes: &[u8], offset: u64, as_pages: bool) -> Buf {
    let lead = if as_pages { (offset % 4096) as usize } else { 512 };
    let mut buf = BufMut::zeroed(lead + bytes.len());
    buf[lead..].copy_from_slice(bytes);
    buf.freeze().slice(lead..lead + bytes.len())
}

/// The bytes of an answer in one piece.
pub fn gathered(pieces: &[Buf]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pieces.iter().map(|piece| piece.len()).sum());
    pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
    bytes
}

impl Client {
    pub async fn run(mut self, requests: usize) {
        for _ in 0..requests {
            if self.context.is_failed() {
                return;
            }
            self.step().await;
            if self.mix.think_micros > 0 {
                let pause = Nanos::from_micros(self.rng.below(self.mix.think_micros + 1));
                self.context.env.sleep_until(self.context.env.now() + pause).await;
            }
        }
    }

    /// Writes the volume from end to end.
    pub async fn fill(mut self) {
        let size = self.volume.size();
        for offset in (0..size).step_by(FILL_STEP as usize) {
            if self.context.is_failed() {
                return;
            }
            self.write(offset, FILL_STEP.min(size - offset)).await;
        }
        self.flush().await;
    }

    fn asked(
        &self,
        verb: &'static str,
        write: Option<WriteId>,
        offset: u64,
        len: u64,
        fua: bool,
    ) -> Asked {
        Asked { verb, volume: self.name.clone(), write, offset, len, fua }
    }

    pub async fn step(&mut self) {
        let kinds = self.mix.parts();
        let mut draw = self.rng.below(self.mix.sum());
        let kind = kinds.iter().position(|&part| {
            let here = draw < part;
            draw = draw.saturating_sub(part);
            here
        });
        let block_size = u64::from(self.volume.block_size());
        match kind.expect("the parts add up") {
            0 => {
                let len = (1 + self.rng.below(16)) * SECTOR;
                self.write_somewhere(len, SECTOR).await;
            }
            1 => self.write_somewhere(4096, 4096).await,
            2 => self.write_somewhere(block_size, block_size).await,
            3 => {
                let len = self.stripe * (1 + self.rng.below(2));
                self.write_somewhere(len, block_size).await;
            }
            4 => self.write_on().await,
            5 => {
                let len = (1 + self.rng.below(self.mix.long_bytes / SECTOR)) * SECTOR;
                let (offset, len) = self.place(len, SECTOR);
                self.read(offset, len).await;
            }
            6 => self.zero(Zeroes::Trim).await,
            7 => {
                let kind = if self.rng.chance(1, 2) { Zeroes::Write } else { Zeroes::WriteOrTrim };
                self.zero(kind).await;
            }
            _ => self.flush().await,
        }
    }

    /// A range of at most `len` bytes that begins on a multiple of `unit`.
    fn place(&mut self, len: u64, unit: u64) -> (u64, u64) {
        let size = self.volume.size();
        let len = len.min(size);
        let hot = self.rng.chance(self.mix.hot, 100);
        let warm = if self.mix.hot_bytes > 0 { self.mix.hot_bytes.min(size) } else { size / 8 };
        let reach = if hot { warm.max(len) } else { size };
        let offset = self.rng.below((reach - len) / unit + 1) * unit;
        (offset, len)
    }

    async fn write_somewhere(&mut self, len: u64, unit: u64) {
        let (offset, len) = self.place(len, unit);
        self.write(offset, len).await;
    }

    /// The next piece of a sequential stream.
    async fn write_on(&mut self) {
        let size = self.volume.size();
        if self.cursor >= size {
            self.cursor = 0;
        }
        let len = (32 << 10).min(size - self.cursor);
        let offset = self.cursor;
        self.cursor += len;
        self.write(offset, len).await;
    }

    pub async fn write(&mut self, offset: u64, len: u64) {
        let fua = self.rng.chance(self.mix.fua, 100);
        let oracle = &self.context.oracle;
        let write = oracle.borrow_mut().write_begins(&self.name, offset, len, false);
        let bytes = oracle.borrow().bytes_of(&self.name, write);
        let data = payload(&bytes, offset, self.rng.chance(3, 4));
        let asked = self.asked("write", Some(write), offset, len, fua);
        let done = self.context.request(asked, self.volume.write(offset, data, fua)).await;
        oracle.borrow_mut().write_ends(&self.name, write, done.is_some(), fua);
        if done.is_none() && self.rng.chance(1, 4) {
            // Full: make room, as an operator would.
            self.zero(Zeroes::Trim).await;
        }
    }

    async fn zero(&mut self, kind: Zeroes) {
        let most = if self.rng.chance(1, 4) { self.volume.size() / 2 } else { self.mix.long_bytes };
        let len = (1 + self.rng.below((most / SECTOR).max(1))) * SECTOR;
        let (offset, len) = self.place(len, SECTOR);
        let fua = self.rng.chance(self.mix.fua, 100);
        let oracle = &self.context.oracle;
        let write = oracle.borrow_mut().write_begins(&self.name, offset, len, true);
        let volume = &self.volume;
        let done = match kind {
            Zeroes::Trim => {
                let asked = self.asked("trim", Some(write), offset, len, fua);
                self.context.request(asked, volume.trim(offset, len, fua)).await
            }
            Zeroes::Write | Zeroes::WriteOrTrim => {
                let asked = self.asked("zeroes", Some(write), offset, len, fua);
                let may_trim = matches!(kind, Zeroes::WriteOrTrim);
                let request = volume.write_zeroes(offset, len, fua, may_trim);
                self.context.request(asked, request).await
            }
        };
        oracle.borrow_mut().write_ends(&self.name, write, done.is_some(), fua);
    }

    pub async fn read(&mut self, offset: u64, len: u64) {
        let ticket = self.context.oracle.borrow_mut().read_begins(&self.name, offset, len);
        let asked = self.asked("read", None, offset, len, false);
        let read = self.context.request(asked, self.volume.read(offset, len as u32)).await;
        let Some(pieces) = read else { return };
        let bytes = gathered(&pieces);
        if bytes.len() as u64 != len {
            let what = format!("a read of {len} bytes gave {}", bytes.len());
            return self.context.fail(Failure::new(Check::Read, what));
        }
        let checked = self.context.oracle.borrow().read_ends(&self.name, ticket, &bytes);
        if let Err(failure) = checked {
            self.context.fail(failure);
        }
    }

    pub async fn flush(&mut self) {
        let flush = self.context.oracle.borrow_mut().flush_begins();
        let asked = self.asked("flush", None, 0, 0, false);
        if self.context.request(asked, self.volume.flush()).await.is_some() {
            self.context.oracle.borrow_mut().flush_ends(flush);
        }
    }
}
