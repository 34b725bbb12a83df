//! What `serve` puts around drives that ask for it: a model's timing, faults for tests. Drives
//! that don't are left as they are, and cost nothing more.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

use io::modelled::Lateness;
use io::uring::{RealDrive, UringDrive, UringEnv};
use io::{AnyDrive, Drive, Env, Faults, Faulty, Modelled};

use super::log::{Kind, Log};
use super::watch::{self, Seen};
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
    /// What looks at drives found, by the drive's name; of another one of this name before, nothing
    /// is of interest any more.
    found: BTreeMap<String, Rc<Cell<Seen>>>,
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
        let looks = drive.file().map(UringDrive::watch);
        let wrapped = match name.model() {
            Some(spec) => {
                let seed = seed_name(name.path());
                self.wrap(&name.to_string(), drive, Some((spec, &seed)))
            }
            None => self.wrap("", drive, None),
        }?;
        let mut known = self.wrapped.borrow_mut();
        known.found.remove(&wrapped.name());
        if let Some(looks) = looks {
            let found = Rc::<Cell<Seen>>::default();
            known.found.insert(wrapped.name(), found.clone());
            let to = move |now| found.set(now);
            self.env.spawn(watch::keep_looking(self.env.clone(), looks, to));
        }
        drop(known);
        Ok(wrapped)
    }

    /// What was found of the drives that are open, by name.
    pub fn found(&self) -> BTreeMap<String, Seen> {
        let found = &mut self.wrapped.borrow_mut().found;
        // Whoever looks at a drive ends when it is closed.
        found.retain(|_, found| Rc::strong_count(found) > 1);
        found.iter().map(|(name, found)| (name.clone(), found.get())).collect()
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
