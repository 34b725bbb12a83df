//! Loads from a file, in any form that `crate::trace` reads: MSR Cambridge, SPC, blkparse, fio and
//! others, compressed or not; lines of seconds, R or W, offset, bytes too.
//!
//! Times count from the first request. Offsets are folded into the array, which may be smaller
//! than the disk was; several devices are laid over one another. Discards are left out.

use std::path::Path;
use std::rc::Rc;

use io::Nanos;

use super::load::{Load, Request};
use crate::trace::reader::{Reader, Reading, TraceError};
use crate::trace::record::{Op, Record};

/// Of a longer trace, the beginning: they are kept in memory, 32 bytes each.
const REQUESTS_MAX: usize = 20_000_000;
const SECTOR: u64 = 512;
/// Longer requests are played as their beginning: no block device gets them in one piece.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Clone)]
pub struct Recorded {
    requests: Rc<[Request]>,
}

impl Recorded {
    /// So many times as fast as it was.
    pub fn read(path: &Path, times: u64) -> Result<Recorded, String> {
        let reader = Reader::open(path, &Reading::default());
        let recorded = reader.and_then(|reader| Recorded::of(reader, times));
        recorded.map_err(|error| format!("{}: {error}", path.display()))
    }

    pub fn of(reader: Reader, times: u64) -> Result<Recorded, TraceError> {
        let mut requests = Vec::new();
        for record in reader {
            let record = record?;
            if record.op == Op::Discard {
                continue;
            }
            requests.push(request(&record, times.max(1)));
            if requests.len() == REQUESTS_MAX {
                break;
            }
        }
        Ok(Recorded { requests: requests.into() })
    }

    pub fn length(&self) -> Nanos {
        self.requests.last().map_or(Nanos::ZERO, |last| last.at)
    }

    /// The same within an array of so many bytes.
    pub fn within(&self, size: u64) -> Recorded {
        let fold = |request: &Request| {
            let len = request.len.min(size);
            Request { offset: (request.offset % size).min(size - len), len, ..*request }
        };
        Recorded { requests: self.requests.iter().map(fold).collect() }
    }
}

/// In whole sectors.
fn request(record: &Record, times: u64) -> Request {
    let offset = record.offset / SECTOR * SECTOR;
    // Far from the end of what 64 bits count, which `within` folds anyway.
    let end = record.end().checked_next_multiple_of(SECTOR).unwrap_or(u64::MAX / SECTOR * SECTOR);
    Request {
        at: Nanos(record.at.0 / times),
        read: record.op == Op::Read,
        offset,
        len: (end - offset).clamp(SECTOR, BYTES_MAX),
    }
}

impl Load for Recorded {
    fn requests(&self) -> Box<dyn Iterator<Item = Request>> {
        let requests = self.requests.clone();
        Box::new((0..requests.len()).map(move |at| requests[at]))
    }

    fn largest_write(&self) -> u64 {
        let writes = self.requests.iter().filter(|request| !request.read);
        writes.map(|request| request.len).max().unwrap_or(SECTOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, times: u64, bad_lines: u64) -> Result<Recorded, TraceError> {
        let reading = Reading { bad_lines, ..Reading::default() };
        Recorded::of(Reader::of_bytes(text.into(), &reading)?, times)
    }

    #[test]
    fn forms_are_read_and_times_count_from_the_first_request() {
        let text = "# a comment\n\
                    128166372003061629,hm,0,Write,383496192,32768,413\n\
                    128166372003061529,hm,0,Read,1000,100,12\n";
        let trace = parse(text, 1, 0).unwrap();
        let request = |at, read, offset, len| Request { at: Nanos(at), read, offset, len };
        let wanted = [request(0, true, 512, 1024), request(10_000, false, 383_496_192, 32_768)];
        assert_eq!(trace.requests[..], wanted);
        assert_eq!(trace.length(), Nanos(10_000));
        let simple = parse("1.5,W,4096,8192\n1.25,r,0,512\n1.5,D,0,512\n", 5, 0).unwrap();
        let wanted = [request(0, true, 0, 512), request(50_000_000, false, 4096, 8192)];
        assert_eq!(simple.requests[..], wanted);
        assert_eq!(simple.largest_write(), 8192);
    }

    #[test]
    fn what_is_no_request_is_told_with_its_line() {
        for text in ["0,W,1,1\n5,X,0,512", "0,W,1,1\n-1,R,0,512", "0,W,1,1\nhello,you"] {
            let error = parse(text, 1, 0).err().expect("it is wrong").to_string();
            assert!(error.starts_with("line 2 is no request"), "{error}");
        }
        assert!(parse("", 1, 0).is_err());
    }

    #[test]
    fn a_trace_of_a_larger_disk_is_folded() {
        let trace = parse("0,W,10240,4096\n1,R,99328,4096\n", 1, 0).unwrap();
        let folded = trace.within(100 << 10);
        assert_eq!(folded.requests[0].offset, 10240);
        assert_eq!(folded.requests[1].offset, (100 << 10) - 4096, "it ends with the array");
        let small = trace.within(8192);
        assert!(small.requests.iter().all(|request| request.offset + request.len <= 8192));
        let last = format!("0,W,{},4095\n", u64::MAX - 4095);
        assert_eq!(parse(&last, 1, 0).unwrap().requests[0].len, 4096 - 512);
    }
}
