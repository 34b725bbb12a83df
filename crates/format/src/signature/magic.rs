//! Formats told by magic bytes alone: one line each.
//!
//! ```text
//! name, where (from the start, or back from the end), bytes, label (offset, length; 0: none)
//! ```

use super::{Foreign, View};

enum At {
    Start(u64),
    /// This many bytes before the end of the last whole sector.
    End(u64),
}
use At::{End, Start};

type Line = (&'static str, At, &'static [u8], (u64, usize));

const NO_LABEL: (u64, usize) = (0, 0);

const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
const STRATIS: &[u8] = b"!Stra0tis\x86\xff\x02^Arh";

const TABLE: &[Line] = &[
    ("bcache", Start(0x1018), BCACHE, (0x1048, 32)),
    ("bcachefs", Start(0x1018), BCACHEFS, (0x1048, 32)),
    ("Stratis", Start(512 + 4), STRATIS, NO_LABEL),
    ("Stratis", Start(9 * 512 + 4), STRATIS, NO_LABEL),
    ("Ceph BlueStore", Start(0), b"bluestore block device", NO_LABEL),
    ("VDO", Start(0), b"dmvdo001", NO_LABEL),
    ("Intel RAID", End(1024), b"Intel Raid ISM Cfg Sig. ", NO_LABEL),
    ("DDF RAID", End(512), b"\xde\x11\xde\x11", NO_LABEL),
    ("XFS", Start(0), b"XFSB", (108, 12)),
    ("btrfs", Start(0x10040), b"_BHRfS_M", (0x1012b, 256)),
    ("F2FS", Start(1024), b"\x10\x20\xf5\xf2", NO_LABEL),
    ("EROFS", Start(1024), b"\xe2\xe1\xf5\xe0", NO_LABEL),
    ("JFS", Start(0x8000), b"JFS1", NO_LABEL),
    ("ReiserFS", Start(0x10034), b"ReIsErFs", NO_LABEL),
    ("ReiserFS", Start(0x10034), b"ReIsEr2Fs", NO_LABEL),
    ("ReiserFS", Start(0x10034), b"ReIsEr3Fs", NO_LABEL),
    ("APFS", Start(32), b"NXSB", NO_LABEL),
    ("NTFS", Start(3), b"NTFS    ", NO_LABEL),
    ("exFAT", Start(3), b"EXFAT   ", NO_LABEL),
    ("SquashFS", Start(0), b"hsqs", NO_LABEL),
    ("SquashFS", Start(0), b"sqsh", NO_LABEL),
    ("ISO 9660", Start(0x8001), b"CD001", (0x8028, 32)),
    ("UDF", Start(0x8801), b"NSR02", NO_LABEL),
    ("UDF", Start(0x8801), b"NSR03", NO_LABEL),
    ("UDF", Start(0x9001), b"NSR02", NO_LABEL),
    ("UDF", Start(0x9001), b"NSR03", NO_LABEL),
];

pub(super) fn probe(view: &View<'_>, found: &mut Vec<Foreign>) {
    for (what, at, magic, (label, label_len)) in TABLE {
        let offset = match at {
            Start(offset) => *offset,
            End(back) => match (view.size / 512 * 512).checked_sub(*back) {
                Some(offset) => offset,
                None => continue,
            },
        };
        if view.is(offset, magic) {
            found.push(Foreign { what, detail: view.label(*label, *label_len), offset });
        }
    }
}
