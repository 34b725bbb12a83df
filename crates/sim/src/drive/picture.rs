//! Latency over time as a picture (SVG): each request a dot, time from left to right, latency
//! upwards on a logarithmic axis. Requests of more than three times the median are needles that
//! rise from it. While the drive collected garbage the ground is grey.
//!
//! Millions of requests fall on the same dots; a dot is drawn once, and dots above each other
//! as one stroke, so that a picture is some ten thousand bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::probe::{Record, Sample};

const WIDTH: u32 = 960;
const HEIGHT: u32 = 320;
const LEFT: u32 = 64;
const RIGHT: u32 = 16;
const TOP: u32 = 34;
const BOTTOM: u32 = 42;
/// Side of a dot.
const DOT: u32 = 2;
/// A request of so many times the median is a needle.
const NEEDLE: f64 = 3.0;

const READ_COLOUR: &str = "#d55e00";
const WRITE_COLOUR: &str = "#0060a8";

/// The part of a record that is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub begin_seconds: f64,
    pub end_seconds: f64,
}

struct Axes {
    window: Window,
    /// Powers of ten, in microseconds.
    low: i32,
    high: i32,
}

impl Axes {
    fn x(&self, seconds: f64) -> f64 {
        let Window { begin_seconds, end_seconds } = self.window;
        let part = (seconds - begin_seconds) / (end_seconds - begin_seconds);
        f64::from(LEFT) + part.clamp(0.0, 1.0) * f64::from(WIDTH - LEFT - RIGHT)
    }

    fn y(&self, micros: f64) -> f64 {
        let part = (micros.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        f64::from(HEIGHT - BOTTOM) - part.clamp(0.0, 1.0) * f64::from(HEIGHT - TOP - BOTTOM)
    }
}

/// Draws the part of `record` in `window` under a title.
pub fn draw(record: &Record, window: Window, title: &str) -> String {
    let seen: Vec<&Sample> = record
        .samples
        .iter()
        .filter(|sample| {
            let seconds = sample.begin.0 as f64 / 1e9;
            (window.begin_seconds..window.end_seconds).contains(&seconds)
        })
        .collect();
    let micros = |sample: &&Sample| sample.latency.0.max(1) as f64 / 1e3;
    let least = seen.iter().map(micros).fold(f64::MAX, f64::min).min(1e3);
    let most = seen.iter().map(micros).fold(0.0, f64::max).max(1e4);
    let low = least.log10().floor() as i32;
    let axes = Axes { window, low, high: (most.log10().ceil() as i32).max(low + 1) };

    let mut svg = head(title);
    collections(&mut svg, record, &axes);
    grid(&mut svg, &axes);
    for (write, colour) in [(true, WRITE_COLOUR), (false, READ_COLOUR)] {
        let kind: Vec<&Sample> = seen.iter().copied().filter(|s| s.write == write).collect();
        needles(&mut svg, &kind, &axes, colour);
        dots(&mut svg, &kind, &axes, colour);
    }
    legend(&mut svg, &seen, !record.collections.is_empty());
    svg.push_str("</svg>\n");
    svg
}

fn head(title: &str) -> String {
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>{title}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{title}</text>\n"
    )
}

fn collections(svg: &mut String, record: &Record, axes: &Axes) {
    let mut drawn_to = 0.0;
    let mut path = String::new();
    for collection in &record.collections {
        let begin = axes.x(collection.begin.0 as f64 / 1e9).max(drawn_to);
        let end = axes.x(collection.end.0 as f64 / 1e9).max(begin);
        if end - begin >= 0.05 {
            let _ = write!(path, "M{begin:.1} {TOP}H{end:.1}V{}H{begin:.1}z", HEIGHT - BOTTOM);
            drawn_to = end;
        }
    }
    if !path.is_empty() {
        let _ = writeln!(svg, "<path d=\"{path}\" fill=\"#e2e2e2\"/>");
    }
}

fn grid(svg: &mut String, axes: &Axes) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let mut lines = String::new();
    for power in axes.low..=axes.high {
        let micros = 10f64.powi(power);
        let y = axes.y(micros);
        let _ = write!(lines, "M{LEFT} {y:.1}H{right}");
        let label = match power {
            ..0 => format!("{:.0} ns", micros * 1e3),
            0..3 => format!("{micros:.0} µs"),
            3..6 => format!("{:.0} ms", micros / 1e3),
            _ => format!("{:.0} s", micros / 1e6),
        };
        let (x, y) = (LEFT - 6, y + 4.0);
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{label}</text>");
    }
    let Window { begin_seconds, end_seconds } = axes.window;
    let step = tick(end_seconds - begin_seconds);
    let mut seconds = (begin_seconds / step).ceil() * step;
    while seconds <= end_seconds + step / 1e3 {
        let (x, y) = (axes.x(seconds), bottom + 16);
        let _ = write!(lines, "M{x:.1} {bottom}v4");
        let places = usize::from(step < 1.0) + usize::from(step < 0.1);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{seconds:.places$}</text>"
        );
        seconds += step;
    }
    let (x, y) = (f64::from(LEFT + right) / 2.0, HEIGHT - 8);
    let _ = writeln!(svg, "<path d=\"{lines}\" stroke=\"#999\" stroke-width=\"0.5\"/>");
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">time (s)</text>");
}

