//! Loads from a file: a request a line, in one of two forms.
//!
//! ```text
//!   128166372003061629,hm,0,Read,383496192,32768,413      MSR Cambridge: 100 ns since 1601, host,
//!                                                         disk, what, offset, bytes, (100 ns)
//!   0.25,W,4096,8192                                      seconds, R or W, offset, bytes
//! ```
//! Times count from the first request. Offsets are folded into the array, which may be smaller
//! than the disk was.

use std::path::Path;
use std::rc::Rc;

use io::Nanos;

use super::load::{Load, Request};

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
    pub fn read(path: &Path, times: u64) -> Result<Recorded, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        Recorded::parse(&text, times).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// So many times as fast as it was.
    pub fn parse(text: &str, times: u64) -> Result<Recorded, String> {
        let mut requests = Vec::new();
        let lines = text.lines().enumerate().map(|(at, line)| (at, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        for (at, line) in lines.take(REQUESTS_MAX) {
            let wrong = || format!("line {}: '{line}' is no request", at + 1);
            requests.push(request(line).ok_or_else(wrong)?);
        }
        requests.sort_by_key(|request| request.at);
        let first = requests.first().ok_or("there is no request in it")?.at;
        for request in &mut requests {
            request.at = Nanos(request.at.saturating_sub(first).0 / times.max(1));
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

fn request(line: &str) -> Option<Request> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let (at, what, offset, len) = match fields[..] {
        [at, what, offset, len] => {
            let seconds: f64 = at.parse().ok().filter(|at| (0.0..1e9).contains(at))?;
            (Nanos((seconds * 1e9) as u64), what, offset, len)
        }
        [at, _, _, what, offset, len, ..] => {
            (Nanos(at.parse::<u64>().ok()?.checked_mul(100)?), what, offset, len)
        }
        _ => return None,
    };
    let read = match what.as_bytes().first()? {
        b'R' | b'r' => true,
        b'W' | b'w' => false,
        _ => return None,
    };
    let (offset, len): (u64, u64) = (offset.parse().ok()?, len.parse().ok()?);
    let start = offset / SECTOR * SECTOR;
    let len = offset.checked_add(len)?.checked_next_multiple_of(SECTOR)? - start;
    Some(Request { at, read, offset: start, len: len.clamp(SECTOR, BYTES_MAX) })
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

    #[test]
    fn both_forms_are_read_and_times_count_from_the_first_request() {
        let text = "# a comment\n\
                    128166372003061629,hm,0,Write,383496192,32768,413\n\
                    128166372003061529,hm,0,Read,1000,100,12\n";
        let trace = Recorded::parse(text, 1).unwrap();
        let request = |at, read, offset, len| Request { at: Nanos(at), read, offset, len };
        let wanted = [request(0, true, 512, 1024), request(10_000, false, 383_496_192, 32_768)];
        assert_eq!(trace.requests[..], wanted);
        assert_eq!(trace.length(), Nanos(10_000));
        let simple = Recorded::parse("1.5,W,4096,8192\n1.25,r,0,512\n", 5).unwrap();
        let wanted = [request(0, true, 0, 512), request(50_000_000, false, 4096, 8192)];
        assert_eq!(simple.requests[..], wanted);
        assert_eq!(simple.largest_write(), 8192);
    }

    #[test]
    fn what_is_no_request_is_told_with_its_line() {
        for text in ["0,W,1,1\n5,X,0,512", "0,W,1,1\n-1,R,0,512", "0,W,1,1\nhello"] {
            let error = Recorded::parse(text, 1).err().expect("it is wrong");
            assert!(error.starts_with("line 2: "), "{error}");
        }
        assert!(Recorded::parse("", 1).is_err());
    }

    #[test]
    fn a_trace_of_a_larger_disk_is_folded() {
        let trace = Recorded::parse("0,W,10240,4096\n1,R,99328,4096\n", 1).unwrap();
        let folded = trace.within(100 << 10);
        assert_eq!(folded.requests[0].offset, 10240);
        assert_eq!(folded.requests[1].offset, (100 << 10) - 4096, "it ends with the array");
        let small = trace.within(8192);
        assert!(small.requests.iter().all(|request| request.offset + request.len <= 8192));
    }
}
