//! Worlds of long tails: drives that hang for up to a minute, are ten times slower all the time,
//! or take long for one operation in a hundred, under every way of handling spikes; volumes that
//! have limits, grow while they are used, and compete for zones.

use engine::{SpikeHandling, Threshold};
use io::Nanos;
use io::faulty::fault::MILLION;
use io::faulty::schedule::{Entry, When};
use io::faulty::{Delay, Effect, Fault, Ramp};
use io::rng::{Rng, mix};

use super::{Fill, Generation, Plan, Trouble, swarm, trouble};

/// Hangs last from the first of these, doubled so often, up to the last.
const HANG_MIN: Nanos = Nanos::from_millis(100);
const HANG_DOUBLINGS: u64 = 10;
const HANG_MAX: Nanos = Nanos::from_secs(60);
/// Slow drives take so many percent of what others take, and are so at once.
const SLOW_PERCENT: u32 = 1000;
const AT_ONCE: u32 = u32::MAX;
/// Hangs begin within this time of a session.
const SPAN: Nanos = Nanos::from_secs(1);
/// What dies while a drive hangs is not used again until it answers: pools that are not to
/// be full have so much more room on each drive.
const ROOM: u64 = 100 << 20;
/// Longest pauses of clients between requests, in microseconds: with the longest, a session lasts
/// as long as the ladder takes to the top.
const THINK: [u64; 5] = [0, 400, 20_000, 100_000, 500_000];

pub(super) fn draw(seed: u64) -> Plan {
    let mut rng = Rng::new(mix(seed) ^ 0x7a115);
    let mut plan = swarm::draw_base(&mut rng, seed, Generation::Tails, false);
    if plan.fill == Fill::Calm {
        plan.drive_bytes += ROOM;
    }
    plan.tails.competing = plan.fill == Fill::Pressure && rng.chance(1, 2);
    swarm::draw_volumes(&mut plan, &mut rng, false);
    swarm::draw_victims(&mut plan, &mut rng);
    plan.tails.spikes = draw_handling(&mut rng);
    plan.mix.think_micros = THINK[rng.index(THINK.len())];
    plan.tails.limited = rng.chance(1, 4);
    plan.tails.grows = rng.chance(1, 2);
    plan.tails.looks = rng.chance(1, 3);
    let sufferers = draw_sufferers(&plan, &mut rng);
    let losses = rng.chance(1, 2);
    // Of others as well than those who suffer: nobody promises then how long requests take.
    plan.tails.any_may_hesitate = rng.chance(1, 4);
    for session in trouble::all_sessions(&plan) {
        if losses {
            trouble::draw_losses(&mut plan, &mut rng, session);
        }
        if plan.tails.any_may_hesitate {
            trouble::draw_delays(&mut plan, &mut rng, session);
        }
        for &drive in &sufferers {
            if rng.chance(2, 3) {
                add(&mut plan, &mut rng, session, drive);
            }
        }
    }
    plan
}

fn draw_handling(rng: &mut Rng) -> SpikeHandling {
    match rng.below(8) {
        0..4 => SpikeHandling::default(),
        4 => SpikeHandling::OFF,
        5 => SpikeHandling::WATCH,
        6 => SpikeHandling::PAPER,
        _ => {
            let leave = rng.below(4) as u32;
            let fixed = Threshold::Fixed(Nanos::from_micros(500 << rng.below(6)));
            SpikeHandling {
                detect: true,
                redirect: rng.chance(1, 2),
                hedge: rng.chance(1, 2),
                ladder: rng.chance(1, 2),
                threshold: if rng.chance(1, 2) { fixed } else { Threshold::Learned },
                slots: 2 + rng.below(20) as u8,
                enter: leave + 1 + rng.below(4) as u32,
                leave,
            }
        }
    }
}

/// Drives that misbehave, never more than any volume bears: those that may be lost, if there are.
fn draw_sufferers(plan: &Plan, rng: &mut Rng) -> Vec<usize> {
    if !plan.victims.is_empty() {
        return plan.victims.clone();
    }
    let count = 1 + rng.index(usize::from(plan.parity_least()));
    let mut all: Vec<usize> = (0..plan.drives).collect();
    rng.shuffle(&mut all);
    all[..count].to_vec()
}

fn add(plan: &mut Plan, rng: &mut Rng, session: u64, drive: usize) {
    let (when, fault) = match rng.below(4) {
        0 | 1 => {
            let most = HANG_MIN.0 << rng.below(HANG_DOUBLINGS);
            let lasts = Nanos((most + rng.below(most)).min(HANG_MAX.0));
            (Nanos(rng.below(SPAN.0)), Fault::new(Effect::Hang(None)).lasting(lasts))
        }
        2 => {
            let ramp = Ramp { percent_per_second: AT_ONCE, percent_max: SLOW_PERCENT };
            (Nanos::ZERO, Fault::new(Effect::Slow(ramp)))
        }
        _ => {
            let delay = Delay::Constant(Nanos::from_millis([1, 10, 100][rng.index(3)]));
            (Nanos::ZERO, Fault::new(Effect::Delay(delay)).with_chance(MILLION / 100))
        }
    };
    let entry = Entry { when: When::At(when), fault };
    let number = plan.troubles.len() + 1;
    let from_opening = rng.chance(1, 6);
    plan.troubles.push(Trouble { number, session, drive, from_opening, entry });
}
