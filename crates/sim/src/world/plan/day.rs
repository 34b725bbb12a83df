//! The plan of a day: one pool of modelled drives, some volumes, a load that is light for most of
//! the time. What happens to it is drawn while it happens (`world::day`).

use io::Nanos;
use io::rng::{Rng, mix};

use super::{
    Fill, Generation, MIB, Mix, Plan, Run, Scheme, Tails, VolumePlan, draw_spec, least_bytes,
};

/// More than any stripe's blocks by some: one or two may be lost, another leave, and there is
/// room for what they held.
const DRIVES_LEAST: usize = 8;
const DRIVES_MORE: usize = 3;
/// Beside what a pool needs at least.
const DRIVE_MORE_BYTES: u64 = 16 * MIB;
pub const VOLUMES: u64 = 4;
/// Of what the pool can hold: with the rest it can do without three drives, and garbage is made
/// faster than it disappears by itself.
const USED_PERCENT: u64 = 30;
const USED_MOST: u64 = 48 * MIB;
/// A lost drive is rebuilt by the others after this.
pub const REBUILD_AFTER: Nanos = Nanos::from_secs(20);

impl Plan {
    /// A day's world. The seeds of days are not those of other worlds.
    pub fn day(seed: u64) -> Plan {
        let mut rng = Rng::new(mix(seed) ^ 0xda7);
        let drives = DRIVES_LEAST + rng.index(DRIVES_MORE);
        let mut spec = draw_spec(&mut rng, drives);
        spec.parity = if rng.chance(1, 4) { 1 } else { 2 };
        spec.width = Some(u16::from(spec.parity) + 2 + rng.below(2) as u16);
        spec.block_size = 16 << (10 + 2 * rng.below(2));
        spec.replicated_percent = 5;
        let least = least_bytes(drives, &spec).expect("the shape fits");
        let mut plan = Plan {
            seed,
            generation: Generation::Tails,
            run: Run::Liveness,
            scheme: Scheme::Fusion,
            drives,
            drive_bytes: least + DRIVE_MORE_BYTES,
            modelled: true,
            spec,
            volumes: Vec::new(),
            fill: Fill::Calm,
            clients: 1,
            mix: mix_of_a_day(),
            prefill: false,
            sessions: Vec::new(),
            requests: 0,
            victims: Vec::new(),
            returns: true,
            rots: None,
            stale: None,
            shelf: false,
            larger: Vec::new(),
            larger_by: 0,
            joins: true,
            joins_in_use: true,
            exchanges: true,
            rebuilds: true,
            troubles: Vec::new(),
            deaths_in_opening: true,
            deaths: true,
            deletes: false,
            salt: 0,
            tails: Tails { limited: true, grows: true, looks: true, ..Tails::default() },
        };
        for number in 0..VOLUMES {
            let volume = plan.draw_day_volume(number, &mut rng);
            plan.volumes.push(volume);
        }
        plan
    }

    /// Bytes of all volumes of a day together, about.
    pub fn day_bytes(&self) -> u64 {
        (self.usable_bytes() * USED_PERCENT / 100).min(USED_MOST)
    }

    /// Volumes of the pool's own width, or one less: two classes.
    pub fn draw_day_volume(&self, number: u64, rng: &mut Rng) -> VolumePlan {
        let own = self.spec.width.expect("it was drawn");
        let each = self.day_bytes() / VOLUMES;
        let bytes = (each / 2 + rng.below(each)) / 4096 * 4096;
        VolumePlan {
            name: format!("v{number}"),
            bytes,
            parity: self.spec.parity,
            width: own - u16::from(rng.chance(1, 3)),
        }
    }
}

/// In thousandths. Few trims: what is stored stays about the same.
fn mix_of_a_day() -> Mix {
    Mix {
        small: 120,
        page: 270,
        block: 50,
        stripe: 15,
        sequential: 60,
        read: 422,
        trim: 2,
        zeroes: 1,
        flush: 60,
        fua: 10,
        hot: 60,
        hot_bytes: 0,
        long_bytes: 64 << 10,
        think_micros: 0,
    }
}
