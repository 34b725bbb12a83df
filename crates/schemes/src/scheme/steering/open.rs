//! Making and opening a steered array.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use classical::array::create as create_array;
use classical::member::Member;
use classical::{Array, ArrayError, CreateSpec, Grid, OpenOptions, Redundancy, label};
use format::{LABEL_AREA, MemberState, SCHEME_STEERING, Superblock};
use io::sync::{Event, Turn};
use io::{Drive, Env};

use super::drive::Steered;
use super::home::Home;
use super::record::{DRIVES_MAX, HEADS, Head, Spared};
use super::recover::Told;
use super::space::{Places, divide};
use super::spare::{self, Spare};
use super::stage::{Counts, Heads, Holder, Space, Stage, Target};
use super::{Inner, Options, Spec, Staging, Steering, recover};
use crate::part::{Part, on_parts};
use crate::popular::Popular;
use crate::set::{Set, SetSpec};
use crate::store::StoreError;

fn shape(what: impl Into<String>, hint: &'static str) -> StoreError {
    StoreError::Shape { what: what.into(), hint }
}

fn check(spec: &Spec, drives: usize) -> Result<(), StoreError> {
    if drives > DRIVES_MAX {
        let most = "a head of the staging space has room for 502: make two pools";
        return Err(shape(format!("{drives} drives"), most));
    }
    let width = spec.width.max(1);
    let tolerance = match spec.redundancy {
        Redundancy::Mirror => width - 1,
        Redundancy::Parity(parity) => parity,
        Redundancy::ParityDrive => 1,
    };
    let Staging::Reserved { bytes } = spec.staging else { return Ok(()) };
    // The own group has tolerance + 1 drives beside the busy one, or another group has.
    if width < tolerance + 2 && drives < 2 * width {
        return Err(shape(
            format!("a mirror of {width} drives has not {width} others for redirected writes"),
            "take a dedicated staging drive, or several mirrors (RAID10)",
        ));
    }
    let space = bytes.next_multiple_of(LABEL_AREA).saturating_sub(HEADS);
    match divide(HEADS, space, spec.chunk.max(1)) {
        Some(_) => Ok(()),
        None => Err(shape(
            format!("{bytes} bytes of each drive for staging"),
            "reserve more: a few MiB at least, 1 % of a drive or more is usual",
        )),
    }
}

/// Makes an array on these drives, the last of which is for staging if that is to be dedicated.
/// What is on them is gone.
pub async fn create<E: Env>(env: &E, drives: &[E::Drive], spec: &Spec) -> Result<(), StoreError> {
    check(spec, drives.len())?;
    let (split, side) = match spec.staging {
        Staging::Reserved { bytes } => (drives.len(), bytes.max(1)),
        Staging::Dedicated => (drives.len().saturating_sub(1), 1),
    };
    let Spec { redundancy, width, chunk, checksums, .. } = *spec;
    let name = spec.name.clone();
    let own = SetSpec { name: name.clone(), scheme: SCHEME_STEERING, split, chunk, side };
    let set = Set::plan(env, drives, &own)?;
    let inside = CreateSpec { name, redundancy, width, chunk, checksums };
    create_array(&on_parts(env), &set.first(0..split), &inside).await?;
    if spec.staging == Staging::Dedicated && divide(0, set.label.zones.len, chunk).is_none() {
        return Err(shape("the dedicated drive is too small", "take a larger one"));
    }
    recover::write_first(&set.label.pool, &set.second(0..drives.len()), split).await?;
    set.write_labels().await
}

/// The newest label of the array inside.
async fn inner_label(firsts: &[Option<Part>]) -> Option<(Superblock, Grid)> {
    let mut newest: Option<(Superblock, Grid)> = None;
    for part in firsts.iter().flatten() {
        let Some(label) = label::read(part).await else { continue };
        let Some(grid) = label::grid_of(&label) else { continue };
        if newest.as_ref().is_none_or(|(newest, _)| newest.generation < label.generation) {
            newest = Some((label, grid));
        }
    }
    newest
}

