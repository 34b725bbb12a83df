//! What a world is like: the pool, its volumes, its clients and its dangers, from one seed.

use engine::{ConversionPolicy, CreateError, CreateSpec, plan_create};
use io::Geometry;
use io::rng::Rng;

/// How full the volumes make the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Small volumes: what matters is crashes, not space.
    Calm,
    /// Volumes near the usable size: conversion, compaction and throttling never rest.
    Pressure,
    /// More than the pool can hold: writes end in `NoSpace`.
    OverCommitted,
}

#[derive(Clone, Debug)]
pub struct VolumePlan {
    pub name: String,
    pub bytes: u64,
    pub parity: u8,
    pub width: u16,
}

/// How often clients do what, in parts of the sum.
#[derive(Clone, Debug)]
pub struct Mix {
    pub small: u64,
    pub page: u64,
    pub block: u64,
    pub stripe: u64,
    pub sequential: u64,
    pub read: u64,
    pub trim: u64,
    pub zeroes: u64,
    pub flush: u64,
    /// Writes with FUA, in percent.
    pub fua: u64,
    /// Requests that go to the first eighth of a volume, in percent.
    pub hot: u64,
    /// Bytes that hot requests fall into; 0: the first eighth.
    pub hot_bytes: u64,
    /// Longest pause between requests.
    pub think_micros: u64,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub drives: usize,
    pub drive_bytes: u64,
    pub spec: CreateSpec,
    pub volumes: Vec<VolumePlan>,
    pub fill: Fill,
    pub clients: usize,
    pub mix: Mix,
    /// Volumes are written from end to end before anything else: without that, few requests
    /// ever meet a full pool, and compaction hardly runs.
    pub prefill: bool,
    pub sessions: usize,
    /// Requests of each client in one session.
    pub requests: usize,
    /// Drives that may fail, be pulled out, come back. Never more than every parity bears.
    pub victims: Vec<usize>,
}

const MIB: u64 = 1 << 20;
/// From this seed on, worlds are what [`Plan::make_harder`] makes of them.
const SEEDS_WITH_FULL_POOLS: u64 = 1000;

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
        think_micros: part(3) * part(400),
    };
    if mix.small + mix.page + mix.block + mix.stripe + mix.sequential == 0 {
        mix.page = 10;
    }
    mix
}

/// The smallest drives that `create` accepts.
fn least_bytes(drives: usize, spec: &CreateSpec) -> Result<u64, CreateError> {
    let mut size = 8 * MIB;
    loop {
        let geometry = Geometry { size, align: 4096, rotational: false };
        let named: Vec<(String, Geometry)> =
            (0..drives).map(|at| (format!("d{at}"), geometry)).collect();
        match plan_create(&named, spec) {
            Ok(_) => return Ok(size),
            Err(CreateError::DriveTooSmall { least, .. }) => {
                size = least.next_multiple_of(MIB).max(size + MIB);
            }
            Err(error) => return Err(error),
        }
    }
}

fn draw_shape(rng: &mut Rng, drives: usize, parity_most: u64) -> (u8, u16) {
    loop {
        let parity = 1 + rng.below(parity_most) as u16;
        let width = parity + 1 + rng.below(6) as u16;
        let fits =
            usize::from(width) <= drives && layout::Layout::new(drives, width.into()).is_ok();
        if fits && layout::StripeShape::new(width, parity as u8).is_ok() {
            return (parity as u8, width);
        }
    }
}

impl Plan {
    pub fn from_seed(seed: u64) -> Plan {
        let mut rng = Rng::new(seed ^ 0x91a7);
        let fill = match rng.below(8) {
            0..=4 => Fill::Calm,
            5 | 6 => Fill::Pressure,
            _ => Fill::OverCommitted,
        };
        let most_drives = if fill == Fill::Calm { 13 } else { 6 };
        let drives = 3 + rng.index(most_drives - 2);
        let parity_most = if drives >= 4 { 2 } else { 1 };
        let (parity, width) = draw_shape(&mut rng, drives, parity_most);
        let mut spec = CreateSpec::new("sim");
        spec.parity = parity;
        spec.width = Some(width);
        spec.block_size = [4 << 10, 16 << 10, 64 << 10][rng.index(3)];
        spec.replicated_percent = [2, 5, 10, 10, 30][rng.index(5)];
        let eager = rng.chance(1, 2);
        spec.conversion = if eager { ConversionPolicy::Eager } else { ConversionPolicy::Lazy };
        let least = least_bytes(drives, &spec).expect("the shape was checked");
        let drive_bytes = least + rng.below(2) * 4 * MIB;
        let mut plan = Plan {
            seed,
            drives,
            drive_bytes,
            spec,
            volumes: Vec::new(),
            fill,
            clients: 1 + rng.index(8),
            mix: draw_mix(&mut rng),
            prefill: false,
            sessions: 2 + rng.index(4),
            requests: 20 + rng.index(if fill == Fill::Calm { 300 } else { 1500 }),
            victims: Vec::new(),
        };
        plan.draw_volumes(&mut rng);
        plan.draw_victims(&mut rng);
        if seed >= SEEDS_WITH_FULL_POOLS {
            plan.make_harder();
        }
        plan
    }

