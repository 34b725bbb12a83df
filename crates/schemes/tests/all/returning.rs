//! Stores whose drives go away and come back, in any of the ways in which that happens. What one
//! holds afterwards is looked at with others lost, so that nothing else can answer; without
//! checksums nothing but that finds a stale page.

use std::cell::RefCell;
use std::fmt::Debug;
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::{join, join_all};
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos};
use schemes::{Replace, Store, StoreError};

/// As long as marks rest before they are taken back, and more.
const REST: Nanos = Nanos::from_secs(6);
/// Steps after which whatever was begun must be done.
const STEPS_MAX: usize = 4000;
/// Written at a time at first.
const AT_ONCE: u64 = 1 << 20;

/// Which store it is.
pub trait Shelf: Copy + Debug {
    type Store: Store + Replace<Drive = VirtDrive> + Clone;

    /// Bytes of each drive, group by group; others after those.
    fn drives(&self) -> Vec<u64>;

    /// Drives of a group, groups, and of each how many may be lost.
    fn shape(&self) -> (usize, usize, usize);

    async fn create(
        &self,
        env: &VirtEnv,
        drives: &[VirtDrive],
        checksums: bool,
    ) -> Result<(), StoreError>;

    async fn open(&self, env: &VirtEnv, drives: Vec<VirtDrive>) -> Result<Self::Store, StoreError>;

    /// What of so many bytes is written, of each group if they have parts of their own.
    fn used(&self, size: u64) -> Vec<Range<u64>>;

    /// Something beside writes.
    fn stir(&self, _store: &Self::Store, _drive: usize, _on: bool) {}

    /// A way to be pulled of its own.
    fn pull(world: &mut World<Self>, _gone: usize) {
        world.rest();
    }

    /// Has that noticed, if once more is enough.
    fn notice(world: &mut World<Self>, _gone: usize) {
        world.write_some();
        world.flush();
    }
}

pub struct World<S: Shelf> {
    pub env: VirtEnv,
    pub disks: Vec<Disk>,
    pub shelf: S,
    store: Option<S::Store>,
    truth: Rc<RefCell<Vec<u8>>>,
    /// Written since the last flush: a power cut may leave anything of it.
    unsure: Rc<RefCell<Vec<(u64, u64)>>>,
    pub rng: Rng,
}

impl<S: Shelf> World<S> {
    /// Every byte that is used written once, no mark left.
    pub fn new(shelf: S, seed: u64, checksums: bool) -> World<S> {
        let env = VirtEnv::new(seed);
        let disk = |(at, size): (u64, u64)| Disk::new(format!("d{at}"), size, 512, seed ^ (at + 1));
        let disks: Vec<Disk> = (0..).zip(shelf.drives()).map(disk).collect();
        let (truth, unsure, rng) = (Rc::default(), Rc::default(), Rng::new(seed));
        let mut world = World { env, disks, shelf, store: None, truth, unsure, rng };
        let drives = world.attach(&[]);
        world.env.block_on(shelf.create(&world.env, &drives, checksums)).expect("it fits");
        world.open(&[]);
        let size = world.store().size();
        world.truth.borrow_mut().resize(size as usize, 0);
        world.drain();
        for Range { start, end } in shelf.used(size) {
            for at in (start..end).step_by(AT_ONCE as usize) {
                world.write(at, AT_ONCE.min(end - at), false);
            }
        }
        world.rest();
        world
    }

    pub fn store(&self) -> S::Store {
        self.store.clone().expect("it is open")
    }

    fn attach(&self, without: &[usize]) -> Vec<VirtDrive> {
        let there = self.disks.iter().enumerate().filter(|(at, _)| !without.contains(at));
        there.map(|(_, disk)| VirtDrive::attach(&self.env, disk, Latency::SSD)).collect()
    }

    pub fn open(&mut self, without: &[usize]) {
        let opened = self.shelf.open(&self.env, self.attach(without));
        self.store = Some(self.env.block_on(opened).expect("it opens"));
    }

    pub fn close(&mut self) {
        let store = self.store.take().expect("it is open");
        self.env.block_on(store.close()).expect("it closes");
        self.unsure.take();
        self.env.crash();
    }

    pub fn write(&mut self, offset: u64, len: u64, fua: bool) {
        let write = self.writing(offset, len, fua);
        self.env.block_on(write);
    }

