//! What `serve` puts around drives that ask for it: a model's timing, faults for tests. Drives
//! that don't are left as they are, and cost nothing more.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;

use io::modelled::Lateness;
use io::uring::{FileWatch, RealDrive, UringDrive, UringEnv};
use io::{AnyDrive, Drive, Faults, Faulty, Modelled};

use super::log::{Kind, Log};
use crate::drives::modelled::{ModelSpec, seed_name};
use crate::drives::name::DriveName;
use crate::error::{Failure, Outcome};

/// A handle on everything that was wrapped.
#[derive(Clone)]
pub struct Wrapper {
    env: UringEnv,
    with_faults: bool,
    log: Log,
    wrapped: Rc<RefCell<Wrapped>>,
}

#[derive(Default)]
struct Wrapped {
    modelled: Vec<Modelled<UringEnv, RealDrive>>,
    /// By the drive's name.
    faults: BTreeMap<String, Faults>,
    /// By the drive's name; of another file of this name before, nothing is of interest any more.
    files: BTreeMap<String, FileWatch>,
}

impl Wrapper {
    pub fn new(env: &UringEnv, with_faults: bool, log: &Log) -> Wrapper {
        Wrapper { env: env.clone(), with_faults, log: log.clone(), wrapped: Rc::default() }
    }

    /// The drive that was opened under this name, as it is served.
    pub fn named(&self, name: &DriveName, drive: RealDrive) -> Outcome<RealDrive> {
        if drive.discard_granularity().is_none() && !drive.geometry().rotational {
            let what = "takes no discards: what is freed in its pool is not told to it";
            self.log.warn_of(Kind::Server, &Failure::new(name, what));
        }
        let watch = drive.file().and_then(UringDrive::watch);
        let wrapped = match name.model() {
            Some(spec) => {
                let seed = seed_name(name.path());
                self.wrap(&name.to_string(), drive, Some((spec, &seed)))
            }
            None => self.wrap("", drive, None),
        }?;
        let mut known = self.wrapped.borrow_mut();
        known.files.remove(&wrapped.name());
        known.files.extend(watch.map(|watch| (wrapped.name(), watch)));
        drop(known);
        Ok(wrapped)
    }

    /// Names of the drives whose files are open and were deleted.
    pub fn deleted(&self) -> BTreeSet<String> {
        let files = &mut self.wrapped.borrow_mut().files;
        files.retain(|_, watch| watch.is_deleted().is_some());
        let deleted = files.iter().filter(|(_, watch)| watch.is_deleted() == Some(true));
        deleted.map(|(name, _)| name.clone()).collect()
    }

    /// `name` is what a modelled drive is called; `seed` is part of its model's seed.
    pub fn wrap(
        &self,
        name: &str,
        drive: RealDrive,
        model: Option<(&ModelSpec, &str)>,
    ) -> Outcome<RealDrive> {
        let drive = match model {
            Some((spec, seed)) => self.model(name, drive, spec, seed)?,
            None => drive,
        };
        if !self.with_faults {
            return Ok(drive);
        }
        let name = drive.name();
        // Chances and tears need a sequence, not a secret; the same each time is easier to test.
        let faults =
            Faults::new(name.bytes().fold(0, |seed, byte| io::rng::mix(seed ^ u64::from(byte))));
        self.wrapped.borrow_mut().faults.insert(name, faults.clone());
        Ok(AnyDrive::new(Faulty::new(&self.env, drive, &faults)).into())
    }

    fn model(
        &self,
        name: &str,
        drive: RealDrive,
        spec: &ModelSpec,
        seed: &str,
    ) -> Outcome<RealDrive> {
        let refuse = |what: String| Failure::new(name, what);
        let model = spec.build(seed).map_err(refuse)?;
        let modelled = Modelled::new(&self.env, name, drive, model).map_err(|error| {
            refuse(error.to_string()).hint("say the size that the file has, in bytes if need be")
        })?;
        self.wrapped.borrow_mut().modelled.push(modelled.clone());
        Ok(AnyDrive::new(modelled).into())
    }

    /// The faults of a drive; `None` if this server takes none, or there is no such drive.
    pub fn faults(&self, drive: &str) -> Option<Faults> {
        self.wrapped.borrow().faults.get(drive).cloned()
    }

    pub fn takes_faults(&self) -> bool {
        self.with_faults
    }

    /// What the models did, one line each.
    pub fn report(&self) -> String {
        let mut text = String::new();
        for modelled in &self.wrapped.borrow().modelled {
            let (counters, lateness) = (modelled.counters(), modelled.lateness());
            let Lateness { operations, max, .. } = lateness;
            let _ = writeln!(
                text,
                "{}: {operations} operations, answered {} late on average and {max} at most; \
                 {} collections, write amplification {:.2}",
                modelled.name(),
                lateness.mean(),
                counters.collections,
                counters.write_amplification()
            );
        }
        text
    }
}
