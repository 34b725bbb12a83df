//! Opening a pool from its drives.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use format::{ClassId, Member, MemberState, Record, SCHEME_FUSION, SCHEME_FUSION_ND, Superblock};
use io::awaited::Awaited;
use io::gate::Gate;
use io::slice::Work;
use io::sync::{Event, Turn};
use io::{Drive, Env};
use layout::{DriveIndex, StripeShape};

use crate::admission::Admissions;
use crate::api::{
    Counters, CreateError, CreateSpec, DriveState, EventKind, OpenError, OpenOptions,
    RecoveryReport, RequestError, Severity, SpikeHandling,
};
use crate::array::Array;
use crate::checkpoint::{layout_kind, settings_pairs};
use crate::discard::Discards;
use crate::exchange::Replacement;
use crate::geometry::{Class, PoolGeometry};
use crate::journal::{Journal, JournalIdentity};
use crate::label::{Label, Labels, is_out_of_date, read_label};
use crate::lists::{DriveLists, Reach};
use crate::locks::RangeLocks;
use crate::monitor::Clock;
use crate::planted::{self, Bug};
use crate::pool::{Inner, Pool};
use crate::reads::ReadGenerations;
use crate::rebuild::Rebuild;
use crate::recover::{Recovered, Recovery};
use crate::restore;
use crate::shard::{Settings, Shard, State, tolerated};

impl<E: Env> Pool<E> {
    /// Assembles a pool from its drives, in any order, some of them possibly missing; recovers
    /// if it was not closed cleanly.
    pub async fn open(
        env: &E,
        drives: Vec<E::Drive>,
        options: OpenOptions,
    ) -> Result<Pool<E>, OpenError> {
        Pool::open_at(env, drives, options, false).await
    }

    /// As `open`. Only a pool that is just being made may have no class yet.
    pub(super) async fn open_at(
        env: &E,
        drives: Vec<E::Drive>,
        options: OpenOptions,
        being_made: bool,
    ) -> Result<Pool<E>, OpenError> {
        let (shard, report) = open_shard(env, drives, options, being_made, None).await?;
        Ok(Pool::from_shard(shard, report, options))
    }

    fn from_shard(shard: Rc<Shard<E>>, recovery: RecoveryReport, options: OpenOptions) -> Pool<E> {
        let admissions = Admissions::new(shard.geometry.drives);
        Pool {
            inner: Rc::new(Inner {
                env: shard.env.clone(),
                shard: RefCell::new(shard),
                recovery,
                default_class: ClassId(0),
                handles: RefCell::default(),
                traffic: RefCell::default(),
                admissions,
                options,
                turn: Turn::new(),
                gate: Gate::default(),
                growing: Turn::new(),
            }),
        }
    }

    /// The first class and the settings of a new pool, then a clean close.
    pub(super) async fn configure(
        &self,
        shape: StripeShape,
        spec: &CreateSpec,
    ) -> Result<(), CreateError> {
        let shard = self.shard();
        {
            let mut state = shard.state.borrow_mut();
            state.settings.replicated_percent = spec.replicated_percent;
            state.settings.conversion = spec.conversion;
            state.config_dirty = true;
            // Before the class: what has a class is made, and then has its settings too.
            for (key, value) in settings_pairs(&state.settings) {
                shard.journal.append(&Record::Setting { key, value });
            }
        }
        self.class_add(self.class_of(shape)?);
        self.close().await.map_err(|error| {
            let what = error.to_string();
            CreateError::Open(Box::new(OpenError::Damaged { pool: spec.name.clone(), what }))
        })
    }

    /// The class of a shape: the one that the pool has, or as it would be added.
    pub(super) fn class_of(&self, shape: StripeShape) -> Result<Rc<Class>, CreateError> {
        let shard = self.shard();
        let state = shard.state.borrow();
        if let Some(class) = state.space.classes().find(|class| class.shape == shape) {
            return Ok(class.clone());
        }
        let id = ClassId(state.space.classes().count() as u8);
        Ok(Rc::new(Class::new(id, shape, &shard.geometry)?))
    }

    /// Does nothing if the pool has it.
    pub(super) fn class_add(&self, class: Rc<Class>) {
        let shard = self.shard();
        let mut state = shard.state.borrow_mut();
        let Class { id, shape, .. } = *class;
        if state.space.classes().any(|known| known.id == id) {
            return;
        }
        shard.journal.append(&Record::Class {
            id,
            width: shape.width,
            parity: shape.parity,
            layout_kind: layout_kind(class.founding_layout().kind()),
            layout_digest: class.founding_layout().digest(),
        });
        shard.journal.set_copies(class.copies());
        state.space.class_add(class);
        state.config_dirty = true;
    }
}

