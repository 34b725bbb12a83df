//! The names of what is compared.

use std::fmt;
use std::str::FromStr;

use classical::WriteHole;
use engine::SpikeHandling;
use schemes::scheme::Scheme;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// As it comes.
    Fusion,
    /// Detection and redirection as in FusionRAID §4.3, nothing more.
    FusionPaper,
    /// Spikes are seen and nothing is done (FusionRAID's Fusion-ND).
    FusionNd,
    /// Any other scheme, as the product serves it (closed), or with the write hole open as md
    /// leaves it by default (`raid5-open`).
    Scheme(Scheme, WriteHole),
    /// `steering`, told by the drives' models when they collect: the paper assumes that the drives
    /// tell. By the product's own signal, and with the write hole closed, it is `steering-watch`.
    SteeringOracle,
    /// The same with D_Table in memory that outlives power cuts (Wu et al. §III.B).
    SteeringNvram,
    /// `raid5` whose drives collect each for itself (Wu et al. §IV: LGC).
    GcLocal,
    /// `raid5` whose drives all collect when one does (Kim et al.; Wu et al. §IV: GGC).
    GcGlobal,
    /// One of the drives by itself.
    Single,
    /// `raid50` behind a write buffer that outlives power cuts (FusionRAID §5.3).
    NvRaid,
}

const OPEN: &str = "-open";

impl System {
    pub const RAID5: System = System::Scheme(Scheme::Raid5, WriteHole::Closed);
    pub const RAID5_OPEN: System = System::Scheme(Scheme::Raid5, WriteHole::Open);
    pub const RAID50: System = System::Scheme(Scheme::Raid50, WriteHole::Closed);
    pub const RAID10: System = System::Scheme(Scheme::Raid10, WriteHole::Closed);

    /// What experiments with slow drives compare unless told otherwise.
    pub const USUAL: [System; 5] =
        [System::Fusion, System::FusionPaper, System::FusionNd, System::RAID5, System::RAID10];

    /// Everything but the variants with an open write hole, of which there is one of `raid5`.
    pub fn all() -> Vec<System> {
        let mut all = vec![System::Fusion, System::FusionPaper, System::FusionNd];
        all.extend(Scheme::ALL.map(|scheme| System::Scheme(scheme, WriteHole::Closed)));
        all.push(System::RAID5_OPEN);
        all.extend([System::SteeringOracle, System::SteeringNvram]);
        all.extend([System::GcLocal, System::GcGlobal, System::NvRaid]);
        all.push(System::Single);
        all
    }

    /// How a pool handles spikes; `None` for what isn't a pool of the engine's.
    pub fn spikes(self) -> Option<SpikeHandling> {
        match self {
            System::Fusion => Some(SpikeHandling::default()),
            System::FusionNd => Some(SpikeHandling::WATCH),
            System::FusionPaper => Some(SpikeHandling::PAPER),
            _ => None,
        }
    }

    /// The scheme it is made of.
    pub fn scheme(self) -> Option<Scheme> {
        match self {
            System::Fusion | System::FusionNd | System::FusionPaper | System::Single => None,
            System::Scheme(scheme, _) => Some(scheme),
            System::SteeringOracle | System::SteeringNvram => Some(Scheme::Steering),
            System::GcLocal | System::GcGlobal => Some(Scheme::Raid5),
            System::NvRaid => Some(Scheme::Raid50),
        }
    }

    pub fn write_hole(self) -> WriteHole {
        match self {
            System::Scheme(_, write_hole) => write_hole,
            // The papers built these on md, or behind memory that outlives power cuts.
            System::SteeringOracle | System::SteeringNvram => WriteHole::Open,
            System::GcLocal | System::GcGlobal | System::NvRaid => WriteHole::Open,
            _ => WriteHole::Closed,
        }
    }

    fn name(self) -> String {
        match self {
            System::Fusion => "fusion".to_owned(),
            System::FusionNd => "fusion-nd".to_owned(),
            System::FusionPaper => "fusion-paper".to_owned(),
            System::Scheme(Scheme::Steering, WriteHole::Closed) => "steering-watch".to_owned(),
            System::Scheme(scheme, WriteHole::Closed) => scheme.name().to_owned(),
            System::Scheme(scheme, WriteHole::Open) => format!("{}{OPEN}", scheme.name()),
            System::SteeringOracle => "steering".to_owned(),
            System::SteeringNvram => "steering-nvram".to_owned(),
            System::GcLocal => "gc-local".to_owned(),
            System::GcGlobal => "gc-global".to_owned(),
            System::NvRaid => "nv-raid".to_owned(),
            System::Single => "single".to_owned(),
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<System, String> {
        let all = System::all();
        if let Some(known) = all.iter().find(|system| system.name() == text) {
            return Ok(*known);
        }
        if let Some(scheme) = text.strip_suffix(OPEN).and_then(Scheme::named) {
            return Ok(System::Scheme(scheme, WriteHole::Open));
        }
        let names: Vec<String> = all.into_iter().map(System::name).collect();
        let names = names.join(", ");
        Err(format!("'{text}' is no system we know: {names}; and {OPEN} after a scheme's name"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_has_a_name_of_its_own() {
        for system in System::all() {
            assert_eq!(system.to_string().parse(), Ok(system));
        }
        let open = System::Scheme(Scheme::Raid60, WriteHole::Open);
        assert_eq!("raid60-open".parse(), Ok(open));
        assert_eq!("steering".parse(), Ok(System::SteeringOracle));
        assert!("raid7".parse::<System>().is_err() && "fusion-open".parse::<System>().is_err());
    }
}
