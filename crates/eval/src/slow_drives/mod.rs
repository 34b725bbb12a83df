//! `eval slow-drives`: how often `policy::slow` is right about drives that are slow for long, and
//! how soon, over pools whose drives have a known fault. Exact: the same seed, the same table.
//!
//! As in public sets of drives that fail slowly (Perseus, FAST '23: 304 of 248,000 drives), one
//! drive of a pool, or two, are slow for 40 s of 70 s: all the time, more and more, in bursts, or
//! under load; or none is. Nothing bypasses the drive: each verdict is from its answers alone.

mod pool;
#[cfg(test)]
mod tests;

use policy::slow::{self, Finding, PERIOD, Record};

use pool::{BEGINS, ENDS, Noise, SECOND, Scene, Slowness};

const MILLI: u64 = 1_000_000;
/// Sizes of pools: few peers, and as many as in FusionRAID.
const POOLS: [usize; 2] = [7, 29];

#[derive(clap::Args)]
pub struct Options {
    /// Pools of each scene and size
    #[arg(long, default_value_t = 20)]
    pools: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const fn scene(name: &'static str, slowness: Slowness, noise: Noise) -> Scene {
    Scene { name, slowness, noise, rate: 400, slow: 1, parity: 1 }
}

const fn bursts(on: u64, every: u64) -> Slowness {
    Slowness::Bursts { add: 30 * MILLI, on, every }
}

const SCENES: [Scene; 30] = [
    scene("+300 ms", Slowness::Constant(300 * MILLI), Noise::Quiet),
    scene("+300 ms, 8 requests/s", Slowness::Constant(300 * MILLI), Noise::Quiet).at(8),
    scene("+5 ms", Slowness::Constant(5 * MILLI), Noise::Quiet),
    scene("5 times", Slowness::Times(5), Noise::Quiet),
    scene("ramp to +50 ms", Slowness::Ramp(50 * MILLI), Noise::Quiet),
    scene("bursts: 2 s of 4 s", bursts(2 * SECOND, 4 * SECOND), Noise::Quiet),
    scene("bursts: 1 s of 3 s", bursts(SECOND, 3 * SECOND), Noise::Quiet),
    scene("bursts: 0.5 s of 5 s", bursts(SECOND / 2, 5 * SECOND), Noise::Quiet),
    scene("20 times under load", Slowness::UnderLoad(20), Noise::Quiet),
    scene("+300 ms, host stalls", Slowness::Constant(300 * MILLI), Noise::HostStalls),
    scene("+300 ms, noisy neighbours", Slowness::Constant(300 * MILLI), Noise::Neighbours),
    scene("+300 ms, all +20 ms", Slowness::Constant(300 * MILLI), Noise::Shared),
    scene("+30 ms, all +20 ms", Slowness::Constant(30 * MILLI), Noise::Shared),
    scene("+300 ms, episodes", Slowness::Constant(300 * MILLI), Noise::Episodes),
    scene("+300 ms, pairs", Slowness::Constant(300 * MILLI), Noise::Pairs),
    scene("+300 ms, tails", Slowness::Constant(300 * MILLI), Noise::Tails),
    scene("two +300 ms, parity 1", Slowness::Constant(300 * MILLI), Noise::Quiet).of(2, 1),
    scene("two +300 ms, parity 2", Slowness::Constant(300 * MILLI), Noise::Quiet).of(2, 2),
    scene("two +300 ms, 2, neighbours", Slowness::Constant(300 * MILLI), Noise::Neighbours)
        .of(2, 2),
    scene("none: quiet", Slowness::None, Noise::Quiet),
    scene("none: 8 requests/s", Slowness::None, Noise::Quiet).at(8),
    scene("none: host stalls", Slowness::None, Noise::HostStalls),
    scene("none: noisy neighbours", Slowness::None, Noise::Neighbours),
    scene("none: neighbours, 8/s", Slowness::None, Noise::Neighbours).at(8),
    scene("none: all +20 ms", Slowness::None, Noise::Shared),
    scene("none: episodes of 1 to 4 s", Slowness::None, Noise::Episodes),
    scene("none: pairs", Slowness::None, Noise::Pairs),
    scene("none: pairs, parity 2", Slowness::None, Noise::Pairs).of(1, 2),
    scene("none: tails, 4/s", Slowness::None, Noise::Tails).at(4),
    scene("none: one drive hot", Slowness::None, Noise::Hot).at(8_000),
];

impl Scene {
    const fn at(self, rate: u64) -> Scene {
        Scene { rate, ..self }
    }

