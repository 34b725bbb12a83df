//! What operators do to volumes while they are used: limits come and go, sizes grow, and pools
//! are looked at before they are opened.

use std::rc::Rc;

use engine::{Pool, RequestError, VolumeError, VolumeLimits};
use io::rng::Rng;
use io::virt::VirtEnv;
use io::{Buf, Env, Nanos};

use super::context::{Asked, Context};
use super::session::refused;
use super::{World, verify_volumes};
use crate::failure::{Check, Failure};

/// Volumes grow within this time of a session.
const GROWS_WITHIN: Nanos = Nanos::from_millis(200);
/// They grow by up to so many bytes.
const GROWS_BY: u64 = 256 << 10;

/// A volume that grows while clients use it.
pub(super) struct Growth {
    name: String,
    at: Nanos,
    by: u64,
}

impl Growth {
    pub(super) async fn happen(self, context: Rc<Context>, pool: Pool<VirtEnv>) {
        let Growth { name, at, by } = self;
        context.env.sleep_until(at).await;
        let bytes = context.oracle.borrow().volume(&name).bytes() + by;
        context.oracle.borrow_mut().grow_begins(&name, bytes);
        context.tell(|| format!("volume {name} is to have {bytes} bytes"));
        let grow = async {
            let grown = pool.volume_resize(&name, bytes).await;
            grown.map_err(|error| match error {
                VolumeError::Request(error) => error,
                error => RequestError::Io(error.to_string()),
            })
        };
        // Durable when it is answered.
        let volume = name.as_str().into();
        let asked = Asked { verb: "grow", volume, write: None, offset: 0, len: 0, fua: true };
        if context.request(asked, grow).await.is_some() {
            context.oracle.borrow_mut().grow_ends(&name);
        }
    }
}

/// Low enough to hold clients back, high enough for a session to end.
fn draw_limits(rng: &mut Rng) -> VolumeLimits {
    let mut draw = |least: u64| if rng.chance(1, 2) { 0 } else { least << rng.below(6) };
    VolumeLimits { iops: draw(200), bytes_per_sec: draw(4 << 20) }
}

impl World {
    /// Sets, changes or lifts limits.
    pub(super) fn limit_volumes(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        if !self.plan.tails.limited {
            return Ok(());
        }
        // Clients may be at work meanwhile.
        let names = self.context.oracle.borrow().names();
        for name in names {
            if self.rng.chance(1, 2) {
                continue;
            }
            let limits = draw_limits(&mut self.rng);
            self.context.tell(|| format!("volume {name}: {limits:?}"));
            let set = self.complete("setting limits", pool.volume_limit(&name, limits))?;
            set.map_err(|error| refused(&format!("limit {name}"), &error))?;
            self.limits.insert(name, limits);
        }
        Ok(())
    }

    /// Limits that were set are there, after whatever happened.
    pub(super) fn check_limits(&self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        for volume in pool.volumes() {
            let expected = self.limits.get(&volume.name).copied().unwrap_or_default();
            if volume.limits != expected {
                let (name, found) = (volume.name, volume.limits);
                let what = format!("volume {name} has {found:?}, not {expected:?}");
                return Err(Failure::new(Check::Recovery, what));
            }
        }
        Ok(())
    }

    /// Which volume grows in this session, if one does.
    pub(super) fn draw_growth(&mut self) -> Option<Growth> {
        let names = self.context.oracle.borrow().names();
        if !self.plan.tails.grows || names.is_empty() {
            return None;
        }
        Some(Growth {
            name: names[self.rng.index(names.len())].clone(),
            at: self.machine.env.now() + Nanos(self.rng.below(GROWS_WITHIN.0)),
            by: (1 + self.rng.below(GROWS_BY / 512)) * 512,
        })
    }

    /// Opened read-only, the pool holds what it will hold when it is opened, and takes nothing.
    pub(super) fn look_sometimes(&mut self) -> Result<(), Failure> {
        if !self.plan.tails.looks || !self.rng.chance(1, 2) || self.is_troubled() {
            return Ok(());
        }
        self.context.tell(|| "the pool is looked at".into());
        let opened = self.complete("looking", self.machine.open_read_only())?;
        let pool = opened.map_err(|error| Failure::new(Check::Open, format!("look: {error}")))?;
        self.check_limits(&pool)?;
        self.complete("verifying", verify_volumes(&pool, &self.context.oracle))??;
        for volume in pool.volumes() {
            let volume = pool.volume(&volume.name).expect("it is listed");
            let written = self.complete("a write", volume.write(0, Buf::zeroed(512), false))?;
            if written != Err(RequestError::ReadOnly) {
                let what = format!("a read-only pool answers a write with {written:?}");
                return Err(Failure::new(Check::Request, what));
            }
        }
        let closed = self.complete("close", pool.close())?;
        closed.map_err(|error| refused("close", &error))
    }
}
