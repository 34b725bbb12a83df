//! Answers that must never change, because pools on disk were laid out by them.
//!
//! A failure here isn't mended by editing the numbers: an algorithm that gives other answers is a
//! new kind of layout and needs its own mark on disk.

use layout::pairing::NO_POSITION;
use layout::{DriveIndex, Layout, LayoutKind, choose_stripes, match_slots};

/// Drives, width, digest.
const MOLS: [(usize, usize, u32); 15] = [
    (3, 3, 0x1049d226),
    (4, 3, 0xddba05b2),
    (5, 4, 0x596c5104),
    (7, 7, 0xf38298a6),
    (8, 5, 0xcf7a3924),
    (9, 6, 0x0163fa62),
    (16, 10, 0x5cef103d),
    (25, 8, 0x12cabc7a),
    (27, 12, 0xf9ca97dd),
    (29, 7, 0x204d1879),
    (64, 8, 0xf2f5ff97),
    (125, 10, 0x2c47b5c2),
    (243, 12, 0xb46a6d8f),
    (251, 20, 0x818c9e8b),
    (256, 256, 0xaa21e6e5),
];

const PERMUTED: [(usize, usize, u32); 21] = [
    (6, 3, 0xd8ac999a),
    (6, 4, 0x90620b62),
    (6, 6, 0x5f1d84df),
    (10, 4, 0xe8aa7513),
    (10, 7, 0x19a9b425),
    (12, 6, 0x475a0dd2),
    (12, 11, 0x7156cb8b),
    (14, 7, 0x9c46204b),
    (15, 8, 0x0d7babf6),
    (18, 9, 0x2b57de8a),
    (20, 8, 0xd82cb870),
    (24, 8, 0x471c5b52),
    (24, 20, 0x2dbf4868),
    (28, 7, 0xdd5843de),
    (30, 8, 0x1eeed6bc),
    (33, 10, 0x869517f0),
    (36, 12, 0xcf20b68c),
    (48, 12, 0x28141ad0),
    (60, 10, 0x5526c8df),
    (100, 20, 0x0a36070c),
    (255, 16, 0x94258010),
];

#[test]
fn digests_are_frozen() {
    for (kind, table) in [(LayoutKind::Mols, &MOLS[..]), (LayoutKind::Permuted, &PERMUTED)] {
        for (drives, width, digest) in table {
            let layout = Layout::new(*drives, *width).unwrap();
            assert_eq!(layout.kind(), kind, "{layout:?}");
            assert_eq!(layout.digest(), *digest, "{layout:?}: pools on disk depend on it");
        }
    }
}

#[test]
fn first_stripes_are_frozen() {
    let drives = |n, w, stripe| -> Vec<u16> {
        Layout::new(n, w).unwrap().drives_of(stripe).map(|d| d.0).collect()
    };
    assert_eq!(drives(7, 4, 0), [0, 1, 2, 3]);
    assert_eq!(drives(7, 4, 8), [1, 3, 5, 0]);
    assert_eq!(drives(9, 4, 28), [1, 5, 6, 3]);
    assert_eq!(drives(8, 4, 17), [1, 2, 7, 4]);
}

fn stripe(drives: &[u16]) -> Vec<DriveIndex> {
    drives.iter().copied().map(DriveIndex).collect()
}

/// FusionRAID's example: two stripes that share A, B and C give A-B, B-C, C-A.
#[test]
fn common_drives_are_cycled() {
    let (a, b) = (stripe(&[1, 2, 3, 9]), stripe(&[3, 7, 2, 1]));
    let slots = match_slots(&[&a, &b]).unwrap();
    let n = NO_POSITION;
    assert_eq!(slots, [[0, 2, n], [1, 0, n], [2, 3, n], [3, 1, n]]);
}

#[test]
fn a_single_common_drive_trades_places() {
    let (a, b) = (stripe(&[1, 2, 3]), stripe(&[4, 2, 5]));
    let n = NO_POSITION;
    assert_eq!(match_slots(&[&a, &b]).unwrap(), [[0, 1, n], [1, 0, n], [2, 2, n]]);
}

#[test]
fn three_stripes_are_frozen() {
    let (a, b, c) = (stripe(&[1, 2, 3, 4]), stripe(&[4, 1, 6, 7]), stripe(&[2, 4, 1, 8]));
    let slots = match_slots(&[&a, &b, &c]).unwrap();
    assert_eq!(slots, [[0, 0, 0], [1, 2, 1], [2, 3, 2], [3, 1, 3]]);
}

#[test]
fn choices_are_frozen() {
    let layout = Layout::new(24, 8).unwrap();
    let candidates: Vec<Vec<DriveIndex>> =
        [3, 77, 150, 200, 411, 500].iter().map(|s| layout.drives_of(*s).collect()).collect();
    assert_eq!(choose_stripes(&candidates[..4], 2, 7), Some(vec![0, 1]));
    assert_eq!(choose_stripes(&candidates, 3, 6), Some(vec![0, 1, 3]));
}