    const fn of(self, slow: usize, parity: usize) -> Scene {
        Scene { slow, parity, ..self }
    }
}

/// What came of the pools of a scene.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Score {
    /// Drives that were slow, and those that were found.
    slow: u64,
    found: u64,
    /// Times that a drive was called slow, and those that were wrong.
    verdicts: u64,
    wrong: u64,
    /// From the begin of slowness to the verdict (ns), in order.
    delays: Vec<u64>,
    /// Pools that were told of slowness of several drives at once.
    shared: u64,
}

impl Score {
    fn add(&mut self, other: &Score) {
        self.slow += other.slow;
        self.found += other.found;
        self.verdicts += other.verdicts;
        self.wrong += other.wrong;
        self.shared += other.shared;
        self.delays.extend(&other.delays);
        self.delays.sort_unstable();
    }

    fn percent(part: u64, whole: u64) -> String {
        let permille = (part * 1000).checked_div(whole);
        permille.map_or("-".to_owned(), |of| format!("{}.{}", of / 10, of % 10))
    }

    fn line(&self, name: &str) -> String {
        let delay = |at: usize| {
            let nanos = self.delays.get(at);
            nanos.map_or("-".to_owned(), |nanos| format!("{:.1}", *nanos as f64 / SECOND as f64))
        };
        let last = self.delays.len().saturating_sub(1);
        format!(
            "| {name} | {} | {} | {} | {} | {} | {}, {} | {} |",
            self.slow,
            self.found,
            Score::percent(self.found, self.slow),
            self.wrong,
            Score::percent(self.verdicts - self.wrong, self.verdicts),
            delay(last / 2),
            delay(last),
            self.shared,
        )
    }
}

/// One pool.
fn score(scene: &Scene, drives: usize, seed: u64) -> Score {
    let slow = pool::slow_drives(scene, drives, seed);
    let mut found = Vec::new();
    let mut score = Score { slow: slow.len() as u64, ..Score::default() };
    let (mut records, mut shared) = (vec![Record::default(); drives], Record::default());
    for (period, seen) in pool::record(scene, drives, seed).iter().enumerate() {
        let now = (period as u64 + 1) * PERIOD;
        let (findings, too_many) = slow::judge(seen, slow::most(drives, scene.parity));
        if shared.note(too_many) && shared.is_slow() {
            score.shared = 1;
        }
        for (at, finding) in findings.iter().enumerate() {
            let is_slow = match finding {
                Finding::Unknown => continue,
                Finding::Usual => false,
                Finding::Slow(_) => true,
            };
            if !records[at].note(is_slow) || !records[at].is_slow() {
                continue;
            }
            score.verdicts += 1;
            // What is under way when it ends is as slow as it was.
            if !slow.contains(&at) || !(BEGINS..ENDS + 2 * SECOND).contains(&now) {
                score.wrong += 1;
            } else if !found.contains(&at) {
                found.push(at);
                score.found += 1;
                score.delays.push(now - BEGINS);
            }
        }
    }
    score
}

pub fn run(options: &Options) -> Result<(), String> {
    println!("{} pools each of {POOLS:?} drives, seed {}\n", options.pools, options.seed);
    println!(
        "| slow drive, noise | slow | found | recall % | wrong | precision % | told after p50, max \
         s | pools slow together |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut all = Score::default();
    for scene in &SCENES {
        let mut of_scene = Score::default();
        for drives in POOLS {
            for pool in 0..options.pools {
                of_scene.add(&score(scene, drives, options.seed * 1000 + pool));
            }
        }
        println!("{}", of_scene.line(scene.name));
        all.add(&of_scene);
    }
    println!("{}", all.line("**all**"));
    Ok(())
}
