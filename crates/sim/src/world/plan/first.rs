//! The first two generations of worlds. Nothing here may change: seeds that once failed would
//! mean something else.

use io::rng::Rng;

use super::{
    Fill, Generation, MIB, Mix, Plan, Run, Scheme, Tails, VolumePlan, draw_shape, draw_spec,
    least_bytes,
};

const LONG_BYTES: u64 = 256 << 10;

pub(super) fn draw(seed: u64, generation: Generation) -> Plan {
    let mut rng = Rng::new(seed ^ 0x91a7);
    let fill = match rng.below(8) {
        0..=4 => Fill::Calm,
        5 | 6 => Fill::Pressure,
        _ => Fill::OverCommitted,
    };
    let most_drives = if fill == Fill::Calm { 13 } else { 6 };
    let drives = 3 + rng.index(most_drives - 2);
    let spec = draw_spec(&mut rng, drives);
    let least = least_bytes(drives, &spec).expect("the shape was checked");
    let drive_bytes = least + rng.below(2) * 4 * MIB;
    let mut plan = Plan {
        seed,
        generation,
        run: Run::Liveness,
        scheme: Scheme::Fusion,
        drives,
        drive_bytes,
        modelled: false,
        spec,
        volumes: Vec::new(),
        fill,
        clients: 1 + rng.index(8),
        mix: draw_mix(&mut rng),
        prefill: false,
        sessions: (1..=2 + rng.below(4)).collect(),
        requests: 20 + rng.index(if fill == Fill::Calm { 300 } else { 1500 }),
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
        deaths_in_opening: true,
        deaths: true,
        deletes: true,
        salt: 0,
        tails: Tails::default(),
    };
    draw_volumes(&mut plan, &mut rng);
    draw_victims(&mut plan, &mut rng);
    if generation == Generation::FullPools {
        make_harder(&mut plan);
    }
    plan
}

fn draw_mix(rng: &mut Rng) -> Mix {
    // Some kinds are missing altogether in some worlds: what is rare elsewhere is then all
    // there is (as swarm testing does).
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
        hot_bytes: 0,
        long_bytes: LONG_BYTES,
        think_micros: part(3) * part(400),
    };
    if mix.small + mix.page + mix.block + mix.stripe + mix.sequential == 0 {
        mix.page = 10;
    }
    mix
}

/// What was added when the first seeds had found their bugs, which keep their worlds.
fn make_harder(plan: &mut Plan) {
    plan.prefill = plan.fill != Fill::Calm;
    if plan.fill == Fill::Calm && plan.seed.is_multiple_of(6) {
        // Small writes to few blocks: patch lists grow until they are merged.
        let quiet = Mix { page: 1, block: 0, stripe: 0, sequential: 0, ..plan.mix.clone() };
        plan.mix = Mix { small: 30, hot: 95, hot_bytes: 128 << 10, trim: 1, ..quiet };
        plan.requests = plan.requests.max(250);
    }
}

fn draw_volumes(plan: &mut Plan, rng: &mut Rng) {
    let usable = plan.usable_bytes();
    let (own_parity, own_width) = (plan.spec.parity, plan.spec.width.expect("drawn"));
    let count = 1 + rng.below(3);
    let mixed = plan.fill == Fill::Calm && rng.chance(1, 3);
    let percent = match plan.fill {
        Fill::Calm => 5 + rng.below(20),
        Fill::Pressure => 85 + rng.below(14),
        Fill::OverCommitted => 110 + rng.below(100),
    };
    for number in 0..count {
        let (parity, width) = if mixed {
            draw_shape(rng, plan.drives, if plan.drives >= 4 { 2 } else { 1 })
        } else {
            (own_parity, own_width)
        };
        let data = |parity: u8, width: u16| u64::from(width) - u64::from(parity);
        let raw = usable / data(own_parity, own_width) * u64::from(own_width);
        let bytes = raw * percent / 100 / count * data(parity, width) / u64::from(width);
        let capped = if plan.fill == Fill::Calm { bytes.min(6 * MIB) } else { bytes };
        let unit = if rng.chance(1, 4) { 512 } else { 4096 };
        let bytes = capped / unit * unit;
        plan.volumes.push(VolumePlan { name: format!("v{number}"), bytes, parity, width });
    }
}

fn draw_victims(plan: &mut Plan, rng: &mut Rng) {
    let least = plan.parity_least();
    let count = if rng.chance(1, 2) { 0 } else { 1 + rng.below(u64::from(least)) };
    let mut all: Vec<usize> = (0..plan.drives).collect();
    rng.shuffle(&mut all);
    plan.victims = all[..count as usize].to_vec();
}
