//! Metrics of whole pools.

use std::fmt;

use super::family::{Family, Labels, Writer, with};
use crate::render::view::Pool;

fn of_pool(pool: &Pool) -> Labels {
    vec![("pool", pool.name.clone())]
}

/// One number of each pool.
fn each(pools: &[Pool], to: &mut Family, value: impl Fn(&Pool) -> f64) -> fmt::Result {
    pools.iter().try_for_each(|pool| to.gauge(&of_pool(pool), value(pool)))
}

/// One number of each pool of which it is known.
fn known(pools: &[Pool], to: &mut Family, value: impl Fn(&Pool) -> Option<f64>) -> fmt::Result {
    pools.iter().try_for_each(|pool| to.known(&of_pool(pool), value(pool)))
}

/// One counter of each pool.
fn counter(pools: &[Pool], to: &mut Family, value: impl Fn(&Pool) -> u64) -> fmt::Result {
    pools.iter().try_for_each(|pool| to.counter(&of_pool(pool), value(pool) as f64))
}

/// Counters of each pool, told apart by a label.
fn counters<const N: usize>(
    pools: &[Pool],
    to: &mut Family,
    label: &'static str,
    values: impl Fn(&Pool) -> [(&'static str, u64); N],
) -> fmt::Result {
    for pool in pools {
        for (name, value) in values(pool) {
            to.counter(&with(of_pool(pool), label, name), value as f64)?;
        }
    }
    Ok(())
}

pub fn write(pools: &[Pool], unopened: &[Pool], to: &mut Writer) -> fmt::Result {
    health(pools, unopened, to)?;
    space(pools, to)?;
    waits(pools, to)?;
    around(pools, to)?;
    background(pools, to)?;
    care(pools, to)?;
    rebuilding(pools, to)
}

fn health(pools: &[Pool], unopened: &[Pool], to: &mut Writer) -> fmt::Result {
    const STATES: [&str; 3] = ["online", "degraded", "failed"];
    to.gauge("pool_state", "1 for the state that the pool is in", |to| {
        let mut all = pools.iter().chain(unopened);
        all.try_for_each(|pool| to.state(&of_pool(pool), &STATES, pool.state.name()))
    })?;
    let help = "Drives that may still be lost before data is";
    to.gauge("pool_redundancy_margin", help, |to| {
        each(pools, to, |pool| f64::from(pool.redundancy_margin))
    })?;
    let help = "Ways in which the least protected data can be had: as a copy, or from parity";
    to.gauge("pool_surviving_copies", help, |to| {
        known(pools, to, |pool| pool.surviving_copies.map(f64::from))
    })
}

fn space(pools: &[Pool], to: &mut Writer) -> fmt::Result {
    to.gauge("pool_space_bytes", "Bytes of drives by what they are used for", |to| {
        for pool in pools {
            let space = &pool.space;
            let kinds = [
                ("replicated", space.replicated),
                ("raid", space.raid),
                ("limbo", space.limbo),
                ("free", space.free),
            ];
            for (kind, bytes) in kinds {
                to.gauge(&with(of_pool(pool), "area", kind), bytes as f64)?;
            }
        }
        Ok(())
    })?;
    to.gauge("pool_used_bytes", "Bytes of users' data", |to| {
        each(pools, to, |pool| pool.space.used as f64)
    })?;
    to.gauge("pool_available_bytes", "Bytes of users' data that can still be written", |to| {
        each(pools, to, |pool| pool.space.available as f64)
    })?;
    to.gauge("pool_usable_bytes", "Bytes of users' data, and that can still be written", |to| {
        each(pools, to, |pool| pool.space.usable as f64)
    })?;
    let fusion = |pool: &Pool| pool.is_fusion();
    to.gauge("pool_journal_fill_ratio", "Part of the journal that is in use", |to| {
        let fill = |pool: &Pool| f64::from(pool.journal_fill_percent) / 100.0;
        known(pools, to, |pool| fusion(pool).then(|| fill(pool)))
    })?;
    let help = "Tuples of replicas waiting to become RAID stripes";
    to.gauge("pool_conversion_backlog", help, |to| {
        known(pools, to, |pool| fusion(pool).then_some(pool.backlog.tuples as f64))
    })
}

fn waits(pools: &[Pool], to: &mut Writer) -> fmt::Result {
    let help = "How long clients' requests waited, by cause; waits that overlap count for each";
    to.histogram("wait_seconds", help, |to| {
        for pool in pools {
            for wait in &pool.waits {
                to.spans(&with(of_pool(pool), "cause", &wait.cause), &wait.latency)?;
            }
        }
        Ok(())
    })
}

fn around(pools: &[Pool], to: &mut Writer) -> fmt::Result {
    let help = "Requests sent another way than usual, because of slow drives";
    to.counter("pool_redirects", help, |to| {
        counters(pools, to, "kind", |pool| {
            let counters = &pool.counters;
            [("read", counters.redirected_reads), ("write", counters.redirected_writes)]
        })
    })?;
    to.counter("pool_hedges", "Late requests sent a second way", |to| {
        counters(pools, to, "kind", |pool| {
            let counters = &pool.counters;
            [
                ("read", counters.hedged_reads),
                ("write", counters.hedged_writes),
                ("journal", counters.hedged_journal_blocks),
            ]
        })
    })?;
    to.counter("pool_hedges_won", "Second ways that were the first to end", |to| {
        counter(pools, to, |pool| pool.counters.hedge_wins)
    })?;
    to.counter("pool_hedges_refused", "Second ways that the budget did not allow", |to| {
        counter(pools, to, |pool| pool.counters.hedges_refused)
    })?;
    hedge_budgets(pools, to)?;
    to.gauge("pool_loaded", "1 while many drives are behind and nothing goes round them", |to| {
        known(pools, to, |pool| pool.loaded.map(|loaded| f64::from(u8::from(loaded))))
    })?;
    to.counter("pool_loads", "How often many drives were behind at once", |to| {
        counter(pools, to, |pool| pool.counters.loads)
    })
}

fn hedge_budgets(pools: &[Pool], to: &mut Writer) -> fmt::Result {
    let each = |to: &mut Family, of: fn(&Pool) -> [Option<u64>; 2]| {
        pools.iter().try_for_each(|pool| {
            ["read", "write"].into_iter().zip(of(pool)).try_for_each(|(kind, left)| {
                to.known(&with(of_pool(pool), "kind", kind), left.map(|left| left as f64))
            })
        })
    };
    let help = "Drive operations that second ways of late requests may cost now";
    to.gauge("pool_hedge_budget", help, |to| {
        each(to, |pool| [pool.hedge_budget, pool.write_hedge_budget])
    })?;
    to.gauge("pool_hedge_budget_bytes", "Bytes that these may move now", |to| {
        each(to, |pool| [pool.hedge_budget_bytes, pool.write_hedge_budget_bytes])
    })
}

fn background(pools: &[Pool], to: &mut Writer) -> fmt::Result {
    to.counter("pool_background_operations", "Done in the background, by kind", |to| {
        counters(pools, to, "kind", |pool| {
            let counters = &pool.counters;
            [
                ("conversion", counters.conversions),
                ("compaction", counters.compacted_stripes),
                ("checkpoint", counters.checkpoints),
            ]
        })
    })?;
    to.counter("pool_space_waits", "Times that writes had to wait for space", |to| {
        counter(pools, to, |pool| pool.counters.space_waits)
    })?;
    let help = "Writes that were refused for want of space";
    to.counter("pool_space_refusals", help, |to| {
        counter(pools, to, |pool| pool.counters.space_refusals)
    })?;
    // Some of them only grow, others are what is at the moment.
    to.gauge("pool_scheme_figure", "What only the pool's scheme counts, by its names", |to| {
        for pool in pools {
            for own in &pool.scheme_counters {
                to.gauge(&with(of_pool(pool), "figure", &own.name), own.count as f64)?;
            }
        }
        Ok(())
    })
}

fn care(pools: &[Pool], to: &mut Writer) -> fmt::Result {
    let help = "Pages that were read and are not what was written";
    to.counter("pool_checksum_errors", help, |to| {
        counter(pools, to, |pool| pool.counters.checksum_errors)
    })?;
    let help = "What became of pages found wrong, by requests and by scrubbing";
    to.counter("pool_pages", help, |to| {
        counters(pools, to, "found", |pool| {
            let counters = &pool.counters;
            [
                ("repaired", counters.healed_pages + counters.mended_parity),
                ("lost", counters.lost_pages),
            ]
        })
    })?;
    let help = "Pages that can't be had any more: the last whole scrub's, and those found since";
    to.gauge("pool_lost_pages", help, |to| each(pools, to, |pool| pool.lost_pages as f64))?;
    to.gauge("pool_scrub_running", "1 while a scrub runs", |to| {
        each(pools, to, |pool| f64::from(u8::from(pool.scrub.state == "running")))
    })?;
    to.gauge("pool_scrub_progress_ratio", "Part of the last scrub that is done", |to| {
        known(pools, to, |pool| {
            let begun = pool.scrub.state != "never";
            begun.then(|| pool.scrub.percent() as f64 / 100.0)
        })
    })?;
    to.gauge("pool_scrub_bad_pages", "Pages that the last scrub found wrong", |to| {
        each(pools, to, |pool| pool.scrub.bad_pages as f64)
    })
}

fn rebuilding(pools: &[Pool], to: &mut Writer) -> fmt::Result {
    let help = "Blocks that still have to be rebuilt or moved, by drive they are about";
    to.gauge("pool_rebuild_blocks_left", help, |to| {
        for pool in pools {
            for drive in &pool.rebuild.drives {
                let labels = with(of_pool(pool), "drive", &drive.drive.to_string());
                let labels = with(labels, "work", &drive.work);
                to.gauge(&labels, drive.blocks_left as f64)?;
            }
        }
        Ok(())
    })?;
    let help = "Stripes that a crash, or making the pool, left to be looked at";
    to.gauge("pool_resync_stripes_left", help, |to| {
        known(pools, to, |pool| (!pool.is_fusion()).then_some(pool.resync_stripes as f64))
    })?;
    let help =
        "Regions marked as being written: a crash now would cost a resync of them; 0: in sync";
    to.gauge("pool_marks", help, |to| {
        known(pools, to, |pool| (!pool.is_fusion()).then_some(pool.marks as f64))
    })
}
