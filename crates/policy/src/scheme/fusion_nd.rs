//! `fusion-nd`: `fusion` that does nothing about slow drives (FusionRAID §5.3, Fusion-ND).
//!
//! Idea: the same pool as `fusion`, byte for byte but for its scheme's number, served with
//! `--spikes watch` unless `serve` is told otherwise: stragglers are counted and shown, and no
//! request is led round a slow drive or sent again. It shows what detection is worth.
//!
//! ```text
//!   write of one block (w = 4, p = 1), drive 2 in a spike
//!   stripe A  [ data ][    ][ slow ][parity?]     a copy goes to the slow drive like to any
//!   stripe B  [    ][    ][ data ][   -   ]       other; the write waits for it
//! ```
//!
//! Durable at acknowledgement (FUA or after FLUSH): as `fusion`.
//! One failure: as `fusion`. Two failures: with p = 2.
//! Device writes per user write: as `fusion` while no drive is slow; never more.
//! Source: Jiang et al., FusionRAID, FAST '21, §5.3.
