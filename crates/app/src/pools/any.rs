//! An open pool of whatever scheme: `fusion` has an engine of its own, all others are stores with
//! volumes on them. Whoever serves pools sees no difference but in what can be asked of them.

use format::Uuid;
use io::Nanos;
use io::sync::EventWait;
use io::uring::UringEnv;

use crate::error::{Failure, Outcome};
use crate::render::human;
use crate::render::view::{self, Event, Fill};

pub type Fusion = engine::Pool<UringEnv>;
pub type Other = schemes::Pool<UringEnv>;

#[derive(Clone)]
pub enum Pool {
    Fusion(Fusion),
    Other(Other),
}

/// A volume as lists of exports have it.
pub struct ExportShape {
    pub volume: String,
    pub size: u64,
    /// The scheme, or level, and how wide.
    pub shape: String,
}

/// A volume's handle.
#[derive(Clone)]
pub enum Volume {
    Fusion(engine::Volume<UringEnv>),
    Other(schemes::pool::PoolVolume<UringEnv>),
}

impl Pool {
    pub fn name(&self) -> String {
        match self {
            Pool::Fusion(pool) => pool.name(),
            Pool::Other(pool) => pool.name().to_owned(),
        }
    }

    pub fn uuid(&self) -> String {
        match self {
            Pool::Fusion(pool) => pool.uuid().to_string(),
            Pool::Other(pool) => pool.uuid().to_string(),
        }
    }

    pub fn view(&self) -> view::Pool {
        let pool: view::Pool = match self {
            Pool::Fusion(pool) => (&pool.status()).into(),
            Pool::Other(pool) => (&pool.status()).into(),
        };
        pool.with_errors().with_capacity(&self.fill())
    }

    /// How full it is: unlike [`Pool::view`] in no time.
    pub fn fill(&self) -> Fill {
        match self {
            Pool::Fusion(pool) => {
                let (space, pressure) = (pool.space_status(), pool.space_pressure());
                Fill {
                    used: space.used,
                    available: space.available,
                    refusals: pool.counters().space_refusals,
                    slowed: pressure >= engine::PRESSURE_FULL,
                }
            }
            Pool::Other(pool) => {
                let space = pool.volumes().space();
                Fill {
                    used: space.mapped,
                    available: space.available(),
                    refusals: pool.volumes().requests().space_refusals,
                    slowed: false,
                }
            }
        }
    }

    /// Volumes with their shapes, for lists: unlike [`Pool::view`] in no time.
    pub fn exports(&self) -> Vec<ExportShape> {
        match self {
            Pool::Fusion(pool) => {
                let shapes = pool.volume_shapes().into_iter();
                let level = |parity| if parity == 1 { "RAID5" } else { "RAID6" };
                let shape = |volume: engine::VolumeShape| {
                    let shape = human::shape(volume.width, volume.parity);
                    let shape = format!("{} {shape}", level(volume.parity));
                    ExportShape { volume: volume.name, size: volume.size, shape }
                };
                shapes.map(shape).collect()
            }
            Pool::Other(pool) => {
                let shape = format!("{} {}", pool.scheme().name(), pool.shape());
                let sizes = pool.volumes().sizes().into_iter();
                let of = |(volume, size)| ExportShape { volume, size, shape: shape.clone() };
                sizes.map(of).collect()
            }
        }
    }

    pub fn exports_count(&self) -> usize {
        match self {
            Pool::Fusion(pool) => pool.volume_count(),
            Pool::Other(pool) => pool.volumes().count(),
        }
    }

    /// Drives that it is without: number and UUID, in no time.
    pub fn lost_drives(&self) -> Vec<(u16, Uuid)> {
        match self {
            Pool::Fusion(pool) => pool.lost_drives(),
            Pool::Other(pool) => pool.lost_drives(),
        }
    }

    /// Requests that limits hold back go on now: nobody waits for them who ends a server.
    pub fn hurry(&self) {
        match self {
            Pool::Fusion(pool) => pool.lift_limits(),
            Pool::Other(_) => {}
        }
    }

    /// Somebody has the volume open.
    pub fn volume_in_use(&self, name: &str) -> bool {
        match self {
            Pool::Fusion(pool) => pool.volume_in_use(name),
            Pool::Other(pool) => pool.volumes().in_use(name),
        }
    }

    pub fn volume(&self, name: &str) -> Option<Volume> {
        match self {
            Pool::Fusion(pool) => pool.volume(name).map(Volume::Fusion),
            Pool::Other(pool) => pool.volumes().volume(name).map(Volume::Other),
        }
    }

    /// Events after that number. `now` is what the clock shows by which events are dated.
    pub fn events(&self, after: u64, now: Nanos) -> Vec<Event> {
        let name = self.name();
        match self {
            Pool::Fusion(pool) => of_engine(&name, &pool.events(after), now),
            Pool::Other(pool) => {
                let event = |event: &schemes::pool::Event| Event::of_scheme(&name, event, now);
                pool.events(after).iter().map(event).collect()
            }
        }
    }

    /// The same of single spikes, which have numbers of their own and are no events.
    pub fn spikes(&self, after: u64, now: Nanos) -> Vec<Event> {
        let Pool::Fusion(pool) = self else { return Vec::new() };
        of_engine(&self.name(), &pool.spikes(after), now)
    }

    /// Completes at the next event.
    pub fn next_event(&self) -> EventWait {
        match self {
            Pool::Fusion(pool) => pool.next_event(),
            Pool::Other(pool) => pool.next_event(),
        }
    }

    pub async fn close(&self) -> Outcome<()> {
        let closed = match self {
            Pool::Fusion(pool) => pool.close().await.map_err(|error| error.to_string()),
            Pool::Other(pool) => pool.close().await.map_err(|error| error.to_string()),
        };
        closed.map_err(|what| Failure::new(format!("pool {}", self.name()), what))
    }

    /// For what only `fusion` can do.
    pub fn fusion(&self, verb: &str) -> Outcome<&Fusion> {
        match self {
            Pool::Fusion(pool) => Ok(pool),
            Pool::Other(pool) => {
                let scheme = pool.status().scheme.name();
                let what = format!("its scheme, {scheme}, can't {verb}");
                Err(Failure::new(format!("pool {}", pool.name()), what)
                    .hint("'steadyraid schemes' tells schemes apart"))
            }
        }
    }
}

fn of_engine(pool: &str, events: &[engine::PoolEvent], now: Nanos) -> Vec<Event> {
    events.iter().map(|event| Event::of_engine(pool, event, now)).collect()
}
