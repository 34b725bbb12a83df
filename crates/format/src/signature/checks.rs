//! Formats that take more than magic bytes: several places, weak magic, or a detail worth naming.
//!
//! ```text
//! md 1.1 at 0, 1.2 at 4096, 1.0 at size/4096*4096 - 8192, 0.90 at size/65536*65536 - 65536
//! LUKS at 0, second header at 16 KiB and doublings    LVM2 in sectors 0..4
//! ZFS labels at 0, 256 KiB and the last two 256 KiB, uberblocks in the second half of each
//! DRBD at size - 4096     ext at 1024     swap at the end of the first page     GPT, MBR, FAT at 0
//! ```

use super::{Foreign, View};

const KIB: u64 = 1024;
const MD_MAGIC: u32 = 0xa92b_4efc;
const ZFS_MAGIC: u64 = 0x00ba_b10c;
const ZFS_LABEL: u64 = 256 * KIB;

type Check = fn(&View<'_>) -> Option<Foreign>;

/// In order of how sure and how telling they are.
const CHECKS: &[Check] = &[luks, md_old, md, lvm, zfs, drbd, ext, swap, fat];

pub(super) fn probe(view: &View<'_>, found: &mut Vec<Foreign>) {
    found.extend(CHECKS.iter().filter_map(|check| check(view)));
}

/// Partition tables last: what is in them tells more.
pub(super) fn probe_partitions(view: &View<'_>, found: &mut Vec<Foreign>) {
    found.extend(gpt(view).or_else(|| if fat(view).is_none() { mbr(view) } else { None }));
}

fn foreign(what: &'static str, offset: u64, detail: String) -> Option<Foreign> {
    Some(Foreign { what, detail, offset })
}

fn luks(view: &View<'_>) -> Option<Foreign> {
    if view.is(0, b"LUKS\xba\xbe") {
        let [high, low] = view.array(6)?;
        let uuid = view.text(168, 40).unwrap_or_default();
        return foreign(
            "LUKS",
            0,
            format!("version {}, uuid {uuid}", u16::from(high) << 8 | u16::from(low)),
        );
    }
    let second = (14..23).map(|shift| 1u64 << shift).find(|at| view.is(*at, b"SKUL\xba\xbe"))?;
    foreign("LUKS", second, "second header".to_owned())
}

/// Version 0.90: host-endian, near the end.
fn md_old(view: &View<'_>) -> Option<Foreign> {
    let at = (view.size / (64 * KIB) * (64 * KIB)).checked_sub(64 * KIB)?;
    let magic = view.u32(at)?;
    let word = |offset| {
        let value = view.u32(offset)?;
        Some(if magic == MD_MAGIC { value } else { value.swap_bytes() })
    };
    let known = magic == MD_MAGIC || magic.swap_bytes() == MD_MAGIC;
    if !known || word(at + 4)? != 0 {
        return None;
    }
    foreign("Linux RAID member", at, format!("md version 0.{}", word(at + 8)?))
}

fn md(view: &View<'_>) -> Option<Foreign> {
    let end = (view.size / 4096 * 4096).checked_sub(8 * KIB);
    let places = [(Some(0), "1.1"), (Some(4096), "1.2"), (end, "1.0")];
    places.into_iter().find_map(|(at, version)| {
        let at = at?;
        if view.u32(at)? != MD_MAGIC || view.u32(at + 4)? != 1 {
            return None;
        }
        let name = view.text(at + 32, 32).unwrap_or_default();
        let uuid = view.uuid(at + 16)?;
        foreign("Linux RAID member", at, format!("md version {version}, array '{name}' {uuid}"))
    })
}

fn lvm(view: &View<'_>) -> Option<Foreign> {
    let sector = (0..4).map(|sector| sector * 512);
    let at =
        sector.into_iter().find(|at| view.is(*at, b"LABELONE") && view.is(at + 24, b"LVM2 001"))?;
    let uuid = view.text(at + 32, 32).unwrap_or_default();
    foreign("LVM2 physical volume", at, format!("uuid {uuid}"))
}

fn zfs(view: &View<'_>) -> Option<Foreign> {
    let whole = view.size / ZFS_LABEL * ZFS_LABEL;
    let ends = [whole.checked_sub(2 * ZFS_LABEL), whole.checked_sub(ZFS_LABEL)];
    let labels = [Some(0), Some(ZFS_LABEL), ends[0], ends[1]].into_iter().flatten();
    let mut uberblocks =
        labels.flat_map(|label| (0..128).map(move |slot| label + 128 * KIB + slot * KIB));
    let at = uberblocks.find(|at| {
        view.u64(*at).is_some_and(|magic| magic == ZFS_MAGIC || magic.swap_bytes() == ZFS_MAGIC)
    })?;
    foreign("ZFS", at, "uberblock".to_owned())
}

/// Internal metadata at the very end.
fn drbd(view: &View<'_>) -> Option<Foreign> {
    let at = (view.size / 512 * 512).checked_sub(4096)? + 60;
    let detail = match view.array(at)? {
        [0x83, 0x74, 0x02, 0x6b | 0x6c] => "metadata version 8",
        [0x83, 0x74, 0x02, 0x6d] => "metadata version 9",
        _ => return None,
    };
    foreign("DRBD", at, detail.to_owned())
}

fn ext(view: &View<'_>) -> Option<Foreign> {
    const JOURNAL: u32 = 0x4;
    const JOURNAL_DEVICE: u32 = 0x8;
    /// What ext2 and ext3 know: filetype, recover, journal device, meta_bg.
    const OLD_INCOMPAT: u32 = 0x1e;
    /// Sparse superblocks, large files, btree directories.
    const OLD_RO: u32 = 0x7;
    let at = 1024;
    // The magic is two bytes: block size (1 to 64 KiB) and a block count must make sense too.
    if view.u16(at + 56)? != 0xef53 || view.u32(at + 24)? > 6 || view.u32(at + 4)? == 0 {
        return None;
    }
    let (compat, incompat, ro) = (view.u32(at + 92)?, view.u32(at + 96)?, view.u32(at + 100)?);
    let what = if incompat & JOURNAL_DEVICE != 0 {
        "ext journal device"
    } else if incompat & !OLD_INCOMPAT != 0 || ro & !OLD_RO != 0 {
        "ext4"
    } else if compat & JOURNAL != 0 {
        "ext3"
    } else {
        "ext2"
    };
    foreign(what, at + 56, view.label(at + 120, 16))
}

fn swap(view: &View<'_>) -> Option<Foreign> {
    const MAGIC: [&[u8]; 2] = [b"SWAPSPACE2", b"SWAP-SPACE"];
    const SLEEPING: [&[u8]; 4] = [b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001"];
    let mut pages = (12..17).map(|shift| (1u64 << shift) - 10);
    pages.find_map(|at| {
        if MAGIC.iter().any(|magic| view.is(at, magic)) {
            foreign("Linux swap", at, view.label(1024 + 28, 16))
        } else if SLEEPING.iter().any(|magic| view.is(at, magic)) {
            foreign("Linux swap", at, "holds a hibernated system".to_owned())
        } else {
            None
        }
    })
}

/// A boot sector whose parameters make sense; the name in it is only a comment.
fn fat(view: &View<'_>) -> Option<Foreign> {
    let jump = matches!(view.array(0)?, [0xeb, _, 0x90] | [0xe9, _, _]);
    let sector = view.u16(11)?;
    let sane = (512..=4096).contains(&sector)
        && sector.is_power_of_two()
        && view.u8(13)?.is_power_of_two()
        && view.u16(14)? != 0
        && matches!(view.u8(16)?, 1 | 2)
        && view.u8(21)? >= 0xf0;
    if !(jump && sane && view.is(510, &[0x55, 0xaa])) {
        return None;
    }
    let label = if view.is(82, b"FAT32   ") { view.label(71, 11) } else { view.label(43, 11) };
    foreign("FAT", 510, label)
}

fn gpt(view: &View<'_>) -> Option<Foreign> {
    let end = [view.size.checked_sub(512), view.size.checked_sub(4096)];
    let mut places = [Some(512), Some(4096), end[0], end[1]].into_iter().flatten();
    let at = places.find(|at| view.is(*at, b"EFI PART"))?;
    let detail = if at <= 4096 { "" } else { "second header" };
    foreign("GPT partition table", at, detail.to_owned())
}

fn mbr(view: &View<'_>) -> Option<Foreign> {
    if !view.is(510, &[0x55, 0xaa]) {
        return None;
    }
    let mut kinds = Vec::new();
    for entry in (0..4).map(|entry| 446 + entry * 16) {
        let (flag, kind) = (view.u8(entry)?, view.u8(entry + 4)?);
        if flag & 0x7f != 0 {
            return None; // boot code of something else, not a table
        }
        if kind != 0 && view.u32(entry + 8)? != 0 && view.u32(entry + 12)? != 0 {
            kinds.push(format!("{kind:02x}"));
        }
    }
    if kinds.is_empty() {
        return None;
    }
    foreign("MBR partition table", 510, format!("types {}", kinds.join(" ")))
}
