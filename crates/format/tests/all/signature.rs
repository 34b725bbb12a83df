//! Foreign signatures: hand-made bytes for each format, and real tools where they are installed.

use crate::samples;
use format::signature::probe_all;
use format::*;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const SIZE: u64 = 8 * MIB;

/// A blank drive with bytes at places.
fn drive(size: u64, writes: &[(u64, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; size as usize];
    for (at, data) in writes {
        bytes[*at as usize..][..data.len()].copy_from_slice(data);
    }
    bytes
}

fn found(drive: &[u8]) -> Vec<Foreign> {
    let size = drive.len();
    let edge = size.min(MIB as usize);
    probe_all(&drive[..edge], &drive[size - edge..], size as u64)
}

/// The one signature there is.
fn only(size: u64, writes: &[(u64, &[u8])]) -> (&'static str, String, u64) {
    let found = found(&drive(size, writes));
    assert_eq!(found.len(), 1, "{found:?}");
    (found[0].what, found[0].detail.clone(), found[0].offset)
}

fn one(writes: &[(u64, &[u8])]) -> (&'static str, String, u64) {
    only(SIZE, writes)
}

fn is(what: &'static str, detail: &str, at: u64) -> (&'static str, String, u64) {
    (what, detail.to_owned(), at)
}

#[test]
fn blank_and_tiny_drives_have_none() {
    for size in [0, 1, 511, 512, 4096, 65536, MIB, SIZE, SIZE + 511] {
        assert_eq!(found(&drive(size, &[])), [], "{size}");
    }
}

#[test]
fn ext_family() {
    let ext = |compat: u8, incompat: u8, ro: u8| {
        let flags = [compat, 0, 0, 0, incompat, 0, 0, 0, ro];
        one(&[(1028, &[9]), (1024 + 56, &[0x53, 0xef]), (1024 + 92, &flags), (1024 + 120, b"root")])
    };
    assert_eq!(ext(0, 2, 3), is("ext2", "label 'root'", 1080));
    assert_eq!(ext(4, 2, 3).0, "ext3");
    assert_eq!(ext(4, 0x42, 3).0, "ext4");
    assert_eq!(ext(4, 2, 0x10).0, "ext4");
    assert_eq!(ext(0, 8, 0).0, "ext journal device");
    assert_eq!(found(&drive(SIZE, &[(1080, &[0x53, 0xef])])), [], "two bytes alone are no ext");
}

#[test]
fn filesystems_by_magic() {
    assert_eq!(one(&[(0, b"XFSB"), (108, b"data")]), is("XFS", "label 'data'", 0));
    assert_eq!(one(&[(0x10040, b"_BHRfS_M"), (0x1012b, b"b")]), is("btrfs", "label 'b'", 0x10040));
    assert_eq!(one(&[(0, b"hsqs")]), is("SquashFS", "", 0));
    assert_eq!(
        one(&[(32769, b"CD001"), (32808, b"DISC  ")]),
        is("ISO 9660", "label 'DISC'", 32769)
    );
    assert_eq!(one(&[(3, b"NTFS    "), (510, &[0x55, 0xaa])]).0, "NTFS");
    assert_eq!(one(&[(1024, &0xf2f5_2010u32.to_le_bytes())]).0, "F2FS");
    let bcache = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
    assert_eq!(one(&[(4096 + 24, bcache)]), is("bcache", "", 4120));
    let bcachefs = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
    assert_eq!(one(&[(4096 + 24, bcachefs), (4168, b"x")]), is("bcachefs", "label 'x'", 4120));
}

#[test]
fn fat_is_no_partition_table() {
    let boot: &[u8] = &[0xeb, 0x58, 0x90, b'm', b'k', b'd', b'o', b's', b'f', b's', 0];
    let params: &[u8] = &[0, 2, 8, 32, 0, 2, 0, 0, 0, 0, 0xf8];
    let boot = [boot, params].concat();
    let name: &[u8] = b"STICK      FAT32   ";
    let all: &[(u64, &[u8])] = &[(0, &boot), (71, name), (510, &[0x55, 0xaa])];
    // The first sector's parameters begin at byte 11.
    assert_eq!(
        one(&[(0, &boot[..11]), (11, params), all[1], all[2]]),
        is("FAT", "label 'STICK'", 510)
    );
}

#[test]
fn swap_of_any_page_size() {
    for page in [4096u64, 8192, 16384, 65536] {
        assert_eq!(one(&[(page - 10, b"SWAPSPACE2")]), is("Linux swap", "", page - 10));
    }
    assert_eq!(one(&[(4086, b"S1SUSPEND")]).1, "holds a hibernated system");
}

#[test]
fn partition_tables() {
    let entry = [0x80, 1, 1, 0, 0x83, 9, 9, 9, 0, 8, 0, 0, 0, 8, 0, 0];
    let table: &[(u64, &[u8])] = &[(446, &entry), (510, &[0x55, 0xaa])];
    assert_eq!(one(table), is("MBR partition table", "types 83", 510));
    assert_eq!(found(&drive(SIZE, &[(510, &[0x55, 0xaa])])), [], "an empty table");
    let odd = drive(SIZE, &[(446, &[7]), (462, &entry), (510, &[0x55, 0xaa])]);
    assert_eq!(found(&odd), [], "boot code, not a table");

    assert_eq!(one(&[(512, b"EFI PART")]), is("GPT partition table", "", 512));
    assert_eq!(one(&[(4096, b"EFI PART")]).2, 4096);
    assert_eq!(
        one(&[(SIZE - 512, b"EFI PART")]),
        is("GPT partition table", "second header", SIZE - 512)
    );
    assert_eq!(one(&[(SIZE - 4096, b"EFI PART")]).2, SIZE - 4096);
}

#[test]
fn md_of_all_versions() {
    let magic = 0xa92b_4efcu32.to_le_bytes();
    let new: &[u8] = &[magic, 1u32.to_le_bytes()].concat();
    for (size, at, version) in [
        (SIZE, 0, "1.1"),
        (SIZE, 4096, "1.2"),
        (SIZE, SIZE - 8192, "1.0"),
        (SIZE + 4095, SIZE - 8192, "1.0"),
        (SIZE + 4096, SIZE - 4096, "1.0"),
    ] {
        let (what, detail, offset) = only(size, &[(at, new), (at + 32, b"host:0")]);
        assert_eq!((what, offset), ("Linux RAID member", at));
        assert!(detail.contains(&format!("version {version}, array 'host:0'")), "{detail}");
    }
    let old: &[u8] = &[magic, [0; 4], 90u32.to_le_bytes()].concat();
    let swapped: Vec<u8> = old.chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
    for (size, at) in [(SIZE, SIZE - 65536), (SIZE + 65535, SIZE - 65536)] {
        for bytes in [old, &swapped] {
            assert_eq!(only(size, &[(at, bytes)]), is("Linux RAID member", "md version 0.90", at));
        }
    }
}

#[test]
fn layers() {
    for sector in 0..4 {
        let at = sector * 512;
        let label: &[(u64, &[u8])] =
            &[(at, b"LABELONE"), (at + 24, b"LVM2 001"), (at + 32, b"abc")];
        assert_eq!(one(label), is("LVM2 physical volume", "uuid abc", at));
    }
    let luks: &[(u64, &[u8])] = &[(0, b"LUKS\xba\xbe\0\x02"), (168, b"1234-5")];
    assert_eq!(one(luks), is("LUKS", "version 2, uuid 1234-5", 0));
    assert_eq!(one(&[(0x4000, b"SKUL\xba\xbe")]), is("LUKS", "second header", 0x4000));
    let drbd: &[u8] = &[0x83, 0x74, 0x02, 0x6b];
    assert_eq!(one(&[(SIZE - 4096 + 60, drbd)]).0, "DRBD");
    let intel: &[u8] = b"Intel Raid ISM Cfg Sig. 1.3";
    assert_eq!(one(&[(SIZE - 1024, intel)]).0, "Intel RAID");
}

#[test]
fn zfs_in_each_label() {
    let magic = 0x00ba_b10cu64.to_le_bytes();
    let label = 256 * KIB;
    for start in [0, label, SIZE - 2 * label, SIZE - label] {
        let at = start + 128 * KIB + 5 * KIB;
        assert_eq!(one(&[(at, &magic)]), is("ZFS", "uberblock", at));
    }
}

#[test]
fn several_are_all_named_and_the_telling_one_first() {
    let writes: &[(u64, &[u8])] =
        &[(512, b"EFI PART"), (0, b"LUKS\xba\xbe\0\x01"), (4086, b"SWAPSPACE2")];
    let drive = drive(SIZE, writes);
    let names: Vec<_> = found(&drive).iter().map(|foreign| foreign.what).collect();
    assert_eq!(names, ["LUKS", "Linux swap", "GPT partition table"]);
    assert_eq!(probe(&drive, &drive, SIZE).unwrap().what, "LUKS");
    assert_eq!(found(&drive)[1].to_string(), "Linux swap at byte 4086");
}

#[test]
fn our_labels_are_ours() {
    let label = Superblock { drive_size: 64 * MIB, ..samples::label() };
    for (copy, at) in label_offsets(SIZE).into_iter().enumerate() {
        let mut bytes = drive(SIZE, &[(at, &label.encode(copy as u8))]);
        assert_eq!(found(&bytes), [], "not foreign");
        let own = own_label(&bytes, &bytes, SIZE).unwrap();
        assert_eq!((own.pool, own.offset), (Some(label.pool), at));
        assert_eq!(own.detail, "pool 'tank-0.main_pool', generation 287454020");
        bytes[at as usize + 100] ^= 1;
        let own = own_label(&bytes, &bytes, SIZE).unwrap();
        assert_eq!((own.pool, own.offset), (None, at));
        assert!(own.detail.starts_with("damaged"), "{}", own.detail);
    }
    assert_eq!(own_label(&drive(SIZE, &[]), &[], SIZE), None);
}

/// The first pages of what mkfs and mkswap (e2fsprogs 1.47, util-linux 2.38) made of 16 MiB.
#[test]
fn made_by_real_tools() {
    for (text, what) in [
        (include_str!("foreign/ext2.txt"), "ext2"),
        (include_str!("foreign/ext3.txt"), "ext3"),
        (include_str!("foreign/ext4.txt"), "ext4"),
        (include_str!("foreign/swap.txt"), "Linux swap"),
    ] {
        let found = found(&undump(text));
        assert_eq!(found.len(), 1, "{what}: {found:?}");
        assert_eq!((found[0].what, found[0].detail.as_str()), (what, "label 'name'"));
    }
}

/// The bytes of a text as golden files are: a size, then rows of 16 bytes in hex, zeroes left out.
fn undump(text: &str) -> Vec<u8> {
    let mut lines = text.lines();
    let size = lines.next().unwrap().strip_suffix(" bytes").unwrap();
    let mut bytes = vec![0; size.parse().unwrap()];
    for line in lines {
        let (at, row) = line.split_once(':').unwrap();
        let at = usize::from_str_radix(at.trim(), 16).unwrap();
        for (place, byte) in row.split_whitespace().enumerate() {
            bytes[at + place] = u8::from_str_radix(byte, 16).unwrap();
        }
    }
    bytes
}
