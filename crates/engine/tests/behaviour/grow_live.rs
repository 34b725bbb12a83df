//! Drives join a pool that is used: every request is answered, nothing that was promised is lost,
//! and whatever goes wrong leaves the pool as it was or with all of its drives.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use engine::{
    AddError, Added, CreateSpec, DriveOverride, DriveState, EventKind, OpenError, OpenOptions,
    Pool, Volume, VolumeLimits,
};
use futures_util::future::{join, join_all};
use io::rng::Rng;
use io::virt::{CutMode, Disk, VirtEnv};
use io::{Env, Nanos, Operation};

use crate::common::{MIB, Mirror, check_all, sleep};
use crate::grow::{attach, audit, disks, make, open, prove, until_balanced};

const VOLUME: u64 = 4 * MIB;
const CLIENTS: usize = 3;
const BLOCK: u64 = 64 << 10;

/// Writes and reads a volume of its own, and knows what must be there.
struct Client {
    name: String,
    mirror: RefCell<Mirror>,
    /// What was asked for and not answered: old or new.
    pending: Cell<Option<(u64, u64)>>,
    answered: Cell<u64>,
}

impl Client {
    async fn run(&self, env: &VirtEnv, volume: Volume<VirtEnv>, seed: u64, over: &Cell<bool>) {
        let mut rng = Rng::new(seed);
        while !over.get() {
            let len = [512, 4096, BLOCK, 6 * BLOCK][rng.index(4)];
            let offset = rng.below((VOLUME - len) / 512 + 1) * 512;
            let begin = env.now();
            match rng.below(10) {
                0 => volume.flush().await.expect("flush"),
                1 => {
                    self.pending.set(Some((offset, len)));
                    self.mirror.borrow_mut().zero(offset, len);
                    volume.write_zeroes(offset, len, true, true).await.expect("zeroes");
                }
                2 => drop(volume.read(offset, len as u32).await.expect("read")),
                _ => {
                    self.pending.set(Some((offset, len)));
                    let data = self.mirror.borrow_mut().fill(&mut rng, offset, len);
                    volume.write(offset, data, true).await.expect("write");
                }
            }
            self.pending.set(None);
            self.answered.set(self.answered.get() + 1);
            let took = env.now().saturating_sub(begin);
            assert!(took < Nanos::from_secs(2), "{}: {took}", self.name);
        }
    }

    /// What was promised is there; of what was not, whatever is there counts from now on.
    async fn check(&self, pool: &Pool<VirtEnv>, when: &str) {
        let volume = pool.volume(&self.name).expect("made");
        if let Some((offset, len)) = self.pending.take() {
            let pieces = volume.read(offset, len as u32).await.expect("readable");
            let found = pieces.concat();
            self.mirror.borrow_mut().bytes[offset as usize..][..found.len()]
                .copy_from_slice(&found);
        }
        let mirror = Mirror { bytes: self.mirror.borrow().bytes.clone() };
        check_all(&volume, &mirror, &format!("{when}, {}", self.name)).await;
    }
}

fn clients() -> Rc<Vec<Client>> {
    let client = |at: usize| Client {
        name: format!("v{at}"),
        mirror: RefCell::new(Mirror::new(VOLUME)),
        pending: Cell::new(None),
        answered: Cell::new(0),
    };
    Rc::new((0..CLIENTS).map(client).collect())
}

async fn used(env: &VirtEnv, disks: &[Disk], parity: u8) -> Pool<VirtEnv> {
    let pool = make(env, disks, &CreateSpec { parity, ..CreateSpec::new("tank") }).await;
    for at in 0..CLIENTS {
        pool.volume_create(&format!("v{at}"), VOLUME, None, None).await.expect("thin");
    }
    pool
}

/// Drives join after a while, while clients run until some time after.
async fn add_under_load(
    env: &VirtEnv,
    pool: &Pool<VirtEnv>,
    clients: &[Client],
    new: &[Disk],
    seed: u64,
) -> Result<Added, AddError> {
    let over = Cell::new(false);
    let mut running = Vec::new();
    for (at, client) in clients.iter().enumerate() {
        let volume = pool.volume(&client.name).expect("made");
        running.push(client.run(env, volume, seed * 10 + at as u64, &over));
    }
    let add = async {
        sleep(env, 20).await;
        let done = pool.drives_add(&attach(env, new)).await;
        sleep(env, 20).await;
        over.set(true);
        done
    };
    join(join_all(running), add).await.1
}

fn told(pool: &Pool<VirtEnv>, kind: EventKind) -> usize {
    pool.events(0).iter().filter(|event| event.kind == kind).count()
}

