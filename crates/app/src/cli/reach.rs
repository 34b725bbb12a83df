//! How a verb reaches a pool: through the server that serves it, or through its drives.

use crate::control::ControlArgs;
use crate::drives::name::DriveName;

/// `--control PATH` or `--drives DRIVE|DIR...`.
#[derive(clap::Args, Clone, Debug)]
pub struct Reach {
    #[command(flatten)]
    pub control: ControlArgs,
    /// Reach a pool that is not being served through its drives: block devices, files, or
    /// directories to search
    #[arg(long, value_name = "DRIVE|DIR", num_args = 1.., conflicts_with = "control",
        value_parser = DriveName::parser())]
    pub drives: Vec<DriveName>,
}

impl Reach {
    /// True if the drives are to be opened here, false if the server is to be asked.
    pub fn unserved(&self) -> bool {
        !self.drives.is_empty()
    }
}
