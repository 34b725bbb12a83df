//! Labels (superblocks): reading what a drive says it is, and changing what a pool says of
//! itself.
//!
//! Four copies on each drive. An update writes copies 0 and 2 of every drive, then 1 and 3, so
//! that at every moment one generation is whole on each drive.

use std::cell::{Cell, RefCell};

use format::{
    Extent, Foreign, FormatError, INCOMPAT_LEAVING, INCOMPAT_REPLACES, INCOMPAT_RESTORING,
    INCOMPAT_SUBSTITUTES, LABEL_LEN, Member, MemberState, Superblock, Uuid, label_at,
    label_offsets, newest, probe,
};
use io::sync::{Permit, Turn};
use io::{Buf, Drive, DriveError, Durability, join_all};
use layout::DriveIndex;

use crate::api::DriveState;
use crate::array::Array;
use crate::planted::{self, Bug};

/// What is on a drive.
pub enum Label {
    Ours(Box<Superblock>),
    Foreign(Foreign),
    Empty,
    /// It is ours, but every copy is damaged.
    Unreadable(String),
    /// It is ours, written by a later version: nothing may be done without knowing its label.
    TooNew(String),
}

/// Generations of one round: the first update of a round begins when every drive in use is known
/// to have what was written last, others go on in the round that a crash cut short. So a drive
/// that missed more than updates which a crash cut short is known by its round.
///
/// ```text
///  all have 0x101 ──> 0x201 written everywhere ──> 0x301 ──X crash: some have it, some 0x201
///                                                   0x302 ──> everywhere ──> 0x401
/// ```
/// More than 255 crashes in a row among the labels would be needed to leave it. Number 0 of a round
/// is of labels that drives get before others name them ([`early_generation`]).
const ROUND: u64 = 256;

/// Of a label by which a drive is passed over until others name it, however many rounds later.
pub fn early_generation(current: u64) -> u64 {
    (current / ROUND * ROUND).min(current.saturating_sub(1))
}

/// The generation after `current`.
fn next_generation(current: u64, everywhere: bool) -> u64 {
    if everywhere { (current / ROUND + 1) * ROUND + 1 } else { current + 1 }
}

/// True of a label so old that all drives in use had a newer one before `newest` was written: its
/// drive took no part in what was written since, unless others say that it was not used.
pub fn is_out_of_date(label: &Superblock, newest: &Superblock) -> bool {
    let is_early = label.generation.is_multiple_of(ROUND);
    !is_early && label.generation / ROUND + 1 < newest.generation / ROUND
}

/// How much of each end is searched for signatures of others.
const PROBE_BYTES: u64 = 1 << 20;

pub async fn read_label<D: Drive>(drive: &D) -> Result<Label, DriveError> {
    let size = drive.geometry().size;
    if size < 4 * PROBE_BYTES {
        return strangers(drive).await;
    }
    let mut copies: Vec<Result<(Superblock, u8), FormatError>> = Vec::new();
    let mut refused = None;
    for offset in label_offsets(size) {
        match drive.read(offset, LABEL_LEN).await {
            Ok(bytes) => copies.push(label_at(&bytes, offset)),
            Err(error) => refused = Some(error),
        }
    }
    let ours = copies.iter().any(|copy| !matches!(copy, Err(error) if error.is_no_label()));
    let elsewhere = copies.contains(&Err(FormatError::Elsewhere));
    match (newest(copies.into_iter()), refused) {
        (Ok(label), _) => Ok(Label::Ours(Box::new(label))),
        (Err(error), _) if error.is_too_new() => Ok(Label::TooNew(error.to_string())),
        (Err(error), _) if ours => Ok(Label::Unreadable(error.to_string())),
        // What can't be read may be a label: the drive is not empty for that.
        (Err(_), Some(error)) => Err(error),
        (Err(_), None) => match strangers(drive).await? {
            Label::Empty if elsewhere => Ok(Label::Foreign(container(size))),
            label => Ok(label),
        },
    }
}

/// What holds the label of a drive that is only a part of it.
fn container(size: u64) -> Foreign {
    let what = "a SteadyRAID drive that ends where this one does";
    Foreign { what, detail: String::new(), offset: label_offsets(size)[2] }
}

/// Whose a drive without a label of ours is.
async fn strangers<D: Drive>(drive: &D) -> Result<Label, DriveError> {
    let size = drive.geometry().size;
    let page = u64::from(drive.geometry().align).max(4096);
    let whole = size / page * page;
    let len = PROBE_BYTES.min(whole);
    let head = drive.read(0, len as usize).await?;
    let tail = drive.read(whole - len, len as usize).await?;
    Ok(match probe(&head, &tail, size) {
        Some(foreign) => Label::Foreign(foreign),
        None => Label::Empty,
    })
}

/// The pool's superblock as it is on the drives now.
pub struct Labels {
    current: RefCell<Superblock>,
    /// Every drive in use has it.
    everywhere: Cell<bool>,
    turn: Turn,
}

impl Labels {
    /// `everywhere`: all drives in use have this one.
    pub fn new(current: Superblock, everywhere: bool) -> Labels {
        let everywhere = Cell::new(everywhere);
        Labels { current: RefCell::new(current), everywhere, turn: Turn::new() }
    }

    /// Do all drives in use have the newest? Not after a crash among them.
    pub fn are_everywhere(&self) -> bool {
        self.everywhere.get()
    }

    pub fn get(&self) -> Superblock {
        self.current.borrow().clone()
    }

    pub fn pool(&self) -> Uuid {
        self.current.borrow().pool
    }

    pub fn meta(&self) -> Extent {
        self.current.borrow().meta
    }

