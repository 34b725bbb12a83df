//! The curve has no step and no bottom.

use proptest::prelude::*;

use super::*;

const BUSY: Load = Load {
    pressure: 0,
    in_flight: 64,
    idle_nanos: 0,
    queue: 8_000,
    beside: 900_000,
    alone: 300_000,
};
const IDLE: Load = Load { in_flight: 0, idle_nanos: IDLE_AFTER, queue: 0, ..BUSY };
const PLENTY: Facts = Facts {
    free: 900,
    total: 1000,
    limbo: 0,
    replicated: 50,
    replicated_percent: 10,
    eager: false,
    reserve: 12,
    starved: false,
};

#[test]
fn an_idle_pool_and_one_in_need_do_not_hold_work_back() {
    assert_eq!(share(&IDLE), FULL);
    assert_eq!(share(&Load { pressure: FULL, ..BUSY }), FULL);
    assert_eq!(pause(5_000_000, FULL), 0);
}

#[test]
fn a_busy_pool_with_plenty_leaves_the_least_share() {
    assert_eq!(share(&BUSY), SHARE_MIN as u16);
    assert_eq!(pause(1_000_000, share(&BUSY)), 49_000_000);
    assert_eq!(pause(u64::MAX, 1), PAUSE_MAX, "no group is so long that the next never comes");
}

#[test]
fn requests_that_are_not_hurt_leave_half_of_the_time() {
    let gentle = Load { in_flight: 1, queue: 0, beside: 320_000, ..BUSY };
    assert!((500..=510).contains(&share(&gentle)), "{}", share(&gentle));
    let unknown = Load { beside: 0, ..gentle };
    assert_eq!(share(&unknown), share(&gentle));
    let hurt = Load { beside: 600_000, ..gentle };
    assert_eq!(share(&hurt), SHARE_MIN as u16);
}

#[test]
fn background_gives_everything_before_requests_are_slowed() {
    for free in 0..200 {
        let facts = Facts { free, ..PLENTY };
        let (pressure, delay) = (space_pressure(&facts), crate::background::write_delay(&facts));
        assert!(delay == 0 || pressure == FULL, "{free} free: {pressure}, {delay} ns");
        assert_eq!(pressure > 0, free < low(&facts), "{free} free");
    }
    assert_eq!(space_pressure(&Facts { starved: true, ..PLENTY }), FULL);
}

#[test]
fn due_is_what_is_too_much() {
    assert_eq!(tuples_due(&PLENTY, 2, 25), 0);
    assert_eq!(tuples_due(&Facts { eager: true, ..PLENTY }, 2, 25), 25);
    assert_eq!(tuples_due(&Facts { replicated: 121, ..PLENTY }, 2, 60), 11);
}

#[test]
fn a_mark_is_left_well_below_where_it_was_passed() {
    let mut level = 0;
    let mut levels = Vec::new();
    for pressure in [0, 299, 300, 899, 900, 600, 499, 301, 100, 99, 1000, 0] {
        level = marks_passed(level, pressure);
        levels.push(level);
    }
    assert_eq!(levels, [0, 0, 1, 1, 2, 2, 1, 1, 1, 0, 2, 0]);
}

fn any_load() -> impl Strategy<Value = Load> {
    let latency = || prop_oneof![Just(0), 10_000..50_000_000_u64];
    (0..=1000_u16, 0..40_u32, 0..2 * IDLE_AFTER, 0..40_000_u32, latency(), latency()).prop_map(
        |(pressure, in_flight, idle_nanos, queue, beside, alone)| Load {
            pressure,
            in_flight,
            idle_nanos,
            queue,
            beside,
            alone,
        },
    )
}

proptest! {
    /// More need, more idleness: never less. More queue, more harm: never more.
    #[test]
    fn every_input_pulls_one_way(load in any_load(), by in 1..10_000_000_u64) {
        let now = share(&load);
        prop_assert!((SHARE_MIN as u16..=FULL).contains(&now));
        let pressure = load.pressure.saturating_add(by as u16 % 1000).min(FULL);
        let needier = Load { pressure, ..load };
        prop_assert!(share(&needier) >= now);
        let idler = Load { idle_nanos: load.idle_nanos + by, ..load };
        prop_assert!(share(&idler) >= now);
        let fuller = Load { queue: load.queue + by as u32, ..load };
        prop_assert!(share(&fuller) <= now);
        let worse = Load { beside: load.beside + by, ..load };
        prop_assert!(load.beside == 0 || share(&worse) <= now);
    }

    /// Neighbouring inputs have neighbouring answers: a thousandth of need, ten microseconds of
    /// idleness, a hundredth of an operation, a thousandth of latency.
    #[test]
    fn there_is_no_step(load in any_load()) {
        let alone = load.alone.max(1000);
        let load = Load { alone, beside: load.beside.max(alone), ..load };
        let near = |other: Load, most: u16| {
            let (here, there) = (share(&load), share(&other));
            prop_assert!(here.abs_diff(there) <= most, "{load:?}: {here}, {other:?}: {there}");
            Ok(())
        };
        near(Load { pressure: load.pressure + 1, ..load }, 2)?;
        near(Load { idle_nanos: load.idle_nanos + 10_000, ..load }, 2)?;
        near(Load { queue: load.queue + 10, ..load }, 6)?;
        near(Load { beside: load.beside + alone / 1000, ..load }, 3)?;
    }

    /// Who waits for space is never kept waiting, whatever else is going on.
    #[test]
    fn need_overrules_everything(load in any_load(), took in 0..u64::MAX) {
        prop_assert_eq!(pause(took, share(&Load { pressure: FULL, ..load })), 0);
        prop_assert!(pause(took, share(&load)) <= PAUSE_MAX);
    }

    /// Space pressure against its definition, one free stripe at a time.
    #[test]
    fn pressure_rises_stripe_by_stripe(total in 200..1_000_000_u64, at in 0..1000_u64) {
        let facts = Facts { total, free: total * at / 1000, ..PLENTY };
        let next = Facts { free: facts.free + 1, ..facts };
        let (here, there) = (space_pressure(&facts), space_pressure(&next));
        prop_assert!(here >= there);
        let span = low(&facts) - slow_from(&facts);
        prop_assert!(u64::from(here - there) <= 1000 / span + 1);
    }
}
