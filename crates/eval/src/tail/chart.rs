//! The table as a picture (SVG): for each load a panel, for each slow drive a group of bars, one a
//! system. A bar ends at p99.9, its whisker at p99.99, on a logarithmic axis.

use std::fmt::Write as _;

use super::cell::Cell;
use super::report::{Row, Table, same_load, title};
use crate::array::System;

const COLUMNS: usize = 2;
const PANEL_WIDTH: f64 = 560.0;
const PANEL_HEIGHT: f64 = 230.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 26.0;
/// Above the panels, for the legend.
const HEAD: f64 = 30.0;

fn colour(system: System) -> &'static str {
    /// Of the others, in turn.
    const MORE: [&str; 6] = ["#009e73", "#cc79a7", "#f0e442", "#8c564b", "#7f3c8d", "#11a579"];
    match system {
        System::Fusion => "#0060a8",
        System::FusionPaper => "#56b4e9",
        System::FusionNd => "#999999",
        System::RAID5 => "#d55e00",
        System::RAID10 => "#e69f00",
        other => {
            let place = System::all().iter().position(|system| *system == other);
            MORE[place.unwrap_or(0) % MORE.len()]
        }
    }
}

/// Powers of ten in microseconds, and where they are.
struct Axis {
    low: i32,
    high: i32,
}

impl Axis {
    fn of(rows: &[Row]) -> Axis {
        let powers = rows.iter().map(|row| (row.p999, row.p9999));
        let least = powers.clone().map(|(p999, _)| p999).min().unwrap_or(1_000).max(1_000);
        let most = powers.map(|(_, p9999)| p9999).max().unwrap_or(1_000).max(10_000);
        let low = (least as f64 / 1e3).log10().floor() as i32;
        Axis { low, high: ((most as f64 / 1e3).log10().ceil() as i32).max(low + 1) }
    }

    /// Below the panel's top.
    fn y(&self, nanos: u64) -> f64 {
        let power = (nanos.max(1) as f64 / 1e3).log10();
        let part = (power - f64::from(self.low)) / f64::from(self.high - self.low);
        PANEL_HEIGHT - BOTTOM - part.clamp(0.0, 1.0) * (PANEL_HEIGHT - TOP - BOTTOM)
    }
}

pub fn draw(table: &Table) -> String {
    let mut loads: Vec<Cell> = Vec::new();
    for row in &table.rows {
        if !loads.iter().any(|load| same_load(load, &row.cell)) {
            loads.push(row.cell);
        }
    }
    let width = PANEL_WIDTH * COLUMNS.min(loads.len()).max(1) as f64;
    let height = HEAD + PANEL_HEIGHT * loads.len().div_ceil(COLUMNS) as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <title>p99.9 and p99.99 with one slow drive</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    legend(&mut svg, table);
    let axis = Axis::of(&table.rows);
    for (at, load) in loads.iter().enumerate() {
        let x = PANEL_WIDTH * (at % COLUMNS) as f64;
        let y = HEAD + PANEL_HEIGHT * (at / COLUMNS) as f64;
        let rows: Vec<&Row> = table.rows.iter().filter(|row| same_load(&row.cell, load)).collect();
        let _ = writeln!(svg, "<g transform=\"translate({x} {y})\">");
        panel(&mut svg, load, &rows, &axis);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, table: &Table) {
    let mut x = LEFT;
    for system in table.systems() {
        let (fill, after) = (colour(system), x + 14.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"10\" width=\"10\" height=\"10\" fill=\"{fill}\"/>\
             <text x=\"{after}\" y=\"19\">{system}</text>"
        );
        x += 110.0;
    }
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"19\">bar: p99.9, whisker: p99.99</text>");
}

fn panel(svg: &mut String, load: &Cell, rows: &[&Row], axis: &Axis) {
    let (right, bottom) = (PANEL_WIDTH - RIGHT, PANEL_HEIGHT - BOTTOM);
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"20\" font-size=\"12\">{}</text>", title(load));
    for power in axis.low..=axis.high {
        let y = axis.y(10u64.pow((power + 3).max(0) as u32));
        let label = match power {
            ..3 => format!("{} µs", 10u64.pow(power.max(0) as u32)),
            3..6 => format!("{} ms", 10u64.pow(power as u32 - 3)),
            _ => format!("{} s", 10u64.pow(power as u32 - 6)),
        };
        let (x, text) = (LEFT - 5.0, y + 4.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ccc\" stroke-width=\"0.5\"/>\
             <text x=\"{x}\" y=\"{text:.1}\" text-anchor=\"end\">{label}</text>"
        );
    }
    let mut groups: Vec<_> = rows.iter().map(|row| row.cell.member).collect();
    groups.sort_unstable();
    groups.dedup();
    let group_width = (right - LEFT) / groups.len() as f64;
    for (at, member) in groups.iter().enumerate() {
        let start = LEFT + group_width * at as f64;
        let group: Vec<&&Row> = rows.iter().filter(|row| row.cell.member == *member).collect();
        let bar = group_width * 0.8 / group.len() as f64;
        for (index, row) in group.iter().enumerate() {
            let x = start + group_width * 0.1 + bar * index as f64;
            let (top, whisker, middle) = (axis.y(row.p999), axis.y(row.p9999), x + bar / 2.0);
            let (fill, width, height) = (colour(row.cell.system), bar * 0.9, bottom - top);
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
                 fill=\"{fill}\"/><path d=\"M{middle:.1} {top:.1}V{whisker:.1}\" \
                 stroke=\"{fill}\"/>"
            );
        }
        let (x, y) = (start + group_width / 2.0, bottom + 16.0);
        let _ =
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{member}</text>");
    }
}