    /// As long as this is held nobody changes the superblock.
    pub async fn hold(&self) -> Permit {
        self.turn.lock().await
    }

    /// A new drive says what it is called before any other says that it is the member, or a crash
    /// among the labels would leave neither it nor what was there before (world 600092). Its
    /// generation is an older one, by which it is passed over until then.
    pub async fn name_early<D: Drive>(
        &self,
        index: DriveIndex,
        uuid: Uuid,
        drive: &D,
    ) -> Result<(), DriveError> {
        self.write_early(index, uuid, drive, None).await
    }

    /// As early as its copying begins, so that it is gone on with when the pool is opened again.
    pub async fn name_replacement<D: Drive>(
        &self,
        index: DriveIndex,
        uuid: Uuid,
        drive: &D,
    ) -> Result<(), DriveError> {
        let old = self.current.borrow().members[usize::from(index.0)].drive;
        self.write_early(index, uuid, drive, Some(old)).await
    }

    async fn write_early<D: Drive>(
        &self,
        index: DriveIndex,
        uuid: Uuid,
        drive: &D,
        replaces: Option<Uuid>,
    ) -> Result<(), DriveError> {
        let (at, size) = (usize::from(index.0), drive.geometry().size);
        let mut label = self.get();
        if replaces.is_some() {
            label.features.incompat |= INCOMPAT_REPLACES;
            label.replaces = replaces;
        }
        label.generation = early_generation(label.generation);
        (label.members[at].drive, label.members[at].size) = (uuid, size);
        let own = for_drive(&label, at);
        for (copy, offset) in label_offsets(size).into_iter().enumerate() {
            let bytes = Buf::from_slice(&own.encode(copy as u8));
            drive.write(offset, bytes, Durability::Durable).await?;
        }
        Ok(())
    }

    /// Changes the superblock and writes it to all active drives, durably. Drive states come
    /// from the array. A drive that can't take its label fails. False: nothing was written, because
    /// it would have written off more drives than `bears` says then.
    #[must_use]
    pub async fn update<D: Drive>(
        &self,
        array: &Array<D>,
        bears: impl FnOnce() -> usize,
        change: impl FnOnce(&mut Superblock),
    ) -> bool {
        let _turn = self.turn.lock().await;
        let next = {
            let mut next = self.current.borrow().clone();
            next.generation = next_generation(next.generation, self.everywhere.get());
            for (member, index) in next.members.iter_mut().zip(array.indexes()) {
                member.state = match array.member(index).state() {
                    DriveState::Active if array.is_draining(index) => MemberState::Leaving,
                    DriveState::Active => MemberState::Active,
                    DriveState::Missing => MemberState::Missing,
                    DriveState::Failed => MemberState::Failed,
                    DriveState::Restoring => MemberState::Restoring,
                    DriveState::Vacated if array.is_vacating(index) => member.state,
                    DriveState::Vacated => MemberState::Vacated,
                };
                member.drive = array.member(index).uuid();
                member.size = array.member(index).size();
            }
            change(&mut next);
            flag_states(&mut next, array.substituted.get());
            next
        };
        let too_many = writes_off(&self.current.borrow(), &next) && lost(&next) > bears();
        if too_many && !planted::is(Bug::WriteOffAll) {
            return false;
        }
        self.everywhere.set(false);
        for copies in [[0, 2], [1, 3]] {
            let active = array.active();
            let writes = active.iter().flat_map(|&index| {
                let next = &next;
                copies.map(|copy| write_copy(array, index, next, copy))
            });
            join_all(writes).await;
        }
        *self.current.borrow_mut() = next;
        // One that is about to be vacated gets none, and is called whole until that is done.
        self.everywhere.set(array.vacating().is_none());
        true
    }
}

/// Is a drive that was whole lost by this?
fn writes_off(current: &Superblock, next: &Superblock) -> bool {
    let is_lost =
        |member: &Member| matches!(member.state, MemberState::Missing | MemberState::Failed);
    let mut both = current.members.iter().zip(&next.members);
    both.any(|(was, is)| was.state.is_whole() && is_lost(is))
}

/// Drives that a label counts as lost, those that are not whole again included.
fn lost(label: &Superblock) -> usize {
    let is_lost = |state| {
        matches!(state, MemberState::Missing | MemberState::Failed | MemberState::Restoring)
    };
    label.members.iter().filter(|member| is_lost(member.state)).count()
}

/// The features that follow from what members are.
fn flag_states(label: &mut Superblock, substituted: bool) {
    let any = |state| label.members.iter().any(|member| member.state == state);
    let flags = [
        (INCOMPAT_RESTORING, any(MemberState::Restoring)),
        (INCOMPAT_SUBSTITUTES, substituted || any(MemberState::Vacated)),
        (INCOMPAT_LEAVING, any(MemberState::Leaving)),
    ];
    for (flag, is_so) in flags {
        label.features.incompat &= !flag;
        label.features.incompat |= if is_so { flag } else { 0 };
    }
}

async fn write_copy<D: Drive>(array: &Array<D>, index: DriveIndex, label: &Superblock, copy: u8) {
    let own = for_drive(label, usize::from(index.0));
    let offset = label_offsets(own.drive_size)[usize::from(copy)];
    let bytes = Buf::from_slice(&own.encode(copy));
    // `Array::write` fails the drive if this does not work.
    let _ = array.write(index, offset, bytes, Durability::Durable).await;
}

/// The label as it stands on one drive.
pub fn for_drive(label: &Superblock, index: usize) -> Superblock {
    let mut own = label.clone();
    own.index = index as u16;
    own.drive = label.members[index].drive;
    own.drive_size = label.members[index].size;
    own
}
