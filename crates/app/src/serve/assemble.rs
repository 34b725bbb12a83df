//! From drives to open pools. A pool that can't be opened doesn't keep others from being
//! served.

use std::collections::BTreeSet;
use std::pin::pin;

use format::Uuid;
use futures_util::future::{Either, select};
use io::uring::UringEnv;
use io::{Short, join_all};

use super::Options;
use super::log::{Kind, Log};
use super::mem_pool::MemPool;
use super::room::Room;
use super::spikes::Mode;
use super::wait_for_drives;
use super::wrap::Wrapper;
use crate::drives::scan::Group;
use crate::error::{Failure, Outcome};
use crate::pools::held::{self, Claimed, ClientWaits, Held};
use crate::pools::{self, Opening};
use crate::render::view;

/// A pool that can't be opened, and why.
pub(crate) struct Refused {
    pub view: view::Pool,
    pub failure: Failure,
}

/// What became of the pools that were found.
#[derive(Default)]
pub(crate) struct Assembled {
    pub pools: Vec<Held>,
    pub refused: Vec<Refused>,
    /// Drives that are here, and were when their pool was open the last time.
    pub here: BTreeSet<Uuid>,
}

pub(crate) async fn pools(
    env: &UringEnv,
    options: &Options,
    wrapper: &Wrapper,
    log: &Log,
) -> Outcome<Assembled> {
    let Assembled { mut pools, mut refused, .. } = Assembled::default();
    let warn = |failure: &Failure| log.warn_of(Kind::Server, failure);
    let groups = wait_for_drives::find(env, options, log).await?;
    if groups.is_empty() && options.mem_pools.is_empty() {
        return Err(Failure::new("serve", "no SteadyRAID pool was found on the drives given")
            .hint(
                "'steadyraid create' makes one; 'steadyraid inspect DRIVE' shows what is there",
            ));
    }
    // Pools are opened side by side: one may have to wait until another host has been silent for
    // long enough. Those of one name come one after the other, until one is open.
    let namesakes = groups.chunk_by(|one, next| one.name == next.name);
    let opened = join_all(namesakes.map(async |namesakes| {
        let mut found = Assembled::default();
        for group in namesakes {
            match pool(env, &found.pools, group, options, wrapper, &warn).await {
                Ok(held) => found.pools.push(held),
                Err(refusal) => found.refused.push(*refusal),
            }
        }
        found
    }));
    for found in opened.await {
        pools.extend(found.pools);
        refused.extend(found.refused);
    }
    let mut drives = 0;
    for mem_pool in &options.mem_pools {
        pools.push(pool_in_memory(env, &pools, mem_pool, drives, options, wrapper).await?);
        drives += mem_pool.drives();
    }
    // One that came back while nobody served has arrived, like one that does later.
    let stayed = |group: &Group| {
        group.identities().filter(|drive| !group.was_away(*drive)).collect::<Vec<_>>()
    };
    let here = groups.iter().flat_map(stayed).collect();
    Ok(Assembled { pools, refused, here })
}

/// One more beside those that are served.
pub(crate) async fn pool(
    env: &UringEnv,
    served: &[Held],
    group: &Group,
    options: &Options,
    wrapper: &Wrapper,
    warn: impl Fn(&Failure),
) -> Result<Held, Box<Refused>> {
    let opened = match name_is_free(served, &group.name) {
        Ok(()) => open(env, group, options, wrapper, warn).await,
        Err(failure) => Err(failure),
    };
    opened.map_err(|failure| {
        let failure = of_pool(&group.name, failure);
        Box::new(Refused { view: view::Pool::unopened(group, &failure), failure })
    })
}

/// The same in memory, where so many `drives` are already.
pub(crate) async fn pool_in_memory(
    env: &UringEnv,
    served: &[Held],
    mem_pool: &MemPool,
    drives: u16,
    options: &Options,
    wrapper: &Wrapper,
) -> Outcome<Held> {
    name_is_free(served, mem_pool.name())?;
    let pool = mem_pool.make(env, drives, wrapper, opening(options, Mode::On)?).await?;
    Ok(Held { pool, hold: None, room: None, waits: ClientWaits::new(env) })
}

async fn open(
    env: &UringEnv,
    group: &Group,
    options: &Options,
    wrapper: &Wrapper,
    warn: impl Fn(&Failure),
) -> Outcome<Held> {
    let (names, Claimed { drives, hold }) = pools::claim(env, group, options.others, warn).await?;
    let room = Room::new(env, &hold);
    let object = format!("pool {}", group.name);
    let open = async {
        let named = names.iter().zip(drives).map(|(name, drive)| wrapper.named(name, drive));
        let drives = named.collect::<Outcome<_>>()?;
        let otherwise = if group.wants_detection() { Mode::On } else { Mode::Watch };
        let opening = opening(options, otherwise)?;
        let opened = pools::open_group(env, drives, group, opening);
        match select(pin!(opened), pin!(room.runs_out())).await {
            Either::Left((opened, _)) => opened,
            Either::Right((short, _)) => Err(no_room(&object, &short)),
        }
    };
    let pool = hold.release_unless(held::while_held(Some(&hold), &object, open)).await?;
    // Opened again, a pool takes a drive that it could not do without as it is.
    hold.fail_unclaimed();
    Ok(Held { pool, hold: Some(hold), room: Some(room), waits: ClientWaits::new(env) })
}

fn no_room(object: &str, short: &Short) -> Failure {
    Failure::new(object, format!("its drives can't be written: {short}"))
        .hint("make room on their filesystem, and try again")
}

/// `otherwise`: what is done about spikes, if nobody said it.
fn opening(options: &Options, otherwise: Mode) -> Outcome<Opening> {
    Ok(Opening {
        read_only: false,
        spikes: options.spikes.handling(otherwise)?,
        write_hole: options.write_hole,
        rebuild_after: options.rebuild_after.time(),
    })
}

/// Exports are named POOL/VOL, so two pools of one name can't be told apart.
fn name_is_free(served: &[Held], name: &str) -> Outcome<()> {
    if served.iter().all(|held| held.pool.name() != name) {
        return Ok(());
    }
    Err(Failure::new(format!("pool {name}"), "another pool of this name is being served")
        .hint("serve it with a server of its own, with other --nbd and --control"))
}

/// A failure of a drive, said as the pool's.
fn of_pool(name: &str, failure: Failure) -> Failure {
    let object = format!("pool {name}");
    if failure.object == object {
        return failure;
    }
    Failure { object, what: format!("{}: {}", failure.object, failure.what), ..failure }
}
