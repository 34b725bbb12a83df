//! The forms of traces: what a line of each says. One file a form.

mod blkparse;
mod cloud;
mod fio;
mod msr;
mod plain;
mod spc;
mod vscsi;

use std::fmt;

use super::lines::Cut;
use super::number::fields;
use super::record::Op;

pub use plain::{HEADER, HEADER_DEVICES, write as write_plain};

/// Bytes of a sector, the unit of most traces.
const SECTOR: u64 = 512;
const MICRO: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;

/// A request as its line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    /// Nanoseconds since whatever the form counts from.
    pub at: u64,
    pub device: &'a [u8],
    pub offset: u64,
    pub len: u64,
    pub op: Op,
}

/// Why a line is no request.
pub type Wrong = &'static str;

/// What a line says: a request, or something else that belongs there.
pub trait Parser {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, Wrong>;
}

/// Which event of blktrace counts as the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Action {
    /// Handed to the block layer: what an array would get
    #[default]
    Q,
    /// Sent to the drive, merged with its neighbours
    D,
    /// Completed
    C,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// MSR Cambridge: 100 ns since 1601, host, disk, Read|Write, offset, bytes, (100 ns)
    Msr,
    /// UMass: unit, sector, bytes, R|W, seconds
    Spc,
    /// Text of blkparse
    Blkparse,
    /// fio's log of requests, versions 2 and 3
    Fio,
    /// CloudPhysics, binary, versions 1 and 2
    Vscsi,
    /// device, R|W, offset, bytes, microseconds
    Alibaba,
    /// seconds, sector, sectors, 0|1, volume
    Tencent,
    /// microseconds, R|W|D, offset, bytes, (device)
    Plain,
    /// seconds, R|W|D, offset, bytes
    Seconds,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Form::Msr => "msr",
            Form::Spc => "spc",
            Form::Blkparse => "blkparse",
            Form::Fio => "fio",
            Form::Vscsi => "vscsi",
            Form::Alibaba => "alibaba",
            Form::Tencent => "tencent",
            Form::Plain => "plain",
            Form::Seconds => "seconds",
        })
    }
}

/// Lines looked at to tell the form: logs may begin with something else.
const LOOKS: usize = 32;

impl Form {
    /// From how a file begins.
    pub fn recognise(head: &[u8]) -> Option<Form> {
        if vscsi::version(head).is_some() {
            return Some(Form::Vscsi);
        }
        let lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
        lines.take(LOOKS).find_map(Form::of_line)
    }

    fn of_line(line: &[u8]) -> Option<Form> {
        if line.starts_with(b"fio version ") {
            return Some(Form::Fio);
        }
        if line.starts_with(b"timestamp_us,op,") {
            return Some(Form::Plain);
        }
        if blkparse::looks_like(line) {
            return Some(Form::Blkparse);
        }
        let fields: Vec<&[u8]> = fields(line).collect();
        let number = |at: usize| super::number::whole(fields[at]).is_some();
        let op = |at: usize| Op::named(fields[at]).is_some();
        match fields.len() {
            // Plain ones have a header.
            4 if op(1) && number(2) => Some(Form::Seconds),
            6.. if number(0) && op(3) && number(4) => Some(Form::Msr),
            5.. if number(1) && op(3) => Some(Form::Spc),
            5 if op(1) && number(4) => Some(Form::Alibaba),
            5 if number(1) && number(2) && matches!(fields[3], b"0" | b"1") => Some(Form::Tencent),
            _ => None,
        }
    }

    pub fn parser(self, head: &[u8], action: Action) -> (Box<dyn Parser>, Cut) {
        let parser: Box<dyn Parser> = match self {
            Form::Msr => Box::new(msr::Msr),
            Form::Spc => Box::new(spc::Spc),
            Form::Blkparse => Box::new(blkparse::Blkparse::new(action)),
            Form::Fio => Box::new(fio::Fio::default()),
            Form::Vscsi => {
                let version = vscsi::version(head).unwrap_or(vscsi::Version::One);
                return (Box::new(vscsi::Vscsi(version)), Cut::Records(version.bytes()));
            }
            Form::Alibaba => Box::new(cloud::Alibaba),
            Form::Tencent => Box::new(cloud::Tencent),
            Form::Plain => Box::new(plain::Plain { unit: MICRO }),
            Form::Seconds => Box::new(plain::Plain { unit: SECOND }),
        };
        (parser, Cut::Lines)
    }
}

/// A header of names, as these forms have it; any other words are no request.
fn is_header(line: &[u8]) -> bool {
    let begins = |name: &[u8]| line.get(..name.len()).is_some_and(|l| l.eq_ignore_ascii_case(name));
    begins(b"timestamp") || begins(b"device")
}

fn sectors(count: u64) -> Result<u64, Wrong> {
    count.checked_mul(SECTOR).ok_or("more sectors than bytes can be counted")
}

#[cfg(test)]
pub(super) fn parsed<'a>(form: Form, line: &'a str) -> Result<Option<Raw<'a>>, Wrong> {
    form.parser(line.as_bytes(), Action::Q).0.line(line.as_bytes())
}