/// 1, 2 or 5 times a power of ten; about eight steps in `length`.
fn tick(length: f64) -> f64 {
    let power = 10f64.powf((length / 8.0).log10().floor());
    let fits = |times: &f64| power * times >= length / 10.0;
    power * [1.0, 2.0, 5.0, 10.0].into_iter().find(fits).unwrap_or(10.0)
}

/// Column and row of a sample's dot.
fn cell(sample: &Sample, axes: &Axes) -> (u32, u32) {
    let x = axes.x(sample.begin.0 as f64 / 1e9);
    let y = axes.y(sample.latency.0.max(1) as f64 / 1e3);
    (x as u32 / DOT, y as u32 / DOT)
}

/// The highest in each column stands for those below it.
fn needles(svg: &mut String, samples: &[&Sample], axes: &Axes, colour: &str) {
    let mut latencies: Vec<u64> = samples.iter().map(|sample| sample.latency.0).collect();
    if latencies.is_empty() {
        return;
    }
    let middle = latencies.len() / 2;
    let median = *latencies.select_nth_unstable(middle).1 as f64;
    let mut highest: BTreeMap<u32, u32> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.latency.0 as f64 > NEEDLE * median) {
        let (x, y) = cell(sample, axes);
        let row = highest.entry(x).or_insert(y);
        *row = y.min(*row);
    }
    let ground = axes.y(median / 1e3) as u32;
    let mut path = String::new();
    for (x, y) in highest {
        let _ = write!(path, "M{} {}V{ground}", x * DOT, y * DOT);
    }
    if !path.is_empty() {
        let style = "stroke-width=\"1\" stroke-opacity=\"0.4\"";
        let _ = writeln!(svg, "<path d=\"{path}\" stroke=\"{colour}\" {style}/>");
    }
}

fn dots(svg: &mut String, samples: &[&Sample], axes: &Axes, colour: &str) {
    let cells: BTreeSet<(u32, u32)> = samples.iter().map(|sample| cell(sample, axes)).collect();
    let mut path = String::new();
    let mut cells = cells.into_iter().peekable();
    while let Some((x, y)) = cells.next() {
        let mut last = y;
        while cells.next_if_eq(&(x, last + 1)).is_some() {
            last += 1;
        }
        let _ = write!(path, "M{} {}v{}", x * DOT, y * DOT, (last + 1 - y) * DOT);
    }
    if !path.is_empty() {
        let _ = writeln!(svg, "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"{DOT}\"/>");
    }
}

fn legend(svg: &mut String, seen: &[&Sample], collecting: bool) {
    let any = |write: bool| seen.iter().any(|sample| sample.write == write);
    let entries = [
        (any(true), WRITE_COLOUR, "write"),
        (any(false), READ_COLOUR, "read"),
        (collecting, "#e2e2e2", "collecting garbage"),
    ];
    let mut x = WIDTH - RIGHT;
    for (_, colour, text) in entries.into_iter().rev().filter(|entry| entry.0) {
        x -= 8 * text.len() as u32 + 20;
        let after = x + 14;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"11\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
             <text x=\"{after}\" y=\"20\">{text}</text>"
        );
    }
}

#[cfg(test)]
mod tests {
    use io::env::Nanos;

    use super::*;

    #[test]
    fn a_million_requests_are_a_small_picture_of_all_of_them() {
        let sample = |index: u64| Sample {
            begin: Nanos::from_micros(index * 10),
            latency: Nanos::from_micros(if index.is_multiple_of(10_000) {
                90_000
            } else {
                50 + index % 9
            }),
            bytes: 4096,
            write: index.is_multiple_of(2),
        };
        let record = Record {
            samples: (0..1_000_000).map(sample).collect(),
            collections: Vec::new(),
            counters: Default::default(),
            length: Nanos::from_secs(10),
        };
        let window = Window { begin_seconds: 0.0, end_seconds: 10.0 };
        let svg = draw(&record, window, "a <drive>");
        assert!(svg.len() < 40_000, "{} bytes", svg.len());
        assert!(
            svg.contains("a &lt;drive>") && svg.contains(">100 ms<") && svg.ends_with("</svg>\n")
        );
        // 100 writes of 90 ms, 9 pixels apart: as many needles, and dots of their own.
        let paths: Vec<&str> = svg.lines().filter(|line| line.contains(WRITE_COLOUR)).collect();
        let high = paths[1].split('M').filter(|stroke| stroke.ends_with(" 36v2")).count();
        assert_eq!(paths[0].matches('M').count(), 100);
        assert_eq!(high, 100, "{}", &paths[1][..200]);
    }

    #[test]
    fn ticks_are_round() {
        for (length, expected) in [(60.0, 10.0), (10.0, 1.0), (0.25, 0.05), (30.0, 5.0)] {
            assert!((tick(length) - expected).abs() < 1e-9, "{length}: {}", tick(length));
        }
    }
}
