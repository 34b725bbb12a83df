//! Labels, and the signatures of others.
//!
//! First byte 0: a label as it is, but for its checksum; 1: also its length is made right; 3: pages
//! of claims; else a drive, blank but for pieces of 24 bits of offset, 8 of length, and so many
//! bytes.

use format::{Claim, LABEL_LEN, PAGE, Seen, Superblock, newest, own_label, probe_all};

use crate::{put, samples, with_kind};

const AT_COPY: usize = 10;
const AT_CRC: usize = 12;
const AT_LEN: usize = 16;
const MAGIC: &[u8] = b"STDYRAID";
/// As much as is read of the ends of a drive.
const DRIVE: usize = 2 << 20;

pub fn run(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        None => false,
        Some((&kind @ 0..=1, label)) => check(&sealed(label, kind == 1)),
        Some((3, pages)) => claims(pages),
        Some((_, pieces)) => signatures(pieces),
    }
}

/// Pages of claims, with a checksum that is right.
fn claims(bytes: &[u8]) -> bool {
    let mut pages = bytes[..bytes.len().min(2 * PAGE)].to_vec();
    pages.resize(2 * PAGE, 0);
    for page in pages.chunks_mut(PAGE) {
        put(page, 0, b"STDYHOST");
        let crc = crc32c::crc32c(&page[..AT_CRC]);
        let crc = crc32c::crc32c_append(crc, &page[AT_LEN..]);
        put(page, AT_CRC, &crc.to_le_bytes());
    }
    let Ok(Some(Seen { claim, .. })) = Seen::of_pages(&pages) else { return false };
    assert_eq!(Claim::decode(&claim.encode()), Ok(claim));
    true
}

fn sealed(bytes: &[u8], with_length: bool) -> Vec<u8> {
    let mut label = bytes[..bytes.len().min(LABEL_LEN)].to_vec();
    let used = label.len() as u32;
    label.resize(LABEL_LEN, 0);
    put(&mut label, 0, MAGIC);
    if with_length {
        put(&mut label, AT_LEN, &used.to_le_bytes());
    }
    let crc = crc32c::crc32c(&label[..AT_COPY]);
    let crc = crc32c::crc32c_append(crc, &label[AT_COPY + 1..AT_CRC]);
    let crc = crc32c::crc32c_append(crc, &label[AT_LEN..]);
    put(&mut label, AT_CRC, &crc.to_le_bytes());
    label
}

fn check(label: &[u8]) -> bool {
    let decoded = Superblock::decode(label);
    if let Err(error) = &decoded {
        assert!(!error.to_string().is_empty());
    }
    let known = Superblock::decode(&samples::label().encode(0));
    let _ = newest([decoded.clone(), known, decoded.clone()].into_iter());
    let Ok((read, copy)) = decoded else { return false };
    assert_eq!(Superblock::decode(&read.encode(copy)), Ok((read.clone(), copy)));
    for index in 0..read.members.len() {
        assert!(read.zones_of(index) <= read.zone_count);
    }
    true
}

fn signatures(mut pieces: &[u8]) -> bool {
    let mut drive = vec![0; DRIVE];
    while let Some(([a, b, c, len], rest)) = pieces.split_first_chunk() {
        let at = u32::from_le_bytes([*a, *b, *c, 0]) as usize % DRIVE;
        let len = usize::from(*len).min(rest.len()).min(DRIVE - at);
        put(&mut drive, at, &rest[..len]);
        pieces = &rest[len..];
    }
    let mut found = 0;
    for size in [DRIVE as u64, 1 << 40, u64::MAX] {
        for foreign in probe_all(&drive, &drive, size) {
            assert!(foreign.to_string().contains(foreign.what));
            found += 1;
        }
        found += usize::from(own_label(&drive, &drive, size).is_some());
    }
    found > 0
}

fn piece(at: u32, bytes: &[u8]) -> Vec<u8> {
    [&at.to_le_bytes()[..3], &[bytes.len() as u8], bytes].concat()
}

pub fn seeds() -> Vec<Vec<u8>> {
    let labels = [samples::label(), samples::spare_label(), samples::listed_label()];
    let mut all = Vec::new();
    for label in labels {
        let bytes = label.encode(2);
        let used = u32::from_le_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]) as usize;
        all.push(with_kind(0, &bytes[..used]));
        all.push(with_kind(1, &bytes[..used]));
    }
    let claim = samples::claim();
    all.push(with_kind(3, &[claim.encode(), claim.encode()].concat()));
    let mut gpt = piece(510, b"\x55\xaa");
    gpt.extend(piece(446, b"\0\0\0\0\xee\0\0\0\x01\0\0\0\xff\xff\0\0"));
    gpt.extend(piece(512, b"EFI PART\0\0\x01\0\x5c\0\0\0"));
    let pieces = [
        [piece(1028, b"\x09"), piece(1080, b"\x53\xef"), piece(1116, b"\x04")].concat(),
        piece(0, b"XFSB\0\0\x10\0"),
        piece(65600, b"_BHRfS_M"),
        piece(512, b"LABELONE\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0LVM2 001"),
        piece(4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
        piece(4086, b"SWAPSPACE2"),
        piece(0, b"LUKS\xba\xbe\0\x02"),
        piece(64 << 10, b"STDYRAID\x01\0"),
        gpt,
    ];
    all.extend(pieces.iter().map(|piece| with_kind(2, piece)));
    all
}
