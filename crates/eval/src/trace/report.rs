//! Figures for people, and as JSON.

use std::fmt::Write;

use serde_json::json;

use super::Measured;
use super::figures::{Burstiness, Figures, SizeFigures};
use super::forms::Form;
use super::reader::Seen;

/// What was read, and what is odd about it.
pub fn seen(form: Form, seen: &Seen) -> String {
    let mut text = format!("  form {form}, {} lines, {} requests", seen.lines, seen.requests);
    let odd = [
        (seen.skipped, "of other kinds"),
        (seen.bad, "bad lines"),
        (seen.empty, "empty requests left out"),
        (seen.backward, "out of order"),
        (seen.late, "with a clock set back"),
    ];
    for (count, what) in odd.iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, ", {count} {what}");
    }
    text.push('\n');
    for (line, why) in &seen.examples {
        let _ = writeln!(text, "  line {line}: {why}");
    }
    text
}

fn bytes(len: u64) -> String {
    match len {
        0 => "0".to_owned(),
        len if len % (1 << 20) == 0 => format!("{}M", len >> 20),
        len if len % (1 << 10) == 0 => format!("{}K", len >> 10),
        len => format!("{len}"),
    }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn sizes(name: &str, sizes: &SizeFigures) -> String {
    let common: Vec<String> = sizes
        .common
        .iter()
        .map(|&(len, part)| format!("{} {}", bytes(len), percent(part)))
        .collect();
    format!(
        "  {name:<9} {:>10}  average {:.1} KB, median {}, 99 % {}, largest {}; {:.1} MiB; {}\n",
        sizes.requests,
        sizes.average_kb,
        bytes(sizes.median),
        bytes(sizes.p99),
        bytes(sizes.largest),
        sizes.mib,
        common.join(", "),
    )
}

fn bursts(name: &str, seen: &Burstiness) -> String {
    format!(
        "  by {name:<6} peak {:>7} = {:>7.1} x mean, index of dispersion {:>8.2}, {} of slots \
         busy\n",
        seen.peak,
        seen.peak_to_mean,
        seen.dispersion,
        percent(seen.busy),
    )
}

/// All of a trace.
pub fn text(measured: &Measured) -> String {
    let figures = &measured.figures;
    let places = &figures.footprint;
    let mut text = format!("{}\n{}", measured.file, seen(measured.form, &measured.seen));
    let _ = writeln!(
        text,
        "  {} requests in {:.3} s on {} devices: {:.1} a second, {:.2} MiB/s; {} reads, {} writes, \
         average {:.1} KB",
        figures.requests,
        figures.seconds,
        figures.devices,
        figures.iops,
        figures.mib_per_second,
        percent(figures.read_share),
        percent(figures.write_share),
        figures.average_kb,
    );
    text += &sizes("reads", &figures.reads);
    text += &sizes("writes", &figures.writes);
    if figures.discards.requests > 0 {
        text += &sizes("discards", &figures.discards);
    }
    text += &bursts("1 s", &figures.by_second);
    text += &bursts("10 ms", &figures.by_10_ms);
    text += &bursts("1 ms", &figures.by_ms);
    let estimate = if places.one_of > 1 {
        format!(" (estimated from one block of {})", places.one_of)
    } else {
        String::new()
    };
    let _ = writeln!(
        text,
        "  touched {:.1} MiB: read {:.1}, written {:.1}, both {:.1}; the last byte at \
         {:.2} GiB{estimate}",
        places.touched_mib, places.read_mib, places.written_mib, places.both_mib, figures.end_gib,
    );
    let _ = writeln!(
        text,
        "  of pages written {} had been written before; of pages read {} had been read, {} written",
        percent(places.update_share),
        percent(places.reread_share),
        percent(places.read_of_written_share),
    );
    let _ = writeln!(
        text,
        "  hottest 64-KiB blocks: 1 % have {} of all accesses, 10 % {} (reads {}, writes {}), \
         20 % {}",
        percent(places.top_1),
        percent(places.top_10),
        percent(places.top_10_reads),
        percent(places.top_10_writes),
        percent(places.top_20),
    );
    text + &rest(figures)
}

fn rest(figures: &Figures) -> String {
    let mut text = format!(
        "  sequential: reads {}, writes {}; whole pages of 4 KiB {}\n",
        percent(figures.sequential_reads),
        percent(figures.sequential_writes),
        percent(figures.aligned_share),
    );
    for stripes in &figures.stripes {
        let shares = |parts: [f64; 3]| parts.map(percent).join(" / ");
        let _ = writeln!(
            text,
            "  writes on 3+1 drives, units of {} KiB: small / partial / full {} of pieces, \
             {} of bytes",
            stripes.unit_kib,
            shares(stripes.pieces),
            shares(stripes.bytes),
        );
    }
    text
}

/// What the papers' tables say of a trace: FusionRAID Table 4, GC-Steering Table I, LDM Table II.
pub fn table(all: &[Measured]) -> String {
    let mut text = format!(
        "{:<36} {:>10} {:>9} {:>7} {:>7} {:>9} {:>9}\n",
        "trace", "requests", "IOPS", "writes", "reads", "write KB", "all KB"
    );
    for Measured { file, figures, .. } in all {
        let _ = writeln!(
            text,
            "{file:<36} {:>10} {:>9.1} {:>7} {:>7} {:>9.1} {:>9.1}",
            figures.requests,
            figures.iops,
            percent(figures.write_share),
            percent(figures.read_share),
            figures.writes.average_kb,
            figures.average_kb,
        );
    }
    text
}

pub fn json(all: &[Measured]) -> String {
    let each = all.iter().map(|measured| {
        json!({
            "file": measured.file,
            "form": measured.form.to_string(),
            "seen": measured.seen,
            "figures": measured.figures,
        })
    });
    serde_json::to_string_pretty(&each.collect::<Vec<_>>()).expect("figures are JSON")
}