    /// A write of new bytes; it must succeed if it ends.
    fn writing(&mut self, offset: u64, len: u64, fua: bool) -> impl Future<Output = ()> + use<S> {
        let mut bytes = vec![0; len as usize];
        self.rng.fill(&mut bytes);
        let (store, truth, unsure) = (self.store(), self.truth.clone(), self.unsure.clone());
        async move {
            unsure.borrow_mut().push((offset, len));
            store.write(offset, Buf::from_slice(&bytes), fua).await.expect("writes");
            truth.borrow_mut()[offset as usize..(offset + len) as usize].copy_from_slice(&bytes);
        }
    }

    /// Some writes at once, none over another, to every group.
    pub fn burst(&mut self) -> Vec<impl Future<Output = ()> + use<S>> {
        let (drive, on) = (self.rng.index(self.disks.len()), self.rng.chance(1, 2));
        self.shelf.stir(&self.store(), drive, on);
        let used = self.shelf.used(self.store().size());
        let each = 1 + self.rng.below(4);
        let mut writes = Vec::new();
        for (Range { start, end }, part) in
            used.iter().flat_map(|own| (0..each).map(move |at| (own, at)))
        {
            let sectors = (end - start) / 512 / each;
            let len = 1 + self.rng.below(sectors.min(20));
            let sector = start / 512 + part * sectors + self.rng.below(sectors - len + 1);
            let fua = self.rng.chance(1, 2);
            writes.push(self.writing(sector * 512, len * 512, fua));
        }
        writes
    }

    pub fn write_some(&mut self) {
        let writes = self.burst();
        self.env.block_on(join_all(writes));
    }

    pub fn flush(&self) {
        self.env.block_on(self.store().flush()).expect("flushes");
        self.unsure.take();
    }

    /// What was marked is not any more, if that depends on time. Nothing is filled meanwhile.
    pub fn rest(&self) {
        Replace::hold(&self.store(), true);
        for _ in 0..2 {
            self.flush();
            self.env.block_on(self.env.sleep_until(self.env.now() + REST));
            while self.work() {}
        }
        Replace::hold(&self.store(), false);
        self.flush();
    }

    pub fn work(&self) -> bool {
        self.env.block_on(self.store().work()).expect("works")
    }

    /// A step of whatever is to be done, with writes beside.
    pub fn step(&mut self) {
        let (store, writes) = (self.store(), self.burst());
        self.env.block_on(join(store.work(), join_all(writes))).0.expect("works");
    }

    /// The same, and now and then writes.
    pub fn some_work(&mut self) {
        match self.rng.chance(1, 12) {
            true => self.step(),
            false => _ = self.work(),
        }
    }

    /// Nothing is stirred, and all is done that waits to be.
    pub fn drain(&self) {
        (0..self.disks.len()).for_each(|drive| self.shelf.stir(&self.store(), drive, false));
        // That there is something to do may be noticed one step later.
        for _ in 0..3 {
            while self.work() {}
        }
    }

    /// One thing that happens to a server that has these drives missing.
    pub fn happens(&mut self, without: &[usize]) {
        match self.rng.below(12) {
            0..7 => self.step(),
            7 => self.flush(),
            8 | 9 => self.rest(),
            10 => {
                self.close();
                self.open(without);
            }
            _ => self.cut(without),
        }
    }

    /// A power cut at any write; the drives that are not there have none.
    pub fn cut(&mut self, without: &[usize]) {
        let (writes, store) = (self.burst(), self.store());
        self.env.set_write_limit(self.env.writes_issued() + 1 + self.rng.below(60));
        let env = self.env.clone();
        let all = async {
            join(store.work(), join_all(writes)).await.0.expect("works");
            let _ = store.flush().await;
            env.sleep_until(env.now() + REST).await;
            let _ = store.flush().await;
        };
        self.env.run_until(all, || self.env.write_limit_reached());
        drop(store);
        self.die(without);
        // And perhaps another one in the middle of what opening does.
        if self.rng.chance(1, 3) {
            self.env.set_write_limit(self.env.writes_issued() + 1 + self.rng.below(40));
            let open = self.shelf.open(&self.env, self.attach(without));
            self.env.run_until(open, || self.env.write_limit_reached());
            self.die(without);
        }
        self.open(without);
        self.believe();
    }