fn holder(
    second: Option<Part>,
    first: Option<Part>,
    (dedicated, is_dedicated): (bool, bool),
    chunk: u64,
) -> Holder {
    let side = second.as_ref().map_or(0, |part| part.geometry().size);
    let head = Rc::new(Member::new(second));
    let busy = Cell::new(false);
    let space = |member: Rc<Member<Part>>, base: u64, end: u64| {
        let division = divide(base, end.saturating_sub(base), chunk)?;
        let segments = Places::new(division.segments);
        let hot_slots = Places::new(division.hot_slots);
        Some(Space { member, division, segments, hot_slots })
    };
    let space = match (dedicated, is_dedicated) {
        (false, _) => space(head.clone(), HEADS, side),
        (true, false) => None,
        (true, true) => {
            let end = first.as_ref().map_or(0, |part| part.geometry().size);
            space(Rc::new(Member::new(first)), 0, end)
        }
    };
    let (sits_out, replaced) = (Cell::new(false), Cell::new(false));
    Holder { head, space, busy, sits_out, replaced }
}

/// Drives the array can't open with, if they are too many: nothing may be changed then.
fn refuse_lost(stage: &Stage, label: &Superblock) -> Result<(), StoreError> {
    let lost = stage.lost();
    let failed = label.members.iter().map(|listed| listed.state != MemberState::Active);
    let lost: Vec<bool> = lost.iter().zip(failed).map(|(lost, failed)| *lost || failed).collect();
    let Grid { width, .. } = stage.grid;
    for (group, lost) in lost.chunks(width).enumerate() {
        let gone: Vec<usize> =
            (0..width).filter(|&at| lost[at]).map(|at| group * width + at).collect();
        let (lost, tolerance) = (gone.len(), stage.grid.tolerance());
        if lost > tolerance {
            let what = format!("numbers {gone:?}");
            return Err(ArrayError::TooManyLost { lost, width, tolerance, what }.into());
        }
    }
    Ok(())
}

async fn new_stage<D: Drive>(
    set: &Set<D>,
    grid: Grid,
    chunks_at: u64,
    options: Options,
) -> Result<Stage, StoreError> {
    let (count, split) = (set.len(), usize::from(set.label.group));
    let dedicated = (split < count).then_some(split);
    let holders: Vec<Holder> = (0..count)
        .map(|at| {
            let of = if at < split { 0..split } else { split..count };
            let (second, first) = (set.second(at..at + 1).pop(), set.first_of(of, at));
            holder(second, first, (dedicated.is_some(), dedicated == Some(at)), grid.chunk)
        })
        .collect();
    let parts = set.second(0..count);
    let align = parts.iter().map(|part| part.geometry().align).max().unwrap_or(512);
    let Told { all, stale } = recover::read_heads(&set.label.pool, &holders, split).await?;
    let Head { words, sequence, spared, taken } = all;
    let target = |(_, word): (usize, &u64)| Target {
        lock: Default::default(),
        staged: RefCell::default(),
        dead: Cell::new(false),
        exempt: RefCell::new(0..0),
        // Whoever used it before may have left something in its cache.
        dirty: Cell::new(true),
        flush_turn: Turn::new(),
        steered: Cell::new(word & 1 == 1),
        spared: Cell::new(false),
    };
    let targets: Vec<Target> = words.iter().enumerate().map(target).collect();
    let stage = Stage {
        pool: set.label.pool,
        grid,
        data_at: chunks_at,
        dedicated,
        align,
        home_bytes: set.first_bytes(0..split),
        side_bytes: set.label.meta.len,
        mending: Cell::new(None),
        filling: Cell::new(None),
        outsourcing: Cell::new(false),
        looked_at: RefCell::default(),
        targets,
        heads: Heads {
            written: RefCell::new(vec![0; split]),
            words: RefCell::new(words),
            spared: Cell::new(spared),
            sequence: Cell::new(sequence + 1),
            sealed: Cell::new(0),
            taken: Cell::new(taken),
            turn: Turn::new(),
        },
        sequence: Cell::new(1),
        turn: Cell::new(0),
        hot_max: options.remembered * options.hot_percent / 100,
        reclaim_bytes: options.reclaim_bytes.max(4096) / 4096 * 4096,
        table_in_nvram: options.table_in_nvram,
        counts: Counts::default(),
        holders,
    };
    stale.iter().for_each(|at| stage.holders[*at].lose());
    // What others have of a lost drive is new, whatever is found of itself.
    let is_stale = |target| stale.contains(&target) && spared.place != Some(target);
    let staging_lost = dedicated.is_some_and(|at| stage.holders[at].is_lost());
    for (target, own) in stage.targets.iter().enumerate() {
        own.dead.set(staging_lost && stage.is_claimed(target) || is_stale(target));
    }
    Ok(stage)
}

