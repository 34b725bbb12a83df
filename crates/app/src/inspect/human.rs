//! The text form of `inspect`.

use std::fmt::Write;

use super::Report;
use super::claim::Claim;
use super::journal::Journal;
use super::labels::Label;
use super::slots::Checkpoint;
use crate::render::table::{Columns, printable};
use crate::size::Size;
use crate::wall_clock;

pub fn report(report: &Report) -> String {
    let mut text = String::new();
    let size = Size(report.size);
    let _ =
        writeln!(text, "{}: {size}, transfers of {} bytes", printable(&report.drive), report.align);
    let _ = writeln!(text, "{}", printable(&report.summary));
    if report.labels.iter().any(|copy| copy.generation.is_some()) || report.label.is_some() {
        text.push_str(&copies(report));
    }
    if let Some(label) = &report.label {
        text.push_str(&fields(label));
    }
    if let Some(claim) = &report.claim {
        let Claim { state, host_name, process, seen_secs, .. } = claim;
        let (host, seen) = (printable(host_name), wall_clock::date(*seen_secs));
        let by = if *state == "released" { "released" } else { "open" };
        let _ = writeln!(text, "{by:>12}: by host {host}, process {process}, last seen {seen}");
    }
    if let Some(journal) = &report.journal {
        text.push_str(&blocks(journal));
    }
    if let Some(checkpoint) = &report.checkpoint {
        text.push_str(&slots(checkpoint));
    }
    text
}

fn copies(report: &Report) -> String {
    let mut columns = Columns::new(&["LABEL AT", "GENERATION", "STATE"], &[0, 1]);
    for copy in &report.labels {
        let generation = copy.generation.map_or("-".to_owned(), |number| number.to_string());
        columns.row(vec![copy.offset.to_string(), generation, copy.state.clone()]);
    }
    format!("\n{}", columns.render(2))
}

fn fields(label: &Label) -> String {
    let mut text = String::from("\n");
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:>12}: {value}");
    };
    line("pool", format!("{} ({})", label.pool_name, label.pool));
    if let Some(pool) = &label.array_of {
        line("array", format!("{} of pool {pool}", label.array));
    }
    let place = if label.spare { "spare".to_owned() } else { label.index.to_string() };
    line("drive", format!("{place} ({})", label.drive));
    line(
        "epoch",
        format!(
            "{}, closed {}",
            label.epoch,
            if label.clean { "cleanly" } else { "not (open, or crashed)" }
        ),
    );
    line("scheme", label.scheme_name.to_owned());
    // Only `fusion` notes it.
    if label.created_secs > 0 {
        line("created", wall_clock::date(label.created_secs));
    }
    line("block", Size(label.block_size.into()).to_string());
    line("journal", stretch(label.journal.offset, label.journal.len));
    line("metadata", stretch(label.metadata.offset, label.metadata.len));
    line(
        "zones",
        format!(
            "{}: {} of {}",
            stretch(label.zones.offset, label.zones.len),
            label.zone_count,
            Size(label.zone_bytes),
        ),
    );
    for (shard, root) in label.checkpoint.iter().enumerate() {
        line(
            "checkpoint",
            format!(
                "shard {shard}: {}, {} objects, fingerprint {:016x}, journal from block {}",
                root.seq, root.objects, root.fingerprint, root.journal_start,
            ),
        );
    }
    text.push_str(&members(label));
    text
}

fn members(label: &Label) -> String {
    let mut columns = Columns::new(&["#", "DRIVE", "STATE", "SIZE"], &[0, 3]);
    for (index, member) in label.members.iter().enumerate() {
        let size = Size(member.size).to_string();
        let state = member.state.to_owned();
        columns.row(vec![index.to_string(), member.drive.clone(), state, size]);
    }
    format!("\n{}", columns.render(2))
}

fn stretch(offset: u64, len: u64) -> String {
    format!("{} from byte {offset}", Size(len))
}

fn blocks(journal: &Journal) -> String {
    let mut text = format!("\njournal: {} blocks\n", journal.blocks.len());
    for block in &journal.blocks {
        let _ = writeln!(
            text,
            "  epoch {} block {} at byte {}: {} bytes, {} copies, data durable up to {}",
            block.epoch, block.sequence, block.offset, block.len, block.copies, block.durable,
        );
        if let Some(damage) = &block.damage {
            let _ = writeln!(text, "    {damage}");
        }
        for record in &block.records {
            let _ = writeln!(text, "    {}", printable(record));
        }
    }
    text
}

fn slots(checkpoint: &Checkpoint) -> String {
    let mut text = format!(
        "\ncheckpoint: {} slots in use, {} damaged\n",
        checkpoint.slots.len(),
        checkpoint.damaged.len(),
    );
    if !checkpoint.slots.is_empty() {
        let heading = ["SLOT AT", "OBJECT", "CHECKPOINT", "PART", "BYTES", "CONTENT"];
        let mut columns = Columns::new(&heading, &[0, 2, 4]);
        for slot in &checkpoint.slots {
            let unfinished = if slot.finished { "" } else { " (not finished)" };
            columns.row(vec![
                slot.offset.to_string(),
                slot.object.clone(),
                format!("{}{unfinished}", slot.seq),
                format!("{} of {}", u32::from(slot.part) + 1, slot.parts),
                slot.len.to_string(),
                slot.content.clone().unwrap_or_default(),
            ]);
        }
        text.push_str(&columns.render(2));
    }
    for damaged in &checkpoint.damaged {
        let _ = writeln!(text, "  damaged at byte {}: {}", damaged.offset, damaged.what);
    }
    text
}
