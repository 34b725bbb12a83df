//! Reads any trace, one request after another, in bounded memory.
//!
//! ```text
//!   file -> decompressed -> lines -> requests of its form -> checked -> in order of time
//! ```
//! What is wrong with a trace is counted and told; only too much of it is an error, since then
//! it is another form, or damaged.

use std::fmt;
use std::io::{BufRead, Cursor, Read};
use std::path::Path;

use io::Nanos;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::forms::{Action, Form, Parser, Raw, Wrong};
use super::lines::{self, Cut, Piece};
use super::order::Order;
use super::packed;
use super::record::{Op, Record};

/// Bytes from which the form is recognised.
const HEAD: u64 = 1 << 16;
/// Of reads and writes: kernels split at a few MiB, and whoever counts pages does not want a
/// trillion of them. Longer ones are damaged lines.
pub const LENGTH_MAX: u64 = 256 << 20;
/// The largest cloud trace has 5,584. A file with more names than this has something else there.
pub const DEVICES_MAX: usize = 1 << 16;
/// Wrong lines that are told one by one.
const EXAMPLES: usize = 5;

#[derive(clap::Args, Clone, Debug)]
pub struct Reading {
    /// The form; recognised from how the file begins if not given
    #[arg(long)]
    pub form: Option<Form>,
    /// blkparse: the event that counts as the request
    #[arg(long, value_enum, default_value_t)]
    pub action: Action,
    /// Lines that are no request, after which it is an error: a cut file has one at each end, and
    /// some logs a few more; with another form all of them are wrong
    #[arg(long, default_value_t = 10)]
    pub bad_lines: u64,
}

impl Default for Reading {
    fn default() -> Reading {
        Reading { form: None, action: Action::default(), bad_lines: 10 }
    }
}

/// What was seen of a trace beside its requests.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Seen {
    pub lines: u64,
    pub requests: u64,
    /// Headers, comments, other events.
    pub skipped: u64,
    pub bad: u64,
    /// The first of these: number of the line, and why.
    pub examples: Vec<(u64, String)>,
    /// Requests of no bytes, left out.
    pub empty: u64,
    /// Requests with a time before one that came before them, and those of them that could not
    /// be put where they belong.
    pub backward: u64,
    pub late: u64,
    /// Names of the devices.
    pub devices: Vec<String>,
}

#[derive(Debug)]
pub enum TraceError {
    Io(std::io::Error),
    /// Nothing in the head looks like a request.
    Unknown,
    Bad {
        line: u64,
        why: Wrong,
        limit: u64,
    },
    Devices,
    /// No request, but so many lines.
    Empty(u64),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Io(error) => write!(f, "{error}"),
            TraceError::Unknown => {
                write!(f, "no form of trace is recognised in how it begins; --form names one")
            }
            TraceError::Bad { line, why, limit } => {
                write!(
                    f,
                    "line {line} is no request: {why}; more than {limit} are not (--bad-lines)"
                )
            }
            TraceError::Devices => write!(f, "it names more than {DEVICES_MAX} devices"),
            TraceError::Empty(lines) => {
                write!(f, "no request in its {lines} lines (--form and --action say what is one)")
            }
        }
    }
}

impl std::error::Error for TraceError {}

impl From<std::io::Error> for TraceError {
    fn from(error: std::io::Error) -> TraceError {
        TraceError::Io(error)
    }
}

pub struct Reader {
    source: Box<dyn BufRead>,
    form: Form,
    parser: Box<dyn Parser>,
    cut: Cut,
    bad_lines: u64,
    buffer: Vec<u8>,
    order: Order,
    /// Never iterated.
    devices: FxHashMap<Vec<u8>, u32>,
    seen: Seen,
    /// Time of the first request.
    first: Option<u64>,
    over: bool,
    failed: bool,
}

impl Reader {
    pub fn open(path: &Path, reading: &Reading) -> Result<Reader, TraceError> {
        Reader::new(packed::open(path)?, reading)
    }

    /// Of a text that is there already, for tests and small things.
    pub fn of_bytes(bytes: Vec<u8>, reading: &Reading) -> Result<Reader, TraceError> {
        Reader::new(packed::unpack(Box::new(Cursor::new(bytes)))?, reading)
    }

