//! The worlds of today: most of them small and soon over, a few large, each with a choice of
//! requests and dangers of its own (swarm testing).

use io::rng::{Rng, mix};

use super::{
    Fill, Generation, MIB, Mix, Plan, Run, Scheme, Tails, VolumePlan, draw_shape, draw_spec,
    least_bytes, trouble,
};

const KIB: u64 = 1 << 10;
/// One world in so many has more of everything.
const LARGE_ONE_IN: u64 = 32;

/// One world in so many has modelled drives.
const MODELLED_ONE_IN: u64 = 8;

pub(super) fn draw(seed: u64) -> Plan {
    let mut rng = Rng::new(mix(seed) ^ 0x5a4);
    let large = rng.chance(1, LARGE_ONE_IN);
    let mut plan = draw_base(&mut rng, seed, Generation::Swarm, large);
    draw_volumes(&mut plan, &mut rng, large);
    draw_victims(&mut plan, &mut rng);
    trouble::draw(&mut plan, &mut rng);
    plan.modelled = rng.chance(1, MODELLED_ONE_IN);
    plan
}

/// The pool and its clients, without volumes and troubles.
pub(super) fn draw_base(rng: &mut Rng, seed: u64, generation: Generation, large: bool) -> Plan {
    let fill = match rng.below(16) {
        0..13 => Fill::Calm,
        13 | 14 => Fill::Pressure,
        _ => Fill::OverCommitted,
    };
    let wide = large || rng.chance(1, 4);
    let drives = 3 + match fill {
        Fill::Calm => rng.index(if wide { 11 } else { 6 }),
        // Full pools have to be filled first: with few drives.
        Fill::Pressure | Fill::OverCommitted => rng.index(if large { 4 } else { 2 }),
    };
    let scheme = Scheme::ALL[rng.index(Scheme::ALL.len())];
    let spec = draw_spec(rng, drives);
    let least = least_bytes(drives, &spec).expect("the shape was checked");
    let requests = 10 + rng.index(if large { 1000 } else { 120 });
    Plan {
        seed,
        generation,
        run: if rng.chance(1, 4) { Run::Liveness } else { Run::Safety },
        scheme,
        drives,
        drive_bytes: least + u64::from(rng.chance(1, 4)) * 4 * MIB,
        modelled: false,
        spec,
        volumes: Vec::new(),
        fill,
        clients: 1 + rng.index(8),
        mix: draw_mix(rng),
        prefill: fill != Fill::Calm,
        sessions: (1..=2 + rng.below(4)).collect(),
        requests,
        victims: Vec::new(),
        returns: false,
        rots: None,
        stale: None,
        shelf: false,
        larger: Vec::new(),
        larger_by: 0,
        joins: false,
        joins_in_use: false,
        exchanges: false,
        rebuilds: false,
        troubles: Vec::new(),
        deaths_in_opening: rng.chance(1, 2),
        deaths: true,
        deletes: rng.chance(1, 2),
        salt: 0,
        tails: Tails::default(),
    }
}

fn draw_mix(rng: &mut Rng) -> Mix {
    let mut part = |most: u64| if rng.chance(1, 4) { 0 } else { rng.below(most + 1) };
    let mut mix = Mix {
        small: part(20),
        page: part(20),
        block: part(10),
        stripe: part(10),
        sequential: part(10),
        read: 1 + part(10),
        trim: part(4),
        zeroes: part(2),
        flush: part(6),
        fua: part(50),
        hot: part(90),
        hot_bytes: part(4) * 16 * KIB,
        long_bytes: [16 * KIB, 64 * KIB, 256 * KIB][part(2) as usize],
        think_micros: part(3) * part(400),
    };
    if rng.chance(1, 8) {
        // Small writes to few blocks: patch lists grow until they are merged.
        mix = Mix { small: 60, stripe: 0, sequential: 0, hot: 95, hot_bytes: 64 * KIB, ..mix };
    }
    if mix.small + mix.page + mix.block + mix.stripe + mix.sequential == 0 {
        mix.page = 10;
    }
    mix
}

pub(super) fn draw_volumes(plan: &mut Plan, rng: &mut Rng, large: bool) {
    let usable = plan.usable_bytes();
    let (own_parity, own_width) = (plan.spec.parity, plan.spec.width.expect("drawn"));
    let count = 1 + rng.below(3);
    let mixed = plan.tails.competing || plan.fill == Fill::Calm && rng.chance(1, 3);
    let percent = match plan.fill {
        Fill::Calm => 5 + rng.below(20),
        // Every class rounds up to whole zones.
        Fill::Pressure if plan.tails.competing => 50 + rng.below(30),
        Fill::Pressure => 85 + rng.below(14),
        Fill::OverCommitted => 110 + rng.below(40),
    };
    for number in 0..count {
        let (parity, width) = if mixed {
            draw_shape(rng, plan.drives, if plan.drives >= 4 { 2 } else { 1 })
        } else {
            (own_parity, own_width)
        };
        let mut bytes = usable * percent / 100 / count;
        if plan.fill == Fill::Calm {
            let most = if large { 8 * MIB } else { (128 * KIB) << rng.below(4) };
            bytes = bytes.min(most - rng.below(most / 2));
        }
        let unit = if rng.chance(1, 4) { 512 } else { 4096 };
        let bytes = bytes / unit * unit;
        plan.volumes.push(VolumePlan { name: format!("v{number}"), bytes, parity, width });
    }
}

pub(super) fn draw_victims(plan: &mut Plan, rng: &mut Rng) {
    let least = plan.parity_least();
    let count = if rng.chance(1, 2) { 0 } else { 1 + rng.below(u64::from(least)) };
    let mut all: Vec<usize> = (0..plan.drives).collect();
    rng.shuffle(&mut all);
    plan.victims = all[..count as usize].to_vec();
}