/// The drives of the array, one of them perhaps in the staging space of others. What its own, or a
/// new one, has is old or not all of it.
fn steer_all<E: Env>(
    stage: &Rc<Stage>,
    firsts: Vec<Option<Part>>,
    told: Option<&Spare<E>>,
) -> Vec<Option<Steered<E>>> {
    let Spared { place, moving, .. } = stage.heads.spared.get();
    let home = |(index, part): (usize, Option<Part>)| {
        let home = match (place == Some(index), told) {
            (false, _) => Home::on(part?),
            (true, Some(spare)) => Home::spared(spare.clone(), part.filter(|_| moving)),
            (true, None) => {
                stage.targets[index].dead.set(true);
                return None;
            }
        };
        stage.targets[index].spared.set(place == Some(index));
        Some(Steered { stage: stage.clone(), index, home: Rc::new(home) })
    };
    firsts.into_iter().enumerate().map(home).collect()
}

/// What is in the staging space counts if it is all that the drive had: the array says.
fn keep_spare<E: Env>(stage: &Stage, lost: &[usize], told: Option<Spare<E>>) -> Option<Spare<E>> {
    let place = stage.heads.spared.get().place?;
    let kept = told.filter(|_| !lost.contains(&place));
    if kept.is_none() {
        stage.targets[place].spared.set(false);
        stage.tell_spared(Spared::default());
    }
    kept
}

/// Opens an array. Drives that are not given, or missed something, are lost.
pub async fn open<E: Env>(
    env: &E,
    drives: Vec<E::Drive>,
    options: Options,
) -> Result<Steering<E>, StoreError> {
    let set = Set::open(drives).await?;
    let (count, split) = (set.len(), usize::from(set.label.group));
    if set.label.scheme != SCHEME_STEERING || count - split > 1 {
        return Err(StoreError::NoLabel);
    }
    let firsts: Vec<Option<Part>> = (0..split).map(|at| set.first_of(0..split, at)).collect();
    let Some((label, grid)) = inner_label(&firsts).await.filter(|(_, grid)| grid.drives == split)
    else {
        return Err(ArrayError::NoLabel.into());
    };
    let stage = Rc::new(new_stage(&set, grid, label.zones.offset, options).await?);
    let inner_options = OpenOptions { write_hole: options.write_hole, ..OpenOptions::default() };
    let told = spare::open_told(env, &stage, &set, inner_options).await;
    let drives = steer_all(&stage, firsts, told.as_ref());
    refuse_lost(&stage, &label)?;
    let usable = || drives.iter().flatten().filter(|drive| !stage.is_dead(drive.index));
    let present: Vec<Steered<E>> = usable().cloned().collect();
    let known = recover::recover(&stage, &present).await;
    let present: Vec<Part> = usable().map(Steered::part).collect();
    let own_options = OpenOptions { away: stage.heads.spared.get().place, ..inner_options };
    let array = Array::open(&on_parts(env), present, own_options).await?;
    let (drives, spare) = (RefCell::new(drives), keep_spare(&stage, &array.lost(), told));
    for lost in array.lost() {
        stage.targets[lost].dead.set(true);
        drives.borrow_mut()[lost].take_if(|drive| drive.home.is_spared());
    }
    recover::forget_absent(&stage, &array, known).await?;
    let popular = || Popular::new(options.remembered, options.popular);
    let inner = Inner {
        env: env.clone(),
        array,
        popular: RefCell::new((0..split).map(|_| popular()).collect()),
        stage,
        drives,
        set: RefCell::new(set),
        spare: RefCell::new(spare),
        spare_failed: Cell::new(false),
        held: Cell::new(false),
        giving_up: RefCell::default(),
        mending: Turn::new(),
        open_options: inner_options,
        migrating: Cell::new(0),
        migrated: Event::new(),
        closing: Cell::new(false),
        next: Cell::new(0),
    };
    Ok(Steering { inner: Rc::new(inner) })
}
