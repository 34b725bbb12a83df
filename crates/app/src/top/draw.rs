//! The screen: health and space, drives with their last minutes, volumes, what goes on in the
//! background, and what happened last.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as TextLine, Span};
use ratatui::widgets::{Paragraph, Row, Table, Widget, Wrap};

use super::Cursor;
use super::history::{History, Kept, Line};
use crate::render::human::drive_space_line;
use crate::render::latency::span;
use crate::render::table::printable;
use crate::render::view::{Drive, Event, Health};
use crate::size::Size;
use crate::wall_clock;

/// Of one screen as text.
const TEXT_COLUMNS: u16 = 140;
/// Its lines besides those of drives, volumes and work.
const TEXT_ROWS: u16 = 20;
/// Lines for events, however low the terminal is.
const EVENTS_LEAST: u16 = 3;
/// A cell's shade by its 99th percentile, from well to lost: each is ten times the one before,
/// from 100 us. The last ones also have colours.
const SHADES: [(u64, char, Option<Color>); 6] = [
    (100_000, '▁', None),
    (1_000_000, '▂', None),
    (10_000_000, '▄', Some(Color::Yellow)),
    (100_000_000, '▆', Some(Color::LightRed)),
    (1_000_000_000, '▇', Some(Color::Red)),
    (u64::MAX, '█', Some(Color::Magenta)),
];

pub fn screen(area: Rect, to: &mut Buffer, history: &History, cursor: Cursor) {
    let Some(kept) = history.pools().get(cursor.pool) else {
        return Paragraph::new("no pool is served").render(area, to);
    };
    let view = &kept.view;
    let head = Paragraph::new(head(kept)).wrap(Wrap { trim: true });
    let work = background(kept);
    let [head_area, drives, volumes, work_area, events, keys] = Layout::vertical([
        Constraint::Length(head.line_count(area.width) as u16 + 1),
        Constraint::Length(view.drives.len() as u16 + 2),
        Constraint::Length(view.volumes.len() as u16 + 2),
        Constraint::Length(work.len() as u16 + u16::from(!work.is_empty())),
        Constraint::Min(EVENTS_LEAST),
        Constraint::Length(1),
    ])
    .areas(area);
    head.render(head_area, to);
    drive_table(kept, drives.width).render(drives, to);
    volume_table(kept).render(volumes, to);
    Paragraph::new(work).render(work_area, to);
    Paragraph::new(happened(kept)).render(events, to);
    let paused = if cursor.paused { "  PAUSED" } else { "" };
    let count = history.pools().len();
    let said = format!("q quit  p pause  Tab next pool ({} of {count}){paused}", cursor.pool + 1);
    Paragraph::new(said).style(Style::new().add_modifier(Modifier::DIM)).render(keys, to);
}

/// The same without colours, its blank lines left out.
pub fn text(history: &History, cursor: Cursor) -> String {
    let rows = history.pools().get(cursor.pool).map_or(0, |kept| {
        kept.view.drives.len() + kept.view.volumes.len() + background(kept).len()
    });
    let area = Rect::new(0, 0, TEXT_COLUMNS, rows as u16 + TEXT_ROWS);
    let mut to = Buffer::empty(area);
    screen(area, &mut to, history, cursor);
    let line = |y: u16| -> String {
        (0..area.width).map(|x| to[(x, y)].symbol()).collect::<String>().trim_end().to_owned()
    };
    // The last line is about keys.
    let lines = (0..area.height - 1).map(line).filter(|line| !line.is_empty());
    lines.map(|line| line + "\n").collect()
}

/// How the pool is, what to do about it, and what its space is used for.
fn head(kept: &Kept) -> Vec<TextLine<'static>> {
    let view = &kept.view;
    let action = view.action.as_ref().map(|action| format!("action: {action}"));
    let space = view.space.total > 0;
    let space = space.then(|| format!("drives {}", drive_space_line(view)));
    let more = [view.reason.clone(), action, space].into_iter().flatten();
    [health(kept)].into_iter().chain(more.map(TextLine::raw)).collect()
}

fn health(kept: &Kept) -> TextLine<'static> {
    let view = &kept.view;
    let colour = match view.state {
        Health::Online => Color::Green,
        Health::Degraded => Color::Yellow,
        Health::Failed => Color::Red,
    };
    let state = Span::styled(
        view.state.name().to_uppercase(),
        Style::new().fg(colour).add_modifier(Modifier::BOLD),
    );
    let space = format!("{} % full, {} left", view.space.percent(), Size(view.space.available));
    let margin = view.redundancy_margin;
    let what = format!(
        "  {}, {space}, {margin} more may be lost, {} requests sent round",
        view.scheme, kept.around
    );
    let name = format!("pool {}  ", printable(&view.name));
    TextLine::from(vec![Span::raw(name), state, Span::raw(what)])
}

