//! What slow requests waited for: as a table of shares, and each as a line of a file.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Cause, Told};
use crate::experiment::shown;

/// Causes of less of the time are not worth a line.
const SHOWN: f64 = 0.001;

/// Reads and writes that are slower than a quantile of their kind, the slowest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub quantile: f64,
    pub reads: Vec<Told>,
    pub writes: Vec<Told>,
}

/// Of one cause, among slow requests of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    pub cause: Cause,
    /// Of the time that these requests took.
    pub of_time: f64,
    /// Requests of which it is the largest cause.
    pub largest_of: usize,
}

/// The causes of the time that these requests took; the largest first.
pub fn shares(slow: &[Told]) -> Vec<Share> {
    let all: u64 = slow.iter().map(|told| told.nanos).sum();
    let share = |cause| {
        let nanos: u64 = slow.iter().map(|told| told.path.get(cause)).sum();
        let largest_of = slow.iter().filter(|told| told.path.largest() == cause).count();
        Share { cause, of_time: nanos as f64 / all.max(1) as f64, largest_of }
    };
    let mut shares: Vec<Share> = Cause::all().map(share).collect();
    shares.retain(|share| share.of_time > 0.0);
    shares.sort_by(|a, b| b.of_time.total_cmp(&a.of_time));
    shares
}

fn least_nanos(slow: &[Told]) -> u64 {
    slow.last().map_or(0, |told| told.nanos)
}

impl Report {
    fn kinds(&self) -> [(&'static str, &[Told]); 2] {
        [("reads", &self.reads), ("writes", &self.writes)]
    }

    /// As people read it.
    pub fn text(&self) -> String {
        let percent = shown((1.0 - self.quantile) * 100.0);
        let mut text = String::new();
        for (name, slow) in self.kinds().into_iter().filter(|(_, slow)| !slow.is_empty()) {
            let (count, least) = (slow.len(), least_nanos(slow) as f64 / 1e6);
            let _ = writeln!(
                text,
                "    slowest {percent} % of {name}, {count} of {least:.3} ms or longer:"
            );
            for Share { cause, of_time, largest_of } in shares(slow) {
                if of_time < SHOWN && largest_of == 0 {
                    continue;
                }
                let percent = of_time * 100.0;
                let _ = writeln!(text, "      {percent:>5.1} %  {cause:<24} most of {largest_of}");
            }
        }
        text
    }

    pub fn json(&self) -> Value {
        let kind = |slow: &[Told]| {
            let share = |Share { cause, of_time, largest_of }| {
                (cause.to_string(), json!({ "of_time": of_time, "largest_of": largest_of }))
            };
            let causes: Map<String, Value> = shares(slow).into_iter().map(share).collect();
            json!({ "requests": slow.len(), "least_nanos": least_nanos(slow), "causes": causes })
        };
        json!({
            "quantile": self.quantile,
            "reads": kind(&self.reads),
            "writes": kind(&self.writes),
        })
    }

    /// A line for each request: when it came (since the world began), what it was, how long it
    /// took, and nanoseconds of each cause.
    pub fn csv(&self) -> String {
        let mut text = "begin_nanos,kind,offset,bytes,nanos".to_owned();
        for cause in Cause::all() {
            let _ = write!(text, ",{}", cause.to_string().replace(", ", " ").replace(' ', "_"));
        }
        text.push('\n');
        for (kind, slow) in [("read", &self.reads), ("write", &self.writes)] {
            for Told { begin, nanos, offset, len, path } in slow {
                let _ = write!(text, "{},{kind},{offset},{len},{nanos}", begin.0);
                for cause in Cause::all() {
                    let _ = write!(text, ",{}", path.get(cause));
                }
                text.push('\n');
            }
        }
        text
    }

    /// Writes [`Report::csv`] and the shares as JSON into a folder, which is made if it is not
    /// there.
    pub fn write(&self, folder: &Path, name: &str) -> Result<(), String> {
        let json = serde_json::to_string_pretty(&self.json()).expect("plain values") + "\n";
        for (kind, text) in [("csv", self.csv()), ("json", json)] {
            let path = folder.join(format!("{name}.{kind}"));
            let made = std::fs::create_dir_all(folder);
            let written = made.and_then(|()| std::fs::write(&path, text));
            written.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }
}