#[test]
fn drives_join_while_clients_write() {
    for (seed, parity) in [(1, 1), (2, 2)] {
        let env = VirtEnv::new(seed);
        let all = disks(&[64, 64, 64, 64, 64, 64, 64, 96, 64], 40 * seed);
        let clients = clients();
        env.block_on(async {
            let pool = used(&env, &all[..6], parity).await;
            pool.drive_decide(3, DriveOverride::Trusted).expect("there");
            let mut before = pool.status();
            for count in [8, 9] {
                let when = format!("seed {seed}, {count} drives");
                let (old, new) = (before.drives.len(), &all[before.drives.len()..count]);
                let done = add_under_load(&env, &pool, &clients, new, seed).await;
                let Added { plan, pause } = done.expect("they join");
                assert!(pause < Nanos::from_millis(200), "{when}: {pause}");
                let status = pool.status();
                assert_eq!((status.drives.len(), plan.drives), (count, count), "{when}");
                assert_eq!(status.redundancy_margin, parity, "{when}");
                assert!(status.space.usable >= before.space.usable, "{when}");
                assert_eq!(status.drives[3].decided, DriveOverride::Trusted, "{when}");
                let writes = |status: &engine::PoolStatus| {
                    let drives = status.drives[..old].iter();
                    let counted: u64 = drives.map(|drive| drive.counters.writes).sum();
                    (status.counters.writes, status.counters.journal_blocks, counted)
                };
                let (then, now) = (writes(&before), writes(&status));
                assert!(now.0 > then.0 && now.1 > then.1 && now.2 > then.2, "{then:?} {now:?}");
                let numbers: Vec<u64> = pool.events(0).iter().map(|event| event.sequence).collect();
                assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
                for client in &*clients {
                    client.check(&pool, &when).await;
                }
                audit(&pool, &when).await;
                before = status;
            }
            assert_eq!(told(&pool, EventKind::DrivesAdded), 2);
            assert!(clients.iter().all(|client| client.answered.get() > 20));
            pool.rebalance().await.expect("begins");
            until_balanced(&env, &pool).await;
            audit(&pool, "balanced").await;
            pool.volume_limit("v0", VolumeLimits { iops: 10, bytes_per_sec: 0 })
                .await
                .expect("set");
            pool.close().await.expect("closes");
            let pool = open(&env, &all).await;
            assert!(pool.status().recovery.clean);
            for client in &*clients {
                client.check(&pool, "opened").await;
            }
            pool.close().await.expect("closes");
            let mirror = Mirror { bytes: clients[1].mirror.borrow().bytes.clone() };
            prove(&env, &all, ("v1", parity.into()), &mirror, "in the end").await;
        });
        env.crash();
    }
}

/// Writes of an addition under load, from when it was asked for on.
fn writes_to_join() -> u64 {
    let env = VirtEnv::new(77);
    let (all, clients) = (disks(&[64; 6], 770), clients());
    let pool = env.block_on(used(&env, &all[..4], 1));
    let begin = env.writes_issued();
    env.block_on(add_under_load(&env, &pool, &clients, &all[4..], 1)).expect("they join");
    let writes = env.writes_issued() - begin;
    drop(pool);
    env.crash();
    writes
}

/// The power goes at any write: the pool opens as it was or with all of its drives.
#[test]
fn power_cuts_while_drives_join_a_pool_in_use() {
    let writes = writes_to_join();
    let mut joined = [0; 2];
    for seed in 0..40 {
        let env = VirtEnv::new(1000 + seed);
        let all = disks(&[64; 6], 50 * seed);
        let (mut rng, clients) = (Rng::new(seed), clients());
        let pool = env.block_on(used(&env, &all[..4], 1));
        env.set_write_limit(env.writes_issued() + rng.below(writes * 11 / 10));
        let stop = || env.write_limit_reached();
        let _ = env.run_until(add_under_load(&env, &pool, &clients, &all[4..], seed), stop);
        env.crash();
        drop(pool);
        all.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
        env.set_write_limit(u64::MAX);
        let when = format!("seed {seed}");
        env.block_on(async {
            let pool = open_either(&env, &all, 4, &when).await;
            let drives = pool.status().drives.len();
            joined[usize::from(drives == 6)] += 1;
            assert!(drives == 4 || drives == 6, "{when}: {drives}");
            for client in &*clients {
                client.check(&pool, &when).await;
            }
            audit(&pool, &when).await;
            if drives == 4 {
                let done = add_under_load(&env, &pool, &clients, &all[4..], seed + 1).await;
                done.expect("a second attempt");
            }
            assert_eq!(pool.status().redundancy_margin, 1, "{when}");
            pool.close().await.expect("closes");
            let pool = open(&env, &all).await;
            for client in &*clients {
                client.check(&pool, &when).await;
            }
            audit(&pool, &when).await;
            pool.close().await.expect("closes");
        });
        env.crash();
    }
    assert!(joined.iter().all(|&count| count > 2), "cuts on both sides: {joined:?}");
}