    /// What was added when the first seeds had found their bugs, which keep their worlds.
    fn make_harder(&mut self) {
        self.prefill = self.fill != Fill::Calm;
        if self.fill == Fill::Calm && self.seed.is_multiple_of(6) {
            // Small writes to few blocks: patch lists grow until they are merged.
            let quiet = Mix { page: 1, block: 0, stripe: 0, sequential: 0, ..self.mix.clone() };
            self.mix = Mix { small: 30, hot: 95, hot_bytes: 128 << 10, trim: 1, ..quiet };
            self.requests = self.requests.max(250);
        }
    }

    fn draw_volumes(&mut self, rng: &mut Rng) {
        let geometry = Geometry { size: self.drive_bytes, align: 4096, rotational: false };
        let named: Vec<(String, Geometry)> =
            (0..self.drives).map(|at| (format!("d{at}"), geometry)).collect();
        let usable = plan_create(&named, &self.spec).expect("least_bytes found it").usable_bytes;
        let (own_parity, own_width) = (self.spec.parity, self.spec.width.expect("drawn"));
        let count = 1 + rng.below(3);
        let mixed = self.fill == Fill::Calm && rng.chance(1, 3);
        let percent = match self.fill {
            Fill::Calm => 5 + rng.below(20),
            Fill::Pressure => 85 + rng.below(14),
            Fill::OverCommitted => 110 + rng.below(100),
        };
        for number in 0..count {
            let (parity, width) = if mixed {
                draw_shape(rng, self.drives, if self.drives >= 4 { 2 } else { 1 })
            } else {
                (own_parity, own_width)
            };
            let data = |parity: u8, width: u16| u64::from(width) - u64::from(parity);
            let raw = usable / data(own_parity, own_width) * u64::from(own_width);
            let bytes = raw * percent / 100 / count * data(parity, width) / u64::from(width);
            let capped = if self.fill == Fill::Calm { bytes.min(6 * MIB) } else { bytes };
            let unit = if rng.chance(1, 4) { 512 } else { 4096 };
            let bytes = capped / unit * unit;
            self.volumes.push(VolumePlan { name: format!("v{number}"), bytes, parity, width });
        }
    }

    fn draw_victims(&mut self, rng: &mut Rng) {
        let least = self.volumes.iter().map(|volume| volume.parity).min().unwrap_or(1);
        let least = least.min(self.spec.parity);
        let count = if rng.chance(1, 2) { 0 } else { 1 + rng.below(u64::from(least)) };
        let mut all: Vec<usize> = (0..self.drives).collect();
        rng.shuffle(&mut all);
        self.victims = all[..count as usize].to_vec();
    }

    /// One line about the world.
    pub fn describe(&self) -> String {
        let Plan { seed, drives, spec, fill, clients, sessions, requests, .. } = self;
        let volumes: Vec<String> = self
            .volumes
            .iter()
            .map(|v| {
                format!("{} KiB {}+{}", v.bytes >> 10, v.width - u16::from(v.parity), v.parity)
            })
            .collect();
        format!(
            "seed {seed}: {drives} drives of {} MiB, {}+{} in {} KiB blocks, {:?}, area {} %, \
             {fill:?}, volumes [{}], {clients} clients, {sessions} sessions of {requests} \
             requests, victims {:?}",
            self.drive_bytes >> 20,
            spec.width.unwrap_or(0) - u16::from(spec.parity),
            spec.parity,
            spec.block_size >> 10,
            spec.conversion,
            spec.replicated_percent,
            volumes.join(", "),
            self.victims
        )
    }
}
