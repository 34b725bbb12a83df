//! The claim: which host has a drive's pool open, and whether it is still alive.
//!
//! Two pages of the same form lie in the first label area of every drive. The *claim*, at 256 KiB,
//! is written once, by whoever opens the pool. The *beat*, at 260 KiB, is written again and again
//! by who has the pool open; it counts only with the claim's session. So nothing that a holder
//! writes late can undo the claim of who came after it.
//!
//! ```text
//!        0        1        2        3        4        5        6        7
//!   0 | magic "STDYHOST"                                                      |
//!   8 | version         | state  | n      | crc32c                            |
//!  16 | session (16)                                                          |
//!  32 | host (16)                                                             |
//!  48 | boot (16)                                                             |
//!  64 | process                           | 0                                 |
//!  72 | its namespace of processes                                            |
//!  80 | when it started, ticks of the kernel since it booted                  |
//!  88 | beat                                                                  |
//!  96 | time of the beat, seconds since 1970                                  |
//! 104 | name of the host, n bytes of 64, then zero up to 4096                 |
//! ```
//! Everything lies in the first sector, which no drive tears. The checksum covers everything but
//! itself.

use crate::VERSION;
use crate::cursor::{Reader, Writer, put_u32};
use crate::drive::{check_crc, check_magic, check_version};
use crate::error::{FormatError, check};
use crate::ids::{PAGE, Uuid};

pub const CLAIM_MAGIC: [u8; 8] = *b"STDYHOST";
/// Where the claim lies on a drive, and behind it the beat.
pub const CLAIM_AT: u64 = 256 << 10;
pub const BEAT_AT: u64 = CLAIM_AT + PAGE as u64;
/// Bytes of both.
pub const CLAIM_LEN: usize = 2 * PAGE;
/// Longest name of a host that is kept, in bytes; longer ones are cut (Linux allows 64).
pub const HOST_NAME_MAX: usize = 64;

const AT_CRC: usize = 12;
const AFTER_CRC: usize = 16;

/// A process on a host that may hold drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The machine: stays over a reboot.
    pub host: Uuid,
    /// Of the machine's running: another one after a reboot.
    pub boot: Uuid,
    pub process: u32,
    /// In which numbers of processes mean something.
    pub namespace: u64,
    /// Tells it from a later process of the same number.
    pub started: u64,
    /// For people.
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ClaimState {
    Held = 1,
    Released = 2,
    /// Written over claims of others, who may not have noticed yet.
    Taking = 3,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub state: ClaimState,
    /// Of one opening of a pool: no two have the same.
    pub session: Uuid,
    pub holder: Holder,
    /// One more with each writing.
    pub beat: u64,
    /// When that was, by the holder's clock.
    pub seen_secs: u64,
}

/// What both pages of a drive say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// As the last beat of its session has it.
    pub claim: Claim,
    /// Whose beat lies beside a claim that has shown none itself: who may have had the drive when
    /// it was claimed, and had not let it go.
    pub displaced: Option<Holder>,
}

impl Seen {
    /// `None` if nobody's claim is there.
    pub fn of_pages(pages: &[u8]) -> Result<Option<Seen>, FormatError> {
        let claim = match Claim::decode(pages) {
            Err(FormatError::BadMagic) => return Ok(None),
            claim => claim?,
        };
        let beat = pages.get(PAGE..).and_then(|page| Claim::decode(page).ok());
        Ok(Some(match beat {
            Some(beat) if beat.session == claim.session => Seen { claim: beat, displaced: None },
            beat => {
                let open = beat.filter(|beat| beat.state != ClaimState::Released);
                Seen { claim, displaced: open.map(|beat| beat.holder) }
            }
        }))
    }
}

fn claim_crc(page: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&page[..AT_CRC]), &page[AFTER_CRC..PAGE])
}

/// As much of a name as fits.
fn cut(name: &str) -> &str {
    let mut len = name.len().min(HOST_NAME_MAX);
    while !name.is_char_boundary(len) {
        len -= 1;
    }
    &name[..len]
}

impl Claim {
    /// A page.
    pub fn encode(&self) -> Vec<u8> {
        let Holder { host, boot, process, namespace, started, name } = &self.holder;
        let name = cut(name);
        let mut page = Vec::with_capacity(PAGE);
        let mut w = Writer(&mut page);
        w.bytes(&CLAIM_MAGIC);
        w.u16(VERSION);
        w.u8(self.state as u8);
        w.u8(name.len() as u8);
        w.zeros(4); // checksum, below
        [&self.session, host, boot].into_iter().for_each(|uuid| w.uuid(uuid));
        w.u32(*process);
        w.zeros(4);
        let numbers = [*namespace, *started, self.beat, self.seen_secs];
        numbers.into_iter().for_each(|number| w.u64(number));
        w.bytes(name.as_bytes());
        page.resize(PAGE, 0);
        let crc = claim_crc(&page);
        put_u32(&mut page, AT_CRC, crc);
        page
    }

    pub fn decode(page: &[u8]) -> Result<Claim, FormatError> {
        let page = page.get(..PAGE).ok_or(FormatError::Truncated)?;
        let mut r = Reader::new(page);
        check_magic(&mut r, &CLAIM_MAGIC)?;
        let version = r.u16()?;
        let (state, len) = (r.u8()?, usize::from(r.u8()?));
        check_crc(claim_crc(page), r.u32()?)?;
        check_version(version)?;
        let state = match state {
            1 => ClaimState::Held,
            2 => ClaimState::Released,
            3 => ClaimState::Taking,
            _ => return Err(FormatError::Invalid { field: "claim's state", value: state.into() }),
        };
        let (session, host, boot) = (r.uuid()?, r.uuid()?, r.uuid()?);
        let process = r.u32()?;
        r.zeros(4)?;
        let (namespace, started, beat, seen_secs) = (r.u64()?, r.u64()?, r.u64()?, r.u64()?);
        check(len <= HOST_NAME_MAX, "length of a host's name", len as u64)?;
        // What is no text gets longer by being made one.
        let name = cut(&String::from_utf8_lossy(r.take(len)?)).to_owned();
        let holder = Holder { host, boot, process, namespace, started, name };
        Ok(Claim { state, session, holder, beat, seen_secs })
    }
}
