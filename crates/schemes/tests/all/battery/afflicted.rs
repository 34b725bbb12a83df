//! Worlds in which drives rot, go stale or disappear while nobody is there: after a crash at any
//! write, or a clean end. As many drives as could be lost are hurt together, each in its own way:
//! some pages rot, all of it is noise, an image of long ago is in its place, it is gone. What was
//! flushed is right all the same.

use format::LABEL_LEN;
use io::rng::Rng;
use io::virt::{Disk, VirtDrive};
use schemes::Replace;

use crate::battery::replaced::Replaced;
use crate::battery::rotten::{is_label, settle, spoil, victims};
use crate::battery::world::{
    REQUESTS, Subject, World, failures, one_made, world_of, worlds_called,
};
use crate::scrub::scrub;

/// Worlds of a kind; with the other kinds 203. Others with SCHEME_FIRST and SCHEME_SEEDS.
const SEEDS: u64 = 87;
const PAGE: u64 = 4096;
/// Pages of a drive that rot at a time.
const ROTTEN: usize = 40;
/// So much longer are sessions in which a drive is slow: they write several pages of the checksum
/// log, each of which it has later than the others.
const LONGER: usize = 4;
/// Images of all drives that are kept, one for each round.
const IMAGES: usize = 3;

/// How a page of the checksum log begins.
const LOG_MAGIC: &[u8] = b"STDYCLOG";
/// What a world says that holds other bytes than were written.
pub const WRONG: &str = "holds write";

/// What a world leaves out, to see that it is noticed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Nothing,
    /// Whoever opens the array finds no checksum log.
    Log,
}

/// What sets worlds apart.
#[derive(Clone, Copy)]
struct Plot {
    left: Left,
    /// A drive is slow at any time, another one in each session.
    is_lagging: bool,
    /// A drive, another one in each session, answers writes that it does not do.
    is_losing: bool,
    /// What may become of a drive.
    kinds: &'static [Affliction],
}

const PLAIN: Plot =
    Plot { left: Left::Nothing, is_lagging: false, is_losing: false, kinds: &KINDS };
const LAGGING: Plot = Plot { is_lagging: true, ..PLAIN };
const LOSING: Plot = Plot { is_losing: true, ..PLAIN };
/// Of a million writes those that such a drive does not do.
const LOST: [u32; 3] = [1_000_000, 300_000, 20_000];
const MIXED_UP: Plot =
    Plot { kinds: &[Affliction::MixedUp, Affliction::MixedUp, Affliction::Stale], ..PLAIN };
const KINDS: [Affliction; 7] = [
    Affliction::Rot,
    Affliction::Rot,
    Affliction::Noise,
    Affliction::Wiped,
    Affliction::Stale,
    Affliction::Stale,
    Affliction::Gone,
];

/// What becomes of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Affliction {
    Rot,
    /// All but its labels.
    Noise,
    /// Labels as well.
    Wiped,
    Stale,
    Gone,
    /// A part of it is what another drive has there.
    MixedUp,
}

/// Worlds of a subject whose drives are hurt at rest.
pub fn battery_afflicted<S: Subject>(subject: S)
where
    S::Store: Replace<Drive = VirtDrive>,
{
    stories("hurt at rest", subject, SEEDS, PLAIN);
    stories("hurt at rest", Replaced(subject), SEEDS / 3, PLAIN);
    stories("mixed up", subject, SEEDS / 3, MIXED_UP);
    battery_lagging(subject, SEEDS / 3);
    stories("losing writes", subject, SEEDS / 3, LOSING);
}

/// So many worlds of a kind.
fn stories<S: Subject>(kind: &str, subject: S, seeds: u64, plot: Plot)
where
    S::Store: Replace<Drive = VirtDrive>,
{
    let name = format!("{}, {kind},", subject.name());
    worlds_called(&name, subject, seeds, |world| story(world, plot));
}

/// So many worlds in which a drive is slow at any time, another one in each session.
pub fn battery_lagging<S: Subject>(subject: S, seeds: u64)
where
    S::Store: Replace<Drive = VirtDrive>,
{
    stories("with a slow drive", subject, seeds, LAGGING);
}

/// One such world.
pub fn one_lagging<S: Subject>(subject: S, seed: u64)
where
    S::Store: Replace<Drive = VirtDrive>,
{
    story(world_of(subject, seed), LAGGING);
}

/// One whose drives are hurt at rest.
pub fn one_hurt<S: Subject>(subject: S, seed: u64)
where
    S::Store: Replace<Drive = VirtDrive>,
{
    story(world_of(subject, seed), PLAIN);
}

/// One whose drives are mixed up.
pub fn one_mixed_up<S: Subject>(subject: S, seed: u64)
where
    S::Store: Replace<Drive = VirtDrive>,
{
    story(world_of(subject, seed), MIXED_UP);
}

/// One in which a drive answers writes and does not do them.
pub fn one_losing<S: Subject>(subject: S, seed: u64)
where
    S::Store: Replace<Drive = VirtDrive>,
{
    story(world_of(subject, seed), LOSING);
}

/// One of a battery that failed once.
pub fn one_afflicted<S: Subject>(subject: S, seed: u64)
where
    S::Store: Replace<Drive = VirtDrive>,
{
    story(one_made(subject, seed), PLAIN);
}

