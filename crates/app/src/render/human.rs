//! The text forms of `status`, `list` and `volume list`.

use std::fmt::Write;

use super::latency;
use super::table::{Columns, printable};
use super::view::{
    Drive, Health, Limits, Listed, Pool, Rebalance, Rebuild, RebuildDrive, Scrub, Server, Volume,
};
use super::waits;
use crate::size::Size;

/// The report on one pool; with `latency` also how long its drives took to answer.
pub fn pool(pool: &Pool, latency: bool) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "{label:>9}: {}", printable(value));
    };
    line("pool", &format!("{} ({})", pool.name, pool.uuid));
    line("state", &state_line(pool));
    if let Some(reason) = &pool.reason {
        line("reason", reason);
    }
    if let Some(action) = &pool.action {
        line("action", action);
    }
    if !pool.is_open() {
        line("scheme", &pool.scheme);
        let _ = write!(text, "\n{}", drives(&pool.drives));
        return text;
    }
    for (label, value) in if pool.is_fusion() { facts(pool) } else { other_facts(pool) } {
        line(label, &value);
    }
    if let Some(waits) = waits::line(&pool.waits) {
        line("waits", &waits);
    }
    let _ = write!(text, "\n{}", drives(&pool.drives));
    let _ = write!(text, "\n{}", pool_volumes(&pool.volumes));
    let mut tables = vec![latency::volumes(&pool.volumes)];
    if latency {
        tables.push(waits::table(&pool.waits));
        tables.push(latency::drives(pool));
    }
    tables.push(counters(pool));
    for table in tables.iter().filter(|table| !table.is_empty()) {
        let _ = write!(text, "\n{table}");
    }
    text
}

/// What an operator should know of the server itself; nothing if all is well. With `latency` also
/// how long its thread was busy at a time.
pub fn server(server: &Server, latency: bool) -> Option<String> {
    let of = |dropped: &super::view::DroppedMessages| {
        format!("{} {} ({})", dropped.count, dropped.target, dropped.reason)
    };
    let all: Vec<String> = server.dropped.iter().map(of).collect();
    let dropped = (server.messages_dropped > 0)
        .then(|| format!("   server: log dropped: {}\n", all.join(", ")));
    let slices = latency.then(|| latency::slices(&server.slices)).filter(|table| !table.is_empty());
    let parts: Vec<String> = dropped.into_iter().chain(slices).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

fn facts(pool: &Pool) -> Vec<(&'static str, String)> {
    let grown = pool.rebalance.zones_left > 0;
    let rebalance = grown.then(|| ("rebalance", rebalance_line(&pool.rebalance)));
    let facts = vec![
        ("scheme", scheme_line(pool)),
        ("layout", pool.layout.clone()),
        ("space", space_line(pool)),
        ("drives", drive_space_line(pool)),
        ("spikes", spikes_line(pool)),
        ("backlog", backlog_line(pool)),
        ("scrub", scrub(&pool.scrub)),
        ("journal", format!("{} % full", pool.journal_fill_percent)),
        ("memory", memory_line(pool)),
        ("opened", recovery_line(pool)),
    ];
    facts.into_iter().chain(rebalance).chain(rebuild_lines(&pool.rebuild)).collect()
}

/// Of a pool that is not `fusion`.
fn other_facts(pool: &Pool) -> Vec<(&'static str, String)> {
    let chunk = Size(u64::from(pool.block_size));
    let facts = vec![
        (
            "scheme",
            format!("{}, {}, chunks of {chunk}{}", pool.scheme, pool.layout, no_checksums(pool)),
        ),
        ("space", space_line(pool)),
        ("resync", resync_line(pool.resync_stripes, pool.marks)),
        ("opened", format!("in {} ms", pool.recovery.load_nanos / 1_000_000)),
    ];
    facts.into_iter().chain(rebuild_lines(&pool.rebuild)).collect()
}

/// Whether the drives of arrays in place agree, as `mdadm` users look for it.
fn resync_line(stripes_left: u64, marks: u64) -> String {
    match (stripes_left, marks) {
        (0, 0) => "in sync".to_owned(),
        (0, 1) => "active (1 region being written)".to_owned(),
        (0, marks) => format!("active ({marks} regions being written)"),
        (left, _) => format!("resyncing in the background, {left} stripes left"),
    }
}

/// What is on its way because drives are lost, leave or come.
fn rebuild_lines(rebuild: &Rebuild) -> Vec<(&'static str, String)> {
    let now = match (rebuild.paused, rebuild.waits_for_space) {
        (true, _) => ", paused",
        (_, true) => ", waits for free space",
        _ => "",
    };
    let line = |drive: &RebuildDrive| {
        let what = match drive.work.as_str() {
            "rebuild" => "the others take over what it held",
            "drain" => "the others take over what it holds",
            "return" => "it gets back what the others hold for it",
            "copy" => "it is copied onto the drive that replaces it",
            _ => "it gets what it should hold",
        };
        let eta = drive.eta_seconds.map_or_else(String::new, |eta| format!(", {eta} s to go"));
        let (left, blocks) = (drive.blocks_left, drive.blocks);
        let percent = drive.percent();
        let text = format!(
            "drive {}: {what}, {percent} % ({left} of {blocks} blocks left{eta}){now}",
            drive.drive
        );
        ("rebuild", text)
    };
    rebuild.drives.iter().map(line).collect()
}

fn rebalance_line(rebalance: &Rebalance) -> String {
    match (rebalance.zones_left, rebalance.state.as_str()) {
        (0, _) => "everything lies on all the drives that it could".to_owned(),
        (left, "idle") => {
            format!("{left} zones lie on fewer drives than they could ('steadyraid rebalance')")
        }
        (left, state) => format!("{state}: {left} zones of {} are left", rebalance.zones),
    }
}

fn state_line(pool: &Pool) -> String {
    let read_only = if pool.read_only { " (opened read-only, not served)" } else { "" };
    format!("{}{read_only}", pool.state.name().to_uppercase())
}

/// What is read is not verified: whoever asks how the pool is has to know.
fn no_checksums(pool: &Pool) -> &'static str {
    if pool.checksums { "" } else { ", no checksums" }
}