    pub fn die(&mut self, without: &[usize]) {
        self.store = None;
        self.env.crash();
        let mut fate = Rng::new(self.rng.next_u64());
        let there = self.disks.iter().enumerate().filter(|(at, _)| !without.contains(at));
        there.for_each(|(_, disk)| disk.power_cut(&mut fate, CutMode::Random));
    }

    /// What was under way is what it is by now.
    pub fn believe(&mut self) {
        for (offset, len) in self.unsure.take() {
            let read = self.env.block_on(self.store().read(offset, len)).expect("it reads");
            self.truth.borrow_mut()[offset as usize..(offset + len) as usize]
                .copy_from_slice(&read);
        }
        // It was read: it must not change any more.
        self.flush();
    }

    /// A drive is away from now on.
    pub fn lose(&mut self, gone: usize) {
        match self.rng.below(5) {
            // Pulled in the middle of writes.
            0 => {
                let (writes, delay) = (self.burst(), Nanos::from_micros(self.rng.below(400)));
                let pull = async {
                    self.env.sleep_until(self.env.now() + delay).await;
                    self.disks[gone].set_failed(true);
                };
                self.env.block_on(join(join_all(writes), pull));
            }
            1 => S::pull(self, gone),
            2 => self.rest(),
            3 => {
                self.close();
                self.open(&[gone]);
            }
            _ => self.cut(&[gone]),
        }
        self.disks[gone].set_failed(true);
        // What it had in its cache need not have come through.
        let mut fate = Rng::new(self.rng.next_u64());
        self.disks[gone].power_cut(&mut fate, CutMode::Random);
        for _ in 0..20 {
            let filled = self.store().restoring().iter().any(|own| own.place == gone);
            if self.store().lost().contains(&gone) && !filled {
                self.disks[gone].set_failed(false);
                return;
            }
            S::notice(self, gone);
        }
        panic!("drive {gone} is not missed");
    }

    /// The drive in this place is back. Bytes that it is to be given; 0: it is whole.
    pub fn back(&mut self, place: usize) -> u64 {
        let new = VirtDrive::attach(&self.env, &self.disks[place], Latency::SSD);
        self.env.block_on(Replace::replace(&self.store(), place, new)).expect("it is lost");
        let restoring = self.store().restoring();
        restoring.iter().find(|own| own.place == place).map_or(0, |own| own.left)
    }

    /// Until nothing is on its way back, whether it came through or not.
    pub fn until_filled(&mut self) {
        let mut steps = 0;
        while !self.store().restoring().is_empty() {
            assert!(steps < STEPS_MAX, "on its way for ever: {:?}", self.store().counters());
            steps += 1;
            self.some_work();
        }
    }

    /// Until these drives, and no others, are lost.
    pub fn until_lost(&mut self, lost: &[usize], why: &str) {
        for _ in 0..STEPS_MAX {
            if self.store().lost() == lost {
                return;
            }
            self.some_work();
        }
        panic!("{why}: never so, {:?}", self.store().counters());
    }

    pub fn agrees(&self, store: &S::Store, why: &str) {
        let truth = self.truth.borrow();
        let read = self.env.block_on(store.read(0, truth.len() as u64)).expect("reads");
        let differs = read.iter().zip(&*truth).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{why}: not what was written, from that byte on");
    }

    /// Every byte, with whatever else may be lost beside: what came back has to answer.
    pub fn check(&mut self, why: &str) {
        self.drain();
        assert_eq!(self.store().lost(), [], "{why}");
        self.agrees(&self.store(), why);
        let size = self.store().size();
        let wrong = self.env.block_on(self.store().audit(0, size));
        assert_eq!(wrong, Vec::<String>::new(), "{why}");
        self.close();
        let disks = self.disks.clone();
        let (width, groups, tolerance) = self.shelf.shape();
        for first in 0..width {
            let more: Vec<usize> = (0..tolerance).map(|at| (first + at) % width).collect();
            let of = |group| more.iter().map(move |at| group * width + at);
            let gone: Vec<usize> = (0..groups).flat_map(of).collect();
            self.disks = disks.iter().map(Disk::fork).collect();
            self.open(&gone);
            self.agrees(&self.store(), &format!("{why}, without {gone:?}"));
            self.store = None;
            self.env.crash();
        }
        self.disks = disks;
        self.open(&[]);
    }
}
