//! A pool belongs to one host at a time, though several may see its drives.
//!
//! Who opens a pool to write to it writes a claim ([`format::Claim`]) on every drive, once, and a
//! beat beside it again and again. Clocks of hosts need not agree; they have to run about equally
//! fast.
//!
//! ```text
//!           nobody holds it           claims written, and after SETTLE read again
//!  look ──────────────────────────────────────────────────────> held ──> every BEAT: look again,
//!   │ a process of this machine that may be dead,                │       and write the beat
//!   │ or the operator says: take over                            │
//!   ├──> watched for SILENT ──> claims written, and              │ somebody else's claim is there
//!   │         │                 after LAPSE read again ──> held  v
//!   │         v it is alive                                  lost: the fence is shut for good
//!   └─────> refused
//! ```
//! Why two never write at once:
//! * **Starting together** (Fischer's algorithm): who found a drive free has its claim there within
//!   [`limits::SETTLE_BOUND`] or takes the long way; who wrote a claim believes it only if it is
//!   still there after [`limits::SETTLE`], which is longer. So of two, both see the same claims, of
//!   whoever was there last.
//! * **Late writes**: a claim is believed when all writes of it have ended. After that its holder
//!   writes beats only, which tell others that it lives and nothing else.
//! * **Taking over**: a holder's fence ([`io::Fence`]) is passable for [`limits::VALID`] after it
//!   last *began* to look at its claims and found them. Who replaces its claims waits for
//!   [`limits::LAPSE`], which is longer. Whatever stopped the holder (SIGSTOP, a frozen machine, a
//!   network that was gone): it looks before anything passes again. Who dies while it waits leaves
//!   a claim that says so, and the next one waits in its place.
//!
//! What no software on hosts can rule out: a request that the kernel took before and a network
//! delivers later; a virtual machine whose clock stood still with it; hosts that see no drive in
//! common. Drives that take reservations, or a drive server that knows epochs, can.

mod hold;
mod judge;
pub mod limits;
mod take;

pub use hold::Hold;
pub use judge::{Claimant, Verdict, judge};
pub use take::{Refusal, look};