fn scheme_line(pool: &Pool) -> String {
    let level = if pool.parity == 1 { "RAID5" } else { "RAID6" };
    format!(
        "{}, {level} {}+{}, blocks of {}, replicated area {} %, {} conversion{}",
        pool.scheme,
        pool.width.saturating_sub(u16::from(pool.parity)),
        pool.parity,
        Size(u64::from(pool.block_size)),
        pool.replicated_percent,
        pool.conversion,
        no_checksums(pool),
    )
}

fn space_line(pool: &Pool) -> String {
    let (space, provisioned) = (&pool.space, pool.provisioned());
    let (used, more) = (Size(space.used), Size(space.available));
    let percent = space.percent();
    let thin = if provisioned > space.usable {
        format!("; volumes promise {}", Size(provisioned))
    } else {
        String::new()
    };
    format!("{used} of users' data ({percent} %), {more} more can be written{thin}")
}

/// How far a scrub is, and what it has found.
pub fn scrub(scrub: &Scrub) -> String {
    let found = match (scrub.bad_pages, scrub.repaired_parity, scrub.metadata_repaired) {
        (0, 0, 0) => "nothing wrong".to_owned(),
        (pages, parity, metadata) => format!(
            "{pages} bad pages, {} written again, {} lost; {parity} pages of parity and {metadata} \
             copies of metadata written again",
            scrub.repaired_pages, scrub.lost_pages,
        ),
    };
    let took = format!("after {} s", scrub.seconds);
    match scrub.state.as_str() {
        "never" | "" => "none since the pool was opened".to_owned(),
        "done" => format!("done {took}: {found}"),
        state => format!("{state} {took} at {} %: {found}", scrub.percent()),
    }
}

/// What drives' space is used for.
pub fn drive_space_line(pool: &Pool) -> String {
    let space = &pool.space;
    format!(
        "{} raw: {} replicated, {} RAID, {} in limbo, {} free",
        Size(space.total),
        Size(space.replicated),
        Size(space.raid),
        Size(space.limbo),
        Size(space.free),
    )
}

fn spikes_line(pool: &Pool) -> String {
    let handling = &pool.spike_handling;
    if handling.mode == "off" {
        return "off".to_owned();
    }
    let threshold = handling.threshold_nanos.map(|nanos| format!("after {}", latency::span(nanos)));
    format!(
        "{}; stragglers {}; a spike from {} of them on, until {}",
        handling.mode,
        threshold.as_deref().unwrap_or("learned"),
        handling.enter,
        handling.leave,
    )
}

fn backlog_line(pool: &Pool) -> String {
    let backlog = &pool.backlog;
    format!(
        "{} tuples, {} of them due; {} stripes in limbo; {} to discard; pressure on space {} %",
        backlog.tuples,
        backlog.tuples_due,
        backlog.limbo_stripes,
        Size(backlog.discard_pending_bytes),
        backlog.pressure_permille / 10,
    )
}

