//! Worlds in which drives rot: bytes of what was written change at rest and beside requests, and
//! reads are refused, on as many drives as could be lost. Every read is right all the same; a scrub
//! puts everything right, loses nothing, and leaves nothing to a second one.

use classical::Scrubbed;
use format::LABEL_LEN;
use futures_util::future::join;
use io::virt::Disk;
use io::{Env, Nanos};
use schemes::Store;

use crate::battery::world::{Subject, World, failures, worlds};
use crate::scrub::scrub;

const PAGE: u64 = 4096;
/// How a label begins.
const LABEL_MAGIC: &[u8] = b"STDYRAID";
/// Worlds; more with SCHEME_SEEDS.
const SEEDS: u64 = 12;
/// Pages of a drive that rot at rest: among them every second of those that clients wrote.
const AT_REST: usize = 40;
/// How often one rots, or a read is refused, beside the requests of a session.
const BESIDE: u64 = 20;

/// What a world leaves out, to see that it is noticed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Nothing,
    Scrub,
}

pub fn battery_rotten<S: Subject>(subject: S) {
    worlds(subject, SEEDS, |mut world| rounds(&mut world, Left::Nothing));
}

/// How many of some worlds fail.
pub fn failing<S: Subject>(subject: S, seeds: u64, left: Left) -> usize {
    failures(subject, seeds, |mut world| rounds(&mut world, left)).len()
}

fn rounds<S: Subject>(world: &mut World<S>, left: Left) {
    let store = world.opened();
    agree(world, &store);
    world.close(store);
    for _ in 0..3 {
        let victims = victims(world);
        world.rot(&victims, AT_REST);
        let store = world.opened();
        beside(world, &store, &victims);
        if left == Left::Nothing {
            let first = world.env.block_on(scrub(&store));
            assert_eq!(first.lost, 0, "{first:?}");
            let Scrubbed { bad, parity, lost, metadata, .. } = world.env.block_on(scrub(&store));
            assert_eq!((bad, parity, lost, metadata), (0, 0, 0, 0), "a second scrub");
        }
        settle(world, &store);
        // One whose labels rotted is lost.
        if store.lost().is_empty() {
            world.audit(&store);
        }
        world.close(store);
    }
    world.check();
}

/// Nothing is owed: a stripe that nobody has looked at since it was made may hold anything.
fn agree<S: Subject>(world: &World<S>, store: &S::Store) {
    for _ in 0..20_000 {
        if store.owed() == 0 {
            return;
        }
        world.env.block_on(async {
            store.work().await.unwrap_or_else(|error| panic!("work: {error}"));
            world.env.sleep_until(world.env.now() + Nanos::from_micros(100)).await;
        });
    }
    panic!("{} stripes are owed still", store.owed());
}

/// What lost a copy because nobody knew it for one has two again.
pub fn settle<S: Subject>(world: &World<S>, store: &S::Store) {
    for _ in 0..300 {
        let work = world.env.block_on(store.work());
        work.unwrap_or_else(|error| panic!("work: {error}"));
    }
}

/// As many drives as can be lost together, beside those that are.
pub fn victims<S: Subject>(world: &mut World<S>) -> Vec<usize> {
    let count = world.disks.len();
    let gone: Vec<bool> =
        (0..count).map(|at| world.unplugged[at] || world.disks[at].is_failed()).collect();
    let mut rotten = gone.clone();
    for _ in 0..2 * count {
        let drive = world.rng.index(count);
        let before = std::mem::replace(&mut rotten[drive], true);
        rotten[drive] = before || world.subject.survives(&rotten);
    }
    (0..count).filter(|drive| rotten[*drive] && !gone[*drive]).collect()
}

fn beside<S: Subject>(world: &mut World<S>, store: &S::Store, victims: &[usize]) {
    let (seed, mut rng) = (world.rng.next_u64(), io::rng::Rng::new(world.rng.next_u64()));
    let clients = world.clients(store, seed);
    // A disk refuses one read at a time: when it has done so many.
    let mut refused = vec![0; world.disks.len()];
    let rot = async {
        for _ in 0..BESIDE {
            world.env.sleep_until(world.env.now() + Nanos(rng.below(1_000_000))).await;
            if victims.is_empty() {
                continue;
            }
            let at = victims[rng.index(victims.len())];
            let victim = &world.disks[at];
            let reads = victim.counters().reads;
            match rng.chance(1, 3) && refused[at] < reads {
                true => {
                    let n = 1 + rng.below(4);
                    refused[at] = reads + n;
                    victim.fail_nth_read(n);
                }
                false => spoil(victim, &world.blank(victim), 1, &mut rng),
            }
            store.work().await.unwrap_or_else(|error| panic!("work: {error}"));
        }
    };
    let requests = futures_util::future::join_all(clients.iter().map(|client| client.work(40)));
    world.env.block_on(join(requests, rot));
    world.env.block_on(clients[0].flush());
}

/// A label begins at this byte.
pub fn is_label(disk: &Disk, at: u64) -> bool {
    disk.peek(at, LABEL_MAGIC.len()) == LABEL_MAGIC
}

/// Changes some bytes of so many pages of a disk that are not as on a blank one; labels are left
/// alone, or a drive would be lost before anything else.
pub fn spoil(disk: &Disk, blank: &Disk, pages: usize, rng: &mut io::rng::Rng) {
    let size = disk.geometry().size;
    let page = |disk: &Disk, at: u64| disk.peek(at * PAGE, PAGE as usize);
    let mut written = Vec::new();
    let mut at = 0;
    while at < size / PAGE {
        let bytes = page(disk, at);
        if is_label(disk, at * PAGE) {
            at += LABEL_LEN as u64 / PAGE;
            continue;
        }
        if bytes != page(blank, at) {
            written.push(at);
        }
        at += 1;
    }
    for _ in 0..pages.min(written.len()) {
        let at = written.swap_remove(rng.index(written.len())) * PAGE;
        let (within, len) = (rng.below(PAGE - 8), 1 + rng.below(8));
        disk.corrupt(at + within, len, rng.next_u64());
    }
}

impl<S: Subject> World<S> {
    /// Noise, as it was before it was used.
    fn blank(&self, disk: &Disk) -> Disk {
        let at = self.disks.iter().position(|own| own.name() == disk.name()).expect("ours");
        self.fresh(at)
    }

    fn rot(&mut self, victims: &[usize], pages: usize) {
        for &victim in victims {
            let mut rng = io::rng::Rng::new(self.rng.next_u64());
            spoil(&self.disks[victim], &self.fresh(victim), pages, &mut rng);
        }
    }
}