/// At each write of an addition that nobody is beside. The new drives' first labels are some
/// checkpoints older than those that name them, and no drive is called out of date for it.
#[test]
fn a_power_cut_at_each_write_of_an_addition() {
    let run = |limit: u64| {
        let env = VirtEnv::new(78);
        let all = disks(&[64; 6], 780);
        let pool = env.block_on(used(&env, &all[..4], 1));
        let begin = env.writes_issued();
        env.set_write_limit(begin + limit);
        let new = attach(&env, &all[4..]);
        let over = env.run_until(pool.drives_add(&new), || env.write_limit_reached()).is_some();
        let writes = env.writes_issued() - begin;
        env.crash();
        drop(pool);
        let mut fate = Rng::new(limit);
        all.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::Random));
        env.set_write_limit(u64::MAX);
        let when = format!("at write {limit}");
        if !over {
            let pool = env.block_on(open_either(&env, &all, 4, &when));
            let drives = pool.status().drives;
            let whole = drives.iter().filter(|drive| drive.state == DriveState::Active).count();
            assert!([4, 6].contains(&whole) && whole == drives.len(), "{when}: {drives:?}");
        }
        env.crash();
        writes
    };
    let writes = run(u64::MAX / 2);
    (1..=writes).for_each(|limit| assert!(run(limit) > 0));
}

/// All are plugged in, or those that have labels.
async fn open_either(env: &VirtEnv, all: &[Disk], few: usize, when: &str) -> Pool<VirtEnv> {
    match Pool::open(env, attach(env, all), OpenOptions::default()).await {
        Ok(pool) => pool,
        Err(error @ OpenError::NotOurs { .. }) => {
            assert!(error.to_string().contains("no label"), "{when}: {error}");
            open(env, &all[..few]).await
        }
        Err(error) => panic!("{when}: {error}"),
    }
}

/// A new drive fails at any of its writes, or an old one at any of its own: requests are answered
/// all the same, and the pool is as it was, or has all drives but the old one that failed.
#[test]
fn drives_that_fail_while_they_join() {
    let (mut refused, mut joined) = (0, 0);
    for seed in 0..40 {
        let env = VirtEnv::new(2000 + seed);
        let all = disks(&[64; 7], 60 * seed);
        let (mut rng, clients) = (Rng::new(seed), clients());
        let new_fails = seed % 4 != 0;
        env.block_on(async {
            let pool = used(&env, &all[..4], 1).await;
            let when = format!("seed {seed}");
            let operation = if rng.chance(1, 3) { Operation::Read } else { Operation::Write };
            let kind = io::DriveErrorKind::Os(5);
            match new_fails {
                // Its ends are erased first, by a dozen writes.
                true => all[5].fail_nth(operation, 1 + rng.below(24), kind),
                false => all[2].fail_nth(Operation::Write, 150 + rng.below(300), kind),
            }
            let done = add_under_load(&env, &pool, &clients, &all[4..6], seed).await;
            let drives = pool.status().drives.len();
            match &done {
                Ok(_) => joined += 1,
                Err(AddError::Drive { .. } | AddError::Missing { .. }) => refused += 1,
                Err(error) => panic!("{when}: {error}"),
            }
            assert_eq!(drives, if done.is_ok() { 6 } else { 4 }, "{when}");
            for client in &*clients {
                client.check(&pool, &when).await;
            }
            audit(&pool, &when).await;
            assert!(pool.status().failed.is_none(), "{when}");
            if done.is_err() && new_fails {
                assert_eq!(pool.status().redundancy_margin, 1, "{when}");
                let new = [all[4].clone(), all[6].clone()];
                let again = add_under_load(&env, &pool, &clients, &new, seed + 1).await;
                assert_eq!(again.expect("a second attempt").plan.drives, 6);
                for client in &*clients {
                    client.check(&pool, &when).await;
                }
                audit(&pool, &when).await;
            }
            pool.close().await.expect("closes");
        });
        env.crash();
    }
    assert!(refused > 5 && joined > 5, "{refused} and {joined}");
}

#[test]
fn what_can_not_join_a_pool_in_use_is_refused() {
    let env = VirtEnv::new(66);
    let all = disks(&[64, 64, 64, 64, 64, 8], 660);
    env.block_on(async {
        let pool = used(&env, &all[..4], 1).await;
        let add = async |new: &[Disk]| pool.drives_add(&attach(&env, new)).await;
        let small = add(&all[5..]).await;
        assert!(matches!(small, Err(AddError::TooSmall { .. })), "{small:?}");
        let own = add(&all[2..3]).await;
        assert!(matches!(own, Err(AddError::NotEmpty { .. })), "{own:?}");
        let none = add(&[]).await;
        assert!(matches!(none, Err(AddError::Count { added: 0, .. })), "{none:?}");
        let spare = disks(&[64], 661);
        pool.drive_replace(1, attach(&env, &spare).remove(0)).await.expect("begins");
        let busy = add(&all[4..5]).await;
        assert!(matches!(busy, Err(AddError::Busy { .. })), "{busy:?}");
        while pool.status().drives[1].replacing.is_some() {
            sleep(&env, 50).await;
        }
        pool.drive_fail(0, "test", true).await.expect("it may go");
        let lost = add(&all[4..5]).await;
        assert!(matches!(lost, Err(AddError::Missing { index: 0, .. })), "{lost:?}");
        pool.close().await.expect("closes");
        let closed = add(&all[4..5]).await;
        assert!(matches!(closed, Err(AddError::Request(_))), "{closed:?}");
    });
    env.crash();
}
