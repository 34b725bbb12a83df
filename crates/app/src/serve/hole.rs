//! Whether schemes that write in place guard against the write hole.

use clap::ValueEnum;
use classical::WriteHole;
use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HoleMode {
    /// Partial parity is logged before a stripe is written: no crash harms what was not written
    Closed,
    /// Only intents, as md does by default: faster, and a crash together with the loss of a drive
    /// may harm what was not being written. To compare
    Open,
}

impl From<HoleMode> for WriteHole {
    fn from(mode: HoleMode) -> WriteHole {
        match mode {
            HoleMode::Closed => WriteHole::Closed,
            HoleMode::Open => WriteHole::Open,
        }
    }
}