fn shades(line: &Line, columns: usize) -> TextLine<'static> {
    let skipped = line.intervals.len().saturating_sub(columns);
    let cell = |nanos: u64| {
        let shade = SHADES.iter().find(|(most, ..)| nanos <= *most);
        let (_, symbol, colour) = shade.copied().unwrap_or(SHADES[SHADES.len() - 1]);
        let style = colour.map_or(Style::new(), |colour| Style::new().fg(colour));
        let symbol = if nanos == 0 { '·' } else { symbol };
        Span::styled(symbol.to_string(), style)
    };
    let cells = line.intervals.iter().skip(skipped).map(|own| cell(own.quantile(0.99)));
    TextLine::from(cells.collect::<Vec<_>>())
}

/// Columns of the tables but for the last.
const DRIVE_COLUMNS: [u16; 7] = [14, 10, 9, 8, 9, 9, 6];

fn drive_table(kept: &Kept, width: u16) -> Table<'static> {
    let fixed: u16 = DRIVE_COLUMNS.iter().map(|column| column + 1).sum();
    let shown = usize::from(width.saturating_sub(fixed)).max(10);
    let row = |(drive, line): (&Drive, &Line)| {
        let now = line.newest();
        let style = match drive.state.as_str() {
            "active" if drive.spikes.unresponsive => Style::new().fg(Color::Yellow),
            "active" | "spare" | "vacated" => Style::new(),
            "restoring" => Style::new().fg(Color::Yellow),
            _ => Style::new().fg(Color::Red),
        };
        let health = if drive.spikes.unresponsive { "slow now" } else { drive.health.as_str() };
        let cells = [
            short(&drive.label(), DRIVE_COLUMNS[0].into()),
            drive.state.clone(),
            health.to_owned(),
            now.count().to_string(),
            span(now.quantile(0.5)),
            span(now.quantile(0.99)),
            drive.spikes.spikes.to_string(),
        ];
        Row::new(cells.map(TextLine::from).into_iter().chain([shades(line, shown)])).style(style)
    };
    let heading = ["DRIVE", "STATE", "HEALTH", "REQS", "P50", "P99", "SPIKES", "P99 OVER TIME"];
    let widths = DRIVE_COLUMNS.map(Constraint::Length).into_iter().chain([Constraint::Min(10)]);
    Table::new(kept.view.drives.iter().zip(&kept.drives).map(row), widths)
        .header(Row::new(heading).style(Style::new().add_modifier(Modifier::BOLD)))
}

fn volume_table(kept: &Kept) -> Table<'static> {
    let row = |(volume, line): (&crate::render::view::Volume, &Line)| {
        let now = line.newest();
        let cells = [
            short(&volume.name, 20),
            Size(volume.size).to_string(),
            now.count().to_string(),
            span(now.quantile(0.5)),
            span(now.quantile(0.99)),
            span(now.quantile(0.999)),
        ];
        Row::new(cells)
    };
    let heading = ["VOLUME", "SIZE", "REQS", "P50", "P99", "P99.9"];
    Table::new(kept.view.volumes.iter().zip(&kept.volumes).map(row), [20, 12, 9, 9, 9, 9])
        .header(Row::new(heading).style(Style::new().add_modifier(Modifier::BOLD)))
}

fn background(kept: &Kept) -> Vec<TextLine<'static>> {
    let view = &kept.view;
    let mut said = Vec::new();
    for drive in &view.rebuild.drives {
        let eta = drive.eta_seconds.map_or(String::new(), |eta| format!(", {eta} s left"));
        said.push(format!("{} of drive {}: {} %{eta}", drive.work, drive.drive, drive.percent()));
    }
    if view.scrub.goes_on() {
        said.push(format!("scrub {}: {} %", view.scrub.state, view.scrub.percent()));
    }
    if view.backlog.tuples > 0 {
        said.push(format!("{} groups of copies wait to become stripes", view.backlog.tuples));
    }
    said.into_iter().map(TextLine::raw).collect()
}

/// The newest first, so that a low terminal cuts off what is old.
fn happened(kept: &Kept) -> Vec<TextLine<'static>> {
    let line = |event: &Event| {
        let colour = match event.severity.as_str() {
            "error" => Color::Red,
            "warning" => Color::Yellow,
            _ => Color::Reset,
        };
        let text = printable(&event.text);
        let said = format!("{}  {:14}  {text}", wall_clock::local(event.unix_micros), event.kind);
        TextLine::styled(said, Style::new().fg(colour))
    };
    kept.events.iter().rev().map(line).collect()
}

/// The end of a long name says more than its beginning.
fn short(name: &str, columns: usize) -> String {
    let name = printable(name);
    let count = name.chars().count();
    match count > columns {
        true => format!("…{}", name.chars().skip(count - columns + 1).collect::<String>()),
        false => name,
    }
}