fn memory_line(pool: &Pool) -> String {
    let memory = &pool.memory;
    let tables = memory.map_bytes + memory.space_bytes + memory.tuple_bytes;
    format!(
        "{} of tables, {} of {} for {} patches",
        Size(tables),
        Size(memory.patch_bytes),
        Size(memory.patch_budget_bytes),
        memory.patches,
    )
}

fn recovery_line(pool: &Pool) -> String {
    let recovery = &pool.recovery;
    let millis = (recovery.load_nanos + recovery.replay_nanos) / 1_000_000;
    if recovery.clean {
        return format!("after a clean stop, in {millis} ms");
    }
    format!(
        "after a crash, in {millis} ms: {} records replayed, {} verified, {} dropped, {} copies \
         healed",
        recovery.records_replayed,
        recovery.records_verified,
        recovery.records_dropped,
        recovery.copies_healed,
    )
}

fn drives(drives: &[Drive]) -> String {
    let heading = [
        "#",
        "DRIVE",
        "STATE",
        "HEALTH",
        "SPIKES",
        "SIZE",
        "READ",
        "WRITTEN",
        "DISCARDED",
        "READ-ERR",
        "WRITE-ERR",
    ];
    let mut columns = Columns::new(&heading, &[0, 5, 6, 7, 8, 9, 10]);
    for drive in drives {
        let counters = &drive.counters;
        columns.row(vec![
            drive.index.to_string(),
            drive.label(),
            state(drive),
            health(drive),
            spikes(drive),
            Size(drive.size).to_string(),
            Size(counters.read_bytes).to_string(),
            Size(counters.write_bytes).to_string(),
            discarded(drive),
            counters.read_errors.to_string(),
            counters.write_errors.to_string(),
        ]);
    }
    columns.render(2)
}

/// How much it was told to hold nothing of; of a drive that takes no discards that.
fn discarded(drive: &Drive) -> String {
    match (drive.takes_discards, drive.counters.discard_bytes) {
        (Some(false), _) => "takes none".to_owned(),
        (_, 0) => "-".to_owned(),
        (_, bytes) => Size(bytes).to_string(),
    }
}

fn state(drive: &Drive) -> String {
    match (drive.restoring, &drive.replacing) {
        (Some(restoring), _) => format!("{} {} %", drive.state, restoring.percent()),
        (None, Some(replacing)) => format!("{}, copied {} %", drive.state, replacing.percent()),
        (None, None) => drive.state.clone(),
    }
}

/// What the ladder says, what an operator says, and how it is this moment.
fn health(drive: &Drive) -> String {
    if drive.state != "active" {
        return "-".to_owned();
    }
    let decided = match drive.decided.as_str() {
        "automatic" | "" => "",
        decided => &format!(", {decided}"),
    };
    let slow = if drive.slow.is_some() && drive.health != "slow" { ", slow" } else { "" };
    let now = if drive.spikes.unresponsive && drive.slow.is_none() { ", slow now" } else { "" };
    format!("{}{slow}{decided}{now}", drive.health)
}

fn spikes(drive: &Drive) -> String {
    match drive.spikes.spikes {
        0 => "-".to_owned(),
        count => format!("{count} ({})", latency::span(drive.spikes.spike_nanos)),
    }
}

fn pool_volumes(volumes: &[Volume]) -> String {
    if volumes.is_empty() {
        return "  no volumes\n".to_owned();
    }
    let mut columns = Columns::new(&VOLUME_HEADING, &[1, 2, 5]);
    volumes.iter().for_each(|volume| columns.row(volume_row(volume, volume.name.clone())));
    columns.render(2)
}

/// The table of `volume list`: names are those of the exports, POOL/VOL.
pub fn volumes(pools: &[Pool]) -> String {
    if pools.iter().all(|pool| pool.volumes.is_empty()) {
        return "no volumes\n".to_owned();
    }
    let mut columns = Columns::new(&VOLUME_HEADING, &[1, 2, 5]);
    for pool in pools {
        for volume in &pool.volumes {
            columns.row(volume_row(volume, format!("{}/{}", pool.name, volume.name)));
        }
    }
    columns.render(0)
}

const VOLUME_HEADING: [&str; 6] = ["VOLUME", "SIZE", "USED", "SHAPE", "LIMITS", "THROTTLED"];

fn volume_row(volume: &Volume, name: String) -> Vec<String> {
    vec![
        name,
        Size(volume.size).to_string(),
        Size(volume.mapped_bytes).to_string(),
        if volume.width == 0 { "-".to_owned() } else { shape(volume.width, volume.parity) },
        limits(&volume.limits),
        volume.throttled.to_string(),
    ]
}