    pub fn new(mut source: Box<dyn BufRead>, reading: &Reading) -> Result<Reader, TraceError> {
        let mut head = Vec::new();
        source.by_ref().take(HEAD).read_to_end(&mut head)?;
        let form = reading.form.or_else(|| Form::recognise(&head)).ok_or(TraceError::Unknown)?;
        let (parser, cut) = form.parser(&head, reading.action);
        let whole = Cursor::new(head).chain(source);
        Ok(Reader {
            source: Box::new(whole),
            form,
            parser,
            cut,
            bad_lines: reading.bad_lines,
            buffer: Vec::new(),
            order: Order::default(),
            devices: FxHashMap::default(),
            seen: Seen::default(),
            first: None,
            over: false,
            failed: false,
        })
    }

    pub fn form(&self) -> Form {
        self.form
    }

    /// As far as it was read.
    pub fn seen(&self) -> Seen {
        Seen { backward: self.order.backward, late: self.order.late, ..self.seen.clone() }
    }

    /// Reads one line. False at the end.
    fn step(&mut self) -> Result<bool, TraceError> {
        let piece = lines::next(&mut self.source, self.cut, &mut self.buffer)?;
        if piece == Piece::End {
            return Ok(false);
        }
        self.seen.lines += 1;
        let line = match self.cut {
            Cut::Lines => self.buffer.trim_ascii(),
            Cut::Records(_) => &self.buffer[..],
        };
        let is_comment = self.cut == Cut::Lines && (line.is_empty() || line[0] == b'#');
        let parsed = match piece {
            Piece::Broken => Err("it is too long, or torn"),
            _ if is_comment => Ok(None),
            _ => self.parser.line(line).and_then(|raw| raw.map(checked).transpose()),
        };
        match parsed {
            Ok(None) => self.seen.skipped += 1,
            Ok(Some(raw)) if raw.len == 0 => self.seen.empty += 1,
            Ok(Some(raw)) => {
                let device = device(&mut self.devices, &mut self.seen.devices, raw.device)?;
                let Raw { at, offset, len, op, .. } = raw;
                self.order.put(Record { at: Nanos(at), device, offset, len, op });
            }
            Err(why) => self.wrong(why)?,
        }
        Ok(true)
    }

    fn wrong(&mut self, why: Wrong) -> Result<(), TraceError> {
        self.seen.bad += 1;
        let line = self.seen.lines;
        if self.seen.examples.len() < EXAMPLES {
            self.seen.examples.push((line, why.to_owned()));
        }
        if self.seen.bad > self.bad_lines {
            return Err(TraceError::Bad { line, why, limit: self.bad_lines });
        }
        Ok(())
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        while !self.over && !self.order.is_full() {
            self.over = !self.step()?;
        }
        let Some((at, record)) = self.order.take() else {
            return match self.seen.requests {
                0 => Err(TraceError::Empty(self.seen.lines)),
                _ => Ok(None),
            };
        };
        self.seen.requests += 1;
        let first = *self.first.get_or_insert(at);
        Ok(Some(Record { at: Nanos(at - first), ..record }))
    }
}

fn checked(raw: Raw<'_>) -> Result<Raw<'_>, Wrong> {
    if raw.offset.checked_add(raw.len).is_none() {
        return Err("it ends beyond every device");
    }
    if raw.op != Op::Discard && raw.len > LENGTH_MAX {
        return Err("longer than any request");
    }
    Ok(raw)
}

fn device(
    known: &mut FxHashMap<Vec<u8>, u32>,
    names: &mut Vec<String>,
    name: &[u8],
) -> Result<u32, TraceError> {
    if let Some(&device) = known.get(name) {
        return Ok(device);
    }
    if known.len() == DEVICES_MAX {
        return Err(TraceError::Devices);
    }
    let device = known.len() as u32;
    known.insert(name.to_vec(), device);
    names.push(String::from_utf8_lossy(name).into_owned());
    Ok(device)
}

impl Iterator for Reader {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Result<Record, TraceError>> {
        if self.failed {
            return None;
        }
        let next = self.next_record();
        if next.is_err() {
            // Nothing follows an error.
            self.failed = true;
        }
        next.transpose()
    }
}