/// A shard on these drives; of a pool that had another one `before`, which is closed, it takes over
/// what only memory knows.
pub(super) async fn open_shard<E: Env>(
    env: &E,
    drives: Vec<E::Drive>,
    options: OpenOptions,
    being_made: bool,
    before: Option<&Shard<E>>,
) -> Result<(Rc<Shard<E>>, RecoveryReport), OpenError> {
    let mut labelled = read_labels(drives).await?;
    let (label, stale) = trusted_label(&labelled)?;
    let replacements = take_replacements(&label, &mut labelled);
    let everywhere = is_everywhere(&label, &labelled);
    let names: BTreeMap<_, _> =
        labelled.iter().map(|own| (own.label.drive, own.drive.name())).collect();
    let own = env.clone();
    let clock: Clock = Box::new(move || own.recent());
    let array = Rc::new(assemble(&label, labelled, options.spikes, clock)?);
    let geometry = geometry_of(&label);
    let recovery = Recovery {
        label: &label,
        geometry: &geometry,
        array: &array,
        stale: &stale,
        read_only: options.read_only,
    };
    let begin = env.now();
    let mut recovered = recovery.load(Settings::default()).await?;
    let loaded = env.now();
    if !label.clean {
        recovery.replay(&mut recovered).await?;
    }
    if !being_made && recovered.space.classes().next().is_none() {
        let (pool, what) = (label.pool_name, "making it was interrupted: make it again");
        return Err(OpenError::Damaged { pool, what: what.into() });
    }
    if !options.read_only {
        check_redundancy(&label, &array, &recovered)?;
    }
    rebuild_space(&mut recovered).await;
    if let Some(what) = recovered.space.substitutes_fault() {
        let (pool, what) = (label.pool_name, what.to_owned());
        return Err(OpenError::Damaged { pool, what });
    }
    for index in array.restoring() {
        array.set_awaited(index, restore::awaited(&recovered.space, index, |_| true));
    }
    recovered.report.clean = label.clean;
    recovered.report.load_nanos = loaded.saturating_sub(begin).0;
    recovered.report.replay_nanos = env.now().saturating_sub(loaded).0;
    let report = recovered.report;
    let labels = Labels::new(label, everywhere);
    let shard = build_shard(env, labels, geometry, array, recovered, options, before);
    match before {
        Some(before) => shard.inherit(before),
        None => tell_absent(&shard, &names),
    }
    stale.iter().for_each(|&index| tell_stale(&shard, index));
    if !options.read_only {
        shard.wipe_stale(&stale).await;
        begin_writing(&shard, replacements).await?;
    }
    shard.array.monitor.forget_reads();
    shard.start_ladder();
    Ok((shard, report))
}

/// From now on the drives are written to, also by what works in the background.
async fn begin_writing<E: Env>(
    shard: &Rc<Shard<E>>,
    replacements: Vec<Replacement<E::Drive>>,
) -> Result<(), OpenError> {
    begin_epoch(shard).await.map_err(|error| OpenError::Damaged {
        pool: shard.labels.get().pool_name,
        what: format!("it can't be written: {error}"),
    })?;
    shard.start_background();
    shard.array.restoring().for_each(|index| shard.start_restoring(index));
    shard.start_rebuild();
    if !replacements.is_empty() {
        let own = shard.clone();
        let resume = async move { own.resume_replacing(replacements).await };
        shard.spawn_task(Work::Rebuild, resume);
    }
    Ok(())
}

/// Of drives without which the pool is opened, also where they are here: what they hold is of
/// another time.
fn tell_absent<E: Env>(shard: &Shard<E>, names: &BTreeMap<format::Uuid, String>) {
    for index in shard.array.indexes() {
        let member = shard.array.member(index);
        let state = member.state();
        if matches!(state, DriveState::Missing | DriveState::Failed) {
            let (drive, uuid) = (index.0, member.uuid());
            let stale = names.get(&uuid).map_or_else(String::new, |name| {
                format!("; {name} is it, and is not used before it is taken back")
            });
            let text =
                format!("drive {drive} ({uuid}) is {state}: the pool was opened without it{stale}");
            shard.tell(Some(DriveIndex(drive)), (Severity::Warning, EventKind::DriveMissing), text);
        }
    }
}