/// `500 IOPS, 100 MiB/s`, or `-` for none.
pub fn limits(limits: &Limits) -> String {
    let iops = (limits.iops > 0).then(|| format!("{} IOPS", limits.iops));
    let bandwidth = (limits.bytes_per_sec > 0).then(|| format!("{}/s", Size(limits.bytes_per_sec)));
    let parts: Vec<String> = iops.into_iter().chain(bandwidth).collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

/// `5+1`: data blocks and parity blocks of a stripe.
pub fn shape(width: u16, parity: u8) -> String {
    format!("{}+{parity}", width.saturating_sub(u16::from(parity)))
}

fn counters(pool: &Pool) -> String {
    let (counters, backlog) = (&pool.counters, &pool.backlog);
    let mut columns = Columns::new(&["SINCE OPENING", "COUNT", "BYTES"], &[1, 2]);
    let mut row = |name: &str, count: u64, bytes: Option<u64>| {
        let bytes = bytes.map_or("-".to_owned(), |bytes| Size(bytes).to_string());
        columns.row(vec![name.to_owned(), count.to_string(), bytes]);
    };
    if !pool.is_fusion() {
        row("reads", counters.reads, Some(counters.read_bytes));
        row("writes", counters.writes, Some(counters.write_bytes));
        row("  waits for space", counters.space_waits, None);
        row("  refused for want of space", counters.space_refusals, None);
        row("flushes", counters.flushes, None);
        row("discards", counters.trims, None);
        pool.scheme_counters.iter().for_each(|counter| row(&counter.name, counter.count, None));
        return columns.render(2);
    }
    row("reads", counters.reads, Some(counters.read_bytes));
    row("  rebuilt from parity", counters.reconstructed_reads, None);
    row("  redirected", counters.redirected_reads, None);
    row("  hedged", counters.hedged_reads, None);
    row("writes", counters.writes, Some(counters.write_bytes));
    row("  replicated", counters.replicated_writes, None);
    row("  patches", counters.patch_writes, None);
    row("  whole stripes", counters.stripe_writes, None);
    row("  waits for space", counters.space_waits, None);
    row("  refused for want of space", counters.space_refusals, None);
    row("  redirected", counters.redirected_writes, None);
    row("  hedged", counters.hedged_writes, None);
    row("flushes", counters.flushes, None);
    row("  without a drive that hung", counters.spared_flushes, None);
    row("discards", counters.trims, None);
    row("conversions", counters.conversions, None);
    row("stripes compacted", counters.compacted_stripes, Some(counters.relocated_bytes));
    row("blocks merged", counters.merged_blocks, None);
    row("journal blocks", counters.journal_blocks, Some(counters.journal_bytes));
    row("  hedged", counters.hedged_journal_blocks, None);
    row("hedges that were first", counters.hedge_wins, None);
    row("hedges refused by budget", counters.hedges_refused, None);
    row("times many drives were behind", counters.loads, None);
    row("pauses of background work", backlog.pauses, Some(backlog.background_bytes));
    row("checkpoints", counters.checkpoints, Some(counters.checkpoint_bytes));
    columns.render(2)
}

/// The table of `list`.
pub fn list(pools: &[Listed]) -> String {
    if pools.is_empty() {
        return "no pools\n".to_owned();
    }
    let heading = ["POOL", "STATE", "DRIVES", "VOLUMES", "SERVED", "UUID"];
    let mut columns = Columns::new(&heading, &[3]);
    for pool in pools {
        let state = match (pool.state, pool.served || pool.reason.is_some()) {
            (Health::Failed, false) => "incomplete",
            (state, _) => state.name(),
        };
        columns.row(vec![
            pool.name.clone(),
            state.to_owned(),
            format!("{} of {}", pool.drives_present, pool.drives),
            pool.volumes.map_or("?".to_owned(), |count| count.to_string()),
            if pool.served { "yes" } else { "no" }.to_owned(),
            pool.uuid.clone(),
        ]);
    }
    columns.render(0)
}

#[cfg(test)]
mod tests {
    use super::resync_line;

    #[test]
    fn only_what_has_no_marks_is_in_sync() {
        assert_eq!(resync_line(0, 0), "in sync");
        assert_eq!(resync_line(0, 1), "active (1 region being written)");
        assert_eq!(resync_line(0, 12), "active (12 regions being written)");
        assert_eq!(resync_line(812, 1), "resyncing in the background, 812 stripes left");
    }
}
