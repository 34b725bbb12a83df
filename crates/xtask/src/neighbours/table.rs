//! Latencies, and the table of them.

use std::fmt::Write;
use std::time::Duration;

#[derive(Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    pub fn add(&mut self, span: Duration) {
        self.0.push(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    }

    /// In nanoseconds; 0 of none.
    fn percentile(&mut self, percent: usize) -> u64 {
        self.0.sort_unstable();
        let index = self.0.len() * percent / 100;
        self.0.get(index.min(self.0.len().saturating_sub(1))).copied().unwrap_or(0)
    }
}

/// One kind of neighbour.
pub struct Row {
    does: &'static str,
    alone: Samples,
    beside: Samples,
    /// Of the 99th percentiles, one for each round: beside / alone.
    ratios: Vec<f64>,
}

impl Row {
    pub fn new(does: &'static str) -> Row {
        let (alone, beside, ratios) = Default::default();
        Row { does, alone, beside, ratios }
    }

    pub fn add(&mut self, mut alone: Samples, mut beside: Samples) {
        let ratio = beside.percentile(99) as f64 / alone.percentile(99).max(1) as f64;
        self.ratios.push(ratio);
        self.alone.0.append(&mut alone.0);
        self.beside.0.append(&mut beside.0);
    }

    fn line(&mut self) -> String {
        self.ratios.sort_unstable_by(f64::total_cmp);
        let micros = |nanos: u64| format!("{:.0}", nanos as f64 / 1000.0);
        let of = |samples: &mut Samples| {
            let (middle, high) = (samples.percentile(50), samples.percentile(99));
            [samples.0.len().to_string(), micros(middle), micros(high)].join("\t")
        };
        let (alone, beside) = (of(&mut self.alone), of(&mut self.beside));
        let (low, high) = (self.ratios.first(), self.ratios.last());
        let middle = self.ratios.get(self.ratios.len() / 2);
        let [low, middle, high] = [low, middle, high].map(|own| own.copied().unwrap_or(0.0));
        format!("{}\t{alone}\t{beside}\t{middle:.2}\t{low:.2}..{high:.2}\n", self.does)
    }
}

/// Columns are separated by tabs: `column -t -s $'\t'` lines them up.
pub fn render(rows: &mut [Row]) -> String {
    let mut text = "beside a neighbour that\treads alone\tp50 us\tp99 us\treads beside\tp50 us\t\
                    p99 us\tp99 ratio\tof rounds\n"
        .to_owned();
    for row in rows {
        let _ = write!(text, "{}", row.line());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_that_makes_reads_slower_is_seen() {
        let samples = |micros: u64| {
            let mut samples = Samples::default();
            (1..=100).for_each(|part| samples.add(Duration::from_micros(micros * part)));
            samples
        };
        let mut row = Row::new("is slow");
        for beside in [2, 3, 7] {
            row.add(samples(1), samples(beside));
        }
        let text = render(&mut [row]);
        let line = text.lines().last().expect("a row");
        assert_eq!(line, "is slow\t300\t51\t100\t300\t156\t686\t3.00\t2.00..7.00");
    }
}