fn tell_stale<E: Env>(shard: &Shard<E>, index: DriveIndex) {
    let member = shard.array.member(index);
    let text = format!(
        "drive {} ({}) is out of date: its label is of an earlier time than the others', and so is \
         what it holds; nothing of it is used, and it is given everything anew",
        index.0,
        member.name()
    );
    shard.tell(Some(index), (Severity::Warning, EventKind::DriveMissing), text);
}

pub(super) struct Labelled<D> {
    pub(super) drive: D,
    pub(super) label: Superblock,
}

pub(super) async fn read_labels<D: Drive>(drives: Vec<D>) -> Result<Vec<Labelled<D>>, OpenError> {
    let mut found: Vec<Labelled<D>> = Vec::new();
    let mut unreadable = None;
    for drive in drives {
        let name = drive.name();
        let label = match read_label(&drive).await {
            Ok(label) => label,
            // A dead drive that is plugged in is no worse than one that is not.
            Err(error) => {
                unreadable.get_or_insert(OpenError::Drive { name, error });
                continue;
            }
        };
        let label = match label {
            Label::Ours(label) => *label,
            Label::Foreign(foreign) => {
                let what = format!("{} at byte {}", foreign.what, foreign.offset);
                return Err(OpenError::NotOurs { name, what });
            }
            Label::Empty => return Err(OpenError::NotOurs { name, what: "no label".into() }),
            Label::Unreadable(what) | Label::TooNew(what) => {
                return Err(OpenError::NotOurs { name, what });
            }
        };
        if !matches!(label.scheme, SCHEME_FUSION | SCHEME_FUSION_ND) {
            let what = format!("it belongs to an in-place array, scheme {}", label.scheme);
            return Err(OpenError::NotOurs { name, what });
        }
        if let Some(other) = found.iter().find(|other| other.label.drive == label.drive) {
            let (first, second) = (other.drive.name(), name);
            return Err(OpenError::Duplicate { first, second, uuid: label.drive });
        }
        found.push(Labelled { drive, label });
    }
    match unreadable {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

pub(super) fn newest_label<D: Drive>(found: &[Labelled<D>]) -> Result<Superblock, OpenError> {
    // One that is being copied onto believes that it is whole before it is.
    let members = found.iter().filter(|labelled| !labelled.label.is_replacement());
    let newest = members.max_by_key(|labelled| labelled.label.generation);
    let newest = &newest.ok_or(OpenError::NoDrives)?.label;
    let stranger = found.iter().find(|labelled| labelled.label.pool != newest.pool);
    match stranger {
        None => Ok(newest.clone()),
        Some(stranger) => Err(OpenError::OtherPool {
            name: stranger.drive.name(),
            found: stranger.label.pool_name.clone(),
            found_uuid: stranger.label.pool,
            expected: newest.pool_name.clone(),
            expected_uuid: newest.pool,
        }),
    }
}

/// Drives onto which others are copied, and that nobody else calls members yet.
fn take_replacements<D: Drive>(
    newest: &Superblock,
    found: &mut Vec<Labelled<D>>,
) -> Vec<Replacement<D>> {
    let is_one = |labelled: &mut Labelled<D>| {
        let label = &labelled.label;
        let listed = newest.members.get(usize::from(label.index));
        label.is_replacement() && listed.is_some_and(|listed| listed.drive != label.drive)
    };
    let taken = found.extract_if(.., is_one);
    let replacement = |Labelled { drive, label }| {
        let Superblock { index, drive: uuid, replaces, .. } = label;
        Some(Replacement { index: DriveIndex(index), uuid, old: replaces?, drive })
    };
    taken.filter_map(replacement).collect()
}

/// Do all drives that the newest label calls whole have it? Those that are not here don't count:
/// they are written off.
fn is_everywhere<D: Drive>(newest: &Superblock, found: &[Labelled<D>]) -> bool {
    let whole = |drive| newest.members.iter().any(|m| m.drive == drive && m.state.is_whole());
    let mut used = found.iter().filter(|labelled| whole(labelled.label.drive));
    used.all(|labelled| labelled.label.generation == newest.generation)
}

/// The newest label, in which drives don't count as whole that took no part in what was written
/// since theirs: images of before, or drives whose labels lost what they were given. What they hold
/// is restored from the others.
pub(super) fn trusted_label<D: Drive>(
    found: &[Labelled<D>],
) -> Result<(Superblock, Vec<DriveIndex>), OpenError> {
    let mut newest = newest_label(found)?;
    let mut stale = Vec::new();
    for Labelled { label, .. } in found {
        let index = newest.members.iter().position(|member| member.drive == label.drive);
        let old = is_out_of_date(label, &newest) && !planted::is(Bug::TrustStale);
        let Some(index) = index.filter(|_| old) else { continue };
        if newest.members[index].state.is_whole() {
            newest.members[index].state = MemberState::Restoring;
            stale.push(DriveIndex(index as u16));
        }
    }
    Ok((newest, stale))
}

/// Puts every drive in its place. A drive that the newest label calls missing or failed is
/// stale: it is not used, whatever it says itself.
pub(super) fn assemble<D: Drive>(
    label: &Superblock,
    found: Vec<Labelled<D>>,
    spikes: SpikeHandling,
    clock: Clock,
) -> Result<Array<D>, OpenError> {
    let mut drives: BTreeMap<format::Uuid, D> =
        found.into_iter().map(|labelled| (labelled.label.drive, labelled.drive)).collect();
    let mut members = Vec::new();
    let mut missing = Vec::new();
    for (index, member) in label.members.iter().enumerate() {
        let drive = drives.remove(&member.drive);
        let state = match (member.state, &drive) {
            (MemberState::Active | MemberState::Leaving, Some(_)) => DriveState::Active,
            (MemberState::Restoring, Some(_)) => DriveState::Restoring,
            (MemberState::Failed, _) => DriveState::Failed,
            (MemberState::Vacated, _) => DriveState::Vacated,
            _ => DriveState::Missing,
        };
        if !matches!(state, DriveState::Active | DriveState::Vacated) {
            missing.push(in_a_list(index, member.drive, state));
        }
        let usable = drive.filter(|_| matches!(state, DriveState::Active | DriveState::Restoring));
        members.push((member.drive, member.size, state, usable));
    }
    // More than any volume's parity can be missing only if nothing was ever stored; the
    // metadata's own copies set the limit for opening.
    let tolerated = crate::limits::METADATA_COPIES.min(label.members.len()) - 1;
    if missing.len() > tolerated {
        return Err(OpenError::TooManyMissing {
            pool: label.pool_name.clone(),
            missing: missing.len(),
            drives: label.members.len(),
            tolerated,
            list: missing.join(", "),
        });
    }
    let array = Array::new(members, spikes, clock);
    array.substituted.set(label.features.incompat & format::INCOMPAT_SUBSTITUTES != 0);
    let leaves = |index: &DriveIndex| {
        let listed = &label.members[usize::from(index.0)];
        listed.state == MemberState::Leaving && array.is_active(*index)
    };
    array.set_draining(array.indexes().find(leaves));
    for index in array.restoring() {
        array.set_awaited(index, Awaited::all(label.zones.range(), label.block_size));
    }
    Ok(array)
}

/// A drive that a pool lacks, in a list of such.
fn in_a_list(index: usize, uuid: format::Uuid, state: DriveState) -> String {
    match state {
        DriveState::Restoring => format!("{index} ({uuid}: here, but out of date)"),
        _ => format!("{index} ({uuid})"),
    }
}

/// A pool is not opened for writing when a volume of it can't be whole: the missing drives
/// would be written off, and with them what they may still hold. Reading is possible.
fn check_redundancy<D: Drive>(
    label: &Superblock,
    array: &Array<D>,
    recovered: &Recovered,
) -> Result<(), OpenError> {
    let tolerated = tolerated(&recovered.space, &recovered.volumes);
    let gone: Vec<String> = array
        .indexes()
        .filter(|&index| array.is_missed(index))
        .map(|index| (index, array.member(index)))
        .map(|(index, member)| in_a_list(index.0.into(), member.uuid(), member.state()))
        .collect();
    if gone.len() <= tolerated {
        return Ok(());
    }
    Err(OpenError::TooManyMissing {
        pool: label.pool_name.clone(),
        missing: gone.len(),
        drives: label.members.len(),
        tolerated,
        list: gone.join(", "),
    })
}

pub fn geometry_of(label: &Superblock) -> PoolGeometry {
    PoolGeometry {
        drives: label.members.len(),
        block_size: label.block_size,
        zone_bytes: label.zone_bytes,
        zone_count: label.zone_count,
        zone_blocks: (label.zone_bytes / u64::from(label.block_size)) as u32,
        zones: label.zones,
        lists: Rc::new(lists_of(label)),
    }
}

fn lists_of(label: &Superblock) -> DriveLists {
    let reach = |(index, member): (usize, &Member)| Reach {
        round: member.round,
        zones: label.zones_of(index),
    };
    let members = label.members.iter().enumerate().map(reach).collect();
    DriveLists::new(members, label.zone_count)
}

/// Counts what is live and decides what every stripe is.
pub(super) async fn rebuild_space(recovered: &mut Recovered) {
    let Recovered { map, space, .. } = recovered;
    let mut live = Vec::new();
    for (volume, chunk) in map.chunk_list() {
        map.scan_chunk(volume, chunk, &mut |_, range, place| live.push((place.flbn, range.len)));
    }
    space.rebuild(live.into_iter());
}

fn build_shard<E: Env>(
    env: &E,
    labels: Labels,
    geometry: PoolGeometry,
    array: Rc<Array<E::Drive>>,
    recovered: Recovered,
    options: OpenOptions,
    before: Option<&Shard<E>>,
) -> Rc<Shard<E>> {
    let Superblock { pool, epoch, journal: ring, .. } = labels.get();
    let identity = JournalIdentity { pool, shard: 0, epoch: epoch + 1, ring };
    let copies = recovered.space.classes().map(|class| class.copies()).max().unwrap_or(2);
    let next = recovered.next_sequence;
    let journal = Journal::new(env.clone(), array.clone(), identity, next, copies);
    let members = array.len();
    let mut state = State {
        map: recovered.map,
        space: recovered.space,
        sums: recovered.sums,
        volumes: recovered.volumes,
        next_volume: recovered.next_volume,
        settings: recovered.settings,
        open: BTreeMap::new(),
        meta: recovered.meta,
        config_dirty: true,
        merge_hand: 0,
    };
    state.space.prefer_newest = state.settings.rebalance;
    for index in array.indexes() {
        state.space.set_avoided(index, !array.is_active(index) || array.is_draining(index));
    }
    state.space.spare_reopen();
    state.space.substitutes.enabled = array.substituted.get() && !options.read_only;
    Rc::new_cyclic(|me| Shard {
        me: me.clone(),
        released: Cell::new(false),
        env: env.clone(),
        geometry,
        array,
        journal,
        labels,
        locks: RangeLocks::default(),
        reads: ReadGenerations::default(),
        state: RefCell::new(state),
        space_freed: Event::new(),
        waiting: Cell::new(0),
        work: Event::new(),
        checkpoint_turn: Turn::new(),
        background_turn: Turn::new(),
        failure_turn: Turn::new(),
        load_told: Cell::default(),
        counters: Cell::new(Counters::default()),
        read_only: options.read_only,
        closing: Cell::new(false),
        space_over: Cell::new(false),
        closed: Event::new(),
        tasks: Cell::new(0),
        failure: RefCell::new(None),
        given_up: Cell::new(0),
        events: before.map_or_else(Rc::default, |before| before.events.clone()),
        pacer: Default::default(),
        compaction: RefCell::default(),
        mending: Default::default(),
        scrub: Default::default(),
        rebalance_after: Cell::new(io::Nanos::ZERO),
        discards: Discards::new(options.discard && !options.read_only),
        rebuild: Rebuild::new(members, options.rebuild_after),
    })
}

/// Says of drives that are not here that they are missing, before anything is changed that their
/// label may rely on: it is newer than any other if they alone took part in an update that a crash
/// cut short. Newer by one; so this one is newer by two.
async fn write_off_absent<E: Env>(shard: &Shard<E>) -> Result<(), RequestError> {
    let label = shard.labels.get();
    let absent = |(member, index): (&Member, _)| {
        let was = member.state.is_whole() || member.state == MemberState::Restoring;
        was && !shard.array.is_active(index)
    };
    if label.members.iter().zip(shard.array.indexes()).any(absent) {
        shard.write_labels(|label| label.generation += 1).await?;
    }
    Ok(())
}

/// Makes what was recovered durable as a checkpoint, then raises the epoch. From then on the
/// old journal is void and new blocks may be written.
async fn begin_epoch<E: Env>(shard: &Shard<E>) -> Result<(), RequestError> {
    shard.array.flush_dirty().await;
    write_off_absent(shard).await?;
    if !shard.labels.are_everywhere() {
        // Two rounds are to follow, so that an image of before this opening is known by its label.
        shard.write_labels(|_| {}).await?;
    }
    shard.erase_cut_short().await;
    shard.checkpoint(false).await?;
    let begin = |label: &mut Superblock| {
        label.epoch += 1;
        label.clean = false;
    };
    shard.write_labels(begin).await?;
    shard.record_failures().await
}
