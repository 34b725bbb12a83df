//! Who takes part in what: a row each, and a line for everybody who can't.

use std::sync::OnceLock;

use io::virt::VirtEnv;
use schemes::scheme::Scheme;

use super::homes::Home;
use crate::array::System;
use crate::array::layout::{is_grouped, lay_out};
use crate::experiment::Scale;
use crate::experiment::bed::Bed;
use crate::papers::fusionraid::mix::{CLEAN, Drives, UNTOLD};

#[derive(Clone, Debug)]
pub struct Row {
    pub label: String,
    pub system: System,
    /// Drives, the last ones, that are hard disks.
    pub disks: usize,
    pub drives: Drives,
}

impl Row {
    fn of(system: System) -> Row {
        Row { label: system.to_string(), system, disks: 0, drives: UNTOLD }
    }

    /// The same on other drives; new ones stay new.
    pub fn on(&self, drives: Drives) -> Row {
        let drives = if self.drives == CLEAN { CLEAN } else { drives };
        Row { drives, ..self.clone() }
    }
}

/// Of LDM's log, and of HPDA's (LDM §4.1).
const LOG_DISKS: usize = 2;

/// Rows, and notes.
type Rows = (Vec<Row>, Vec<String>);

/// Who takes part, on drives that were never told what is free, and why the others don't, a line
/// each that begins with the name.
pub fn rows(home: Home) -> Rows {
    /// Asking all schemes takes a quarter of a second, and is done for every list and plan.
    static KNOWN: [OnceLock<Rows>; Home::ALL.len()] = [const { OnceLock::new() }; Home::ALL.len()];
    KNOWN[home as usize].get_or_init(|| of(home)).clone()
}

fn of(home: Home) -> Rows {
    let bed = home.bed(Scale::Full);
    let raid0 = System::Scheme(Scheme::Raid0, classical::WriteHole::Closed);
    // What no redundancy and no garbage leave: queues of the clients' own.
    let new = Row { label: "raid0, new drives".to_owned(), drives: CLEAN, ..Row::of(raid0) };
    let (mut rows, mut notes) = (vec![new], Vec::new());
    if home != Home::Ldm {
        notes.push("On SSDs, where their papers have hard disks: hpda, log-mirror.".to_owned());
    }
    for system in System::all() {
        if let Err(why) = takes_part(system, &bed) {
            notes.push(format!("{system}: {why}"));
            continue;
        }
        let with_disks = matches!(system.scheme(), Some(Scheme::Hpda | Scheme::LogMirror));
        if home == Home::Ldm && with_disks {
            let label = format!("{system}, {LOG_DISKS} hard disks");
            rows.push(Row { label, disks: LOG_DISKS, ..Row::of(system) });
            let label = format!("{system}, SSDs only");
            rows.push(Row { label, ..Row::of(system) });
        } else {
            rows.push(Row::of(system));
        }
    }
    (rows, notes)
}

fn takes_part(system: System, bed: &Bed) -> Result<(), String> {
    let grouped = is_grouped(bed.drives);
    match (system, system.scheme()) {
        (System::Single, _) => Err("one drive is no array".to_owned()),
        (System::GcLocal, _) => Err("is raid5 by another name".to_owned()),
        (System::Scheme(..), Some(Scheme::Raid1)) if bed.drives > 2 => {
            Err(format!("would be {} copies; raid10 is what is made of so many", bed.drives))
        }
        (System::Scheme(_, classical::WriteHole::Closed), Some(Scheme::Raid5)) if grouped => {
            Err("is raid50 with so many drives".to_owned())
        }
        (System::Scheme(..), Some(Scheme::Raid6)) if grouped => {
            Err("is raid60 with so many drives".to_owned())
        }
        (_, None) => Ok(()),
        (_, Some(scheme)) => {
            // What is possible depends on their number, not on their size.
            let sizes = vec![1 << 30; bed.drives];
            let env = VirtEnv::new(bed.seed);
            let laid_out = env.block_on(lay_out(&env, scheme, &sizes, bed.variant));
            laid_out.map(|_| ())
        }
    }
}