/// How many of some worlds find other bytes than were written; whatever else goes wrong is no
/// proof that this would be noticed.
pub fn afflicted_failing<S: Subject>(subject: S, seeds: u64, left: Left) -> usize
where
    S::Store: Replace<Drive = VirtDrive>,
{
    let all = failures(subject, seeds, |world| story(world, Plot { left, ..PLAIN }));
    all.iter().filter(|said| said.contains(WRONG)).count()
}

fn story<S: Subject>(mut world: World<S>, plot: Plot)
where
    S::Store: Replace<Drive = VirtDrive>,
{
    let mut images: Vec<Vec<Disk>> = Vec::new();
    for _ in 0..4 {
        images.push(world.disks.iter().map(Disk::fork).collect());
        images.drain(..images.len().saturating_sub(IMAGES));
        let mut limit = 1 + world.rng.below(600);
        if plot.is_lagging {
            world.slow = Some(world.rng.index(world.disks.len()));
            world.requests = LONGER * REQUESTS;
            limit *= LONGER as u64;
        }
        if plot.is_losing {
            world.losing = draw_losing(&mut world);
        }
        let cut = world.session(limit);
        if cut {
            world.stop();
        }
        match world.losing.take() {
            Some(_) if cut => {
                world.doubt_lost();
                if world.is_refused() {
                    return;
                }
            }
            Some(_) => {}
            None => afflict(&mut world, &images, cut, plot.kinds),
        }
        if plot.left == Left::Log {
            world.disks.iter().for_each(forget_log);
        }
        // Whoever opens it first may not get far.
        for _ in 0..world.rng.below(3) {
            let (pieces, limit) = (world.rng.below(20), 1 + world.rng.below(120));
            world.cut_short(pieces, limit);
        }
        // What rotted where nothing was written is put right when it is read, or by a scrub.
        world.check_bytes(false);
        heal(&mut world);
    }
}

/// A drive that could be lost, and how it lies.
fn draw_losing<S: Subject>(world: &mut World<S>) -> Option<(usize, u32)> {
    let part = LOST[world.rng.index(LOST.len())];
    let drives = victims(world);
    (!drives.is_empty()).then(|| (drives[world.rng.index(drives.len())], part))
}

fn afflict<S: Subject>(
    world: &mut World<S>,
    images: &[Vec<Disk>],
    cut: bool,
    kinds: &[Affliction],
) {
    let mut hurt = victims(world);
    let count = 1 + world.rng.index(hurt.len().max(1));
    hurt.truncate(count);
    let mut rotted = false;
    for &drive in &hurt {
        let kind = kinds[world.rng.index(kinds.len())];
        let mut rng = Rng::new(world.rng.next_u64());
        // A part of it is wrong: the rest does not show that.
        rotted |= matches!(kind, Affliction::Rot | Affliction::MixedUp);
        match kind {
            Affliction::Rot => {
                let (disk, blank) = (&world.disks[drive], world.fresh(drive));
                spoil(disk, &blank, ROTTEN, &mut rng);
            }
            Affliction::Noise | Affliction::Wiped => {
                noise(&world.disks[drive], kind == Affliction::Wiped, &mut rng);
            }
            Affliction::Stale => {
                world.disks[drive] = images[rng.index(images.len())][drive].fork();
            }
            Affliction::Gone => world.unplugged[drive] = true,
            Affliction::MixedUp => mix_up(&world.disks, drive, &mut rng),
        }
    }
    if cut && !hurt.is_empty() {
        world.doubt_unflushed(rotted);
    }
}

/// A range of a drive becomes what another one has there, but for labels.
fn mix_up(disks: &[Disk], drive: usize, rng: &mut Rng) {
    let other = rng.index(disks.len());
    let size = disks[drive].geometry().size.min(disks[other].geometry().size);
    let first = rng.below(size / PAGE);
    let end = first + 1 + rng.below(size / PAGE - first);
    for at in (first..end).map(|page| page * PAGE) {
        if !is_label(&disks[drive], at) {
            disks[drive].mix_up(at, &disks[other].peek(at, PAGE as usize));
        }
    }
}

/// All of a drive becomes noise, but for its labels, or with them.
pub fn noise(disk: &Disk, labels: bool, rng: &mut Rng) {
    let mut at = 0;
    while at < disk.geometry().size {
        if !labels && is_label(disk, at) {
            at += LABEL_LEN as u64;
            continue;
        }
        disk.corrupt(at, PAGE, rng.next_u64());
        at += PAGE;
    }
}

fn forget_log(disk: &Disk) {
    for at in (0..disk.geometry().size).step_by(PAGE as usize) {
        if disk.peek(at, LOG_MAGIC.len()) == LOG_MAGIC {
            disk.corrupt(at, PAGE, at);
        }
    }
}

/// All drives are there and whole again.
fn heal<S: Subject>(world: &mut World<S>)
where
    S::Store: Replace<Drive = VirtDrive>,
{
    let is_gone = |at: &usize| world.unplugged[*at] || world.disks[*at].is_failed();
    let gone: Vec<usize> = (0..world.disks.len()).filter(is_gone).collect();
    for at in gone {
        world.disks[at] = world.fresh(at);
        world.unplugged[at] = false;
    }
    let store = world.opened();
    world.env.block_on(world.replace_lost(&store));
    world.env.block_on(scrub(&store));
    if world.subject.copies_later() {
        settle(world, &store);
    }
    world.audit(&store);
    world.close(store);
}
