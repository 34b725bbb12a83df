//! Several in-place arrays on the drives of one pool.
//!
//! ```text
//!   a drive of the set
//!   ┌────────┬───────────────┬──────────────────────────────┬────────┐
//!   │ labels │ second extent │ first extent                 │ labels │
//!   └────────┴───────────────┴──────────────────────────────┴────────┘
//!     of the   with side: a    an array's own labels, log,     of the
//!     set      second array    intents and chunks              set
//! ```
//! The labels of the set say which drives belong together and in which order; they are written
//! after the arrays, and again when a drive is replaced: it is called restoring until it is whole,
//! so that whoever opens the set goes on with it. Which drive missed what is for each array to
//! know, by its own labels; how new each array is the labels of the set know as well (`ages`).

use std::cell::RefCell;
use std::ops::Range;

use classical::member::Member;
use classical::rebuild::note_restoring;
use classical::{Array, Lacks, label};
use format::{
    CheckpointRoot, Extent, Features, INCOMPAT_GROUP_LOGS, INCOMPAT_SET, LABEL_AREA,
    Member as Listed, MemberState, Superblock, Uuid, end_area, valid_new_name,
};
use io::{Drive, Env};

use crate::part::Part;
use crate::store::StoreError;

/// What a set is to be like.
#[derive(Clone, Debug)]
pub struct SetSpec {
    pub name: String,
    /// `format::SCHEME_…`
    pub scheme: u16,
    /// Drives of the first array, where the arrays do not share drives.
    pub split: usize,
    pub chunk: u64,
    /// Bytes of each drive's second extent, 0 for none.
    pub side: u64,
}

/// The UUID in what each group of drives has for itself, a log or segments. Groups number their
/// places alike: what a drive of another one holds there must not pass for this one's.
pub fn uuid_of_group(label: &Superblock, number: usize) -> Uuid {
    let Uuid(mut own) = label.pool;
    if label.features.incompat & INCOMPAT_GROUP_LOGS != 0 {
        let number = (number as u32).to_le_bytes();
        own[12..].iter_mut().zip(number).for_each(|(own, part)| *own ^= part);
    }
    Uuid(own)
}

/// The drives of a set, in order; those that are not there are `None`.
#[derive(Clone)]
pub struct Set<D> {
    pub label: Superblock,
    drives: Vec<Option<D>>,
}

impl<D: Drive> Set<D> {
    /// Divides the drives; nothing is written before [`Set::write_labels`].
    pub fn plan<E: Env<Drive = D>>(
        env: &E,
        drives: &[D],
        spec: &SetSpec,
    ) -> Result<Set<D>, StoreError> {
        if !valid_new_name(&spec.name) {
            return Err(classical::ArrayError::Name(spec.name.clone()).into());
        }
        let sizes: Vec<u64> = drives.iter().map(|drive| drive.geometry().size).collect();
        let smallest = sizes.iter().copied().min().unwrap_or(0);
        let side = Extent { offset: LABEL_AREA, len: spec.side.next_multiple_of(LABEL_AREA) };
        let begin = side.offset + side.len;
        // One that ends there has no first extent, which arrays that have none of it don't mind.
        if end_area(smallest) < begin {
            let what = format!("a drive of {smallest} bytes");
            let hint = "its labels, and what the scheme has beside the array, take all of it: use \
                        a larger one";
            return Err(StoreError::Shape { what, hint });
        }
        let zones = Extent { offset: begin, len: end_area(smallest).saturating_sub(begin) };
        let listed = sizes.iter().map(|&size| Listed {
            drive: Uuid::from_random(env.unique_id()),
            state: MemberState::Active,
            size,
            round: 0,
            zones: 0,
        });
        let members: Vec<Listed> = listed.collect();
        let first = members.first().ok_or(StoreError::NoLabel)?.drive;
        let label = Superblock {
            pool: Uuid::from_random(env.unique_id()),
            drive: first,
            pool_name: spec.name.clone(),
            index: 0,
            generation: 1,
            epoch: 1,
            created_secs: 0,
            features: Features { compat: 0, incompat: INCOMPAT_SET },
            clean: true,
            scheme: spec.scheme,
            group: spec.split as u16,
            shards: 1,
            block_size: spec.chunk as u32,
            zone_bytes: spec.chunk,
            zone_count: 0,
            drive_size: smallest,
            journal: Extent { offset: LABEL_AREA, len: 0 },
            meta: side,
            zones,
            members,
            checkpoint: vec![CheckpointRoot::default()],
            further: None,
            replaces: None,
        };
        let drives = drives.iter().cloned().map(Some).collect();
        Ok(Set { label, drives })
    }

    pub async fn write_labels(&self) -> Result<(), StoreError> {
        self.write_labels_but(&[]).await
    }

    /// The same where drives in these places are lost, or may be.
    pub async fn write_labels_but(&self, lost: &[usize]) -> Result<(), StoreError> {
        let members: Vec<Member<D>> = self.drives.iter().cloned().map(Member::new).collect();
        label::write(&self.label, &members).await;
        let there = self.drives.iter().enumerate().filter(|(at, _)| !lost.contains(at));
        let mut there = there.filter_map(|(at, drive)| Some((at, drive.as_ref()?)));
        match there.find(|(at, _)| members[*at].is_lost()) {
            Some((_, drive)) => Err(StoreError::NotWritten { name: drive.name() }),
            None => Ok(()),
        }
    }

    /// Which set these drives belong to. Those without its label are left out.
    pub async fn open(drives: Vec<D>) -> Result<Set<D>, StoreError> {
        let mut labelled = Vec::new();
        for drive in drives {
            let Some(label) = label::read(&drive).await else { continue };
            if label.features.incompat & INCOMPAT_SET != 0 {
                labelled.push((label, drive));
            }
        }
        // A drive that was replaced has an older one.
        let newest = labelled.iter().max_by_key(|(label, _)| label.generation);
        let newest = newest.ok_or(StoreError::NoLabel)?.0.clone();
        let drives: Vec<Option<D>> = vec![None; newest.members.len()];
        let mut set = Set { drives, label: newest };
        for (label, drive) in labelled {
            if label.pool != set.label.pool {
                return Err(StoreError::OtherPool { name: drive.name() });
            }
            let index = usize::from(label.index);
            let listed = set.label.members.get(index);
            if listed.is_none_or(|listed| {
                listed.drive != label.drive || drive.geometry().size < listed.size
            }) {
                continue;
            }
            if let Some(other) = &set.drives[index] {
                let (first, second) = (other.name(), drive.name());
                return Err(classical::ArrayError::Duplicate { first, second }.into());
            }
            set.drives[index] = Some(drive);
        }
        Ok(set)
    }

    /// The same set with another drive in one place, which is to be filled; nothing is written
    /// before [`Set::write_labels`].
    pub fn with<E: Env<Drive = D>>(
        &self,
        env: &E,
        place: usize,
        drive: D,
    ) -> Result<Set<D>, StoreError> {
        let (mut label, mut drives) = (self.label.clone(), self.drives.clone());
        // As large as the old one, whatever it has beyond: the extents of its array stay.
        let size = label.members[place].size;
        if drive.geometry().size < size {
            let what = format!("drive {} of {} bytes", drive.name(), drive.geometry().size);
            let hint = "it is smaller than what it is to replace: take a larger one";
            return Err(StoreError::Shape { what, hint });
        }
        label.generation += 1;
        let state = MemberState::Restoring;
        let fresh = || Uuid::from_random(env.unique_id());
        let uuid = drive.identity().map_or_else(fresh, Uuid);
        label.members[place] = Listed { drive: uuid, state, size, round: 0, zones: 0 };
        note_restoring(&mut label);
        drives[place] = Some(drive);
        Ok(Set { label, drives })
    }

    /// The same set whose labels say this of a drive; nothing is written before
    /// [`Set::write_labels`]. `None`: they say it already.
    pub fn with_state(&self, place: usize, state: MemberState) -> Option<Set<D>> {
        let (mut label, drives) = (self.label.clone(), self.drives.clone());
        if label.members[place].state == state {
            return None;
        }
        label.generation += 1;
        label.members[place].state = state;
        note_restoring(&mut label);
        Some(Set { label, drives })
    }

    /// Whether the labels call this drive one that is being filled.
    pub fn is_restoring(&self, place: usize) -> bool {
        self.label.members[place].state == MemberState::Restoring
    }

    /// Goes without this drive: it is lost, and its label is not written any more.
    pub fn forget(&mut self, place: usize) {
        self.drives[place] = None;
    }

    pub fn len(&self) -> usize {
        self.drives.len()
    }

    pub fn is_empty(&self) -> bool {
        self.drives.is_empty()
    }

    /// All of one of the drives, if it is there.
    pub fn drive(&self, place: usize) -> Option<D> {
        self.drives[place].clone()
    }

    /// The first extents of the drives from one place to another that are there.
    pub fn first(&self, places: Range<usize>) -> Vec<Part> {
        let extent = self.extent(places.clone());
        self.parts(places, extent)
    }

    /// The first extent of one of the drives of an array that has those in `of`.
    pub fn first_of(&self, of: Range<usize>, place: usize) -> Option<Part> {
        let extent = self.extent(of);
        self.parts(place..place + 1, extent).pop()
    }

    /// Bytes of each of these extents.
    pub fn space(&self, of: Range<usize>) -> u64 {
        self.extent(of).len
    }

    /// The first extent of one of the drives in `of`, of which only those in `sided` have a second
    /// one: with the others the first begins where the second would. All are equally long.
    pub fn first_beside(
        &self,
        of: Range<usize>,
        sided: Range<usize>,
        place: usize,
    ) -> Option<Part> {
        let begin = |place: usize| match sided.contains(&place) {
            true => self.label.zones.offset,
            false => self.label.meta.offset,
        };
        let room = |place: usize| {
            let end = end_area(self.label.members[place].size);
            end.saturating_sub(begin(place))
        };
        let extent = Extent { offset: begin(place), len: of.map(room).min().unwrap_or(0) };
        self.parts(place..place + 1, extent).pop()
    }

    /// The first extents of an array's drives: to the end of the smallest of them. Others of the
    /// set may be smaller.
    fn extent(&self, of: Range<usize>) -> Extent {
        let listed = self.label.members[of].iter().map(|listed| listed.size);
        let end = end_area(listed.min().unwrap_or(0));
        let offset = self.label.zones.offset;
        Extent { offset, len: end.saturating_sub(offset) }
    }

    /// The second extents.
    pub fn second(&self, places: Range<usize>) -> Vec<Part> {
        self.parts(places, self.label.meta)
    }

    /// A stretch of the second extent of one drive.
    pub fn within_second(&self, place: usize, stretch: Extent) -> Option<Part> {
        let side = self.label.meta;
        assert!(stretch.offset + stretch.len <= side.len, "a stretch lies in its extent");
        let offset = side.offset + stretch.offset;
        self.parts(place..place + 1, Extent { offset, len: stretch.len }).pop()
    }

    /// Bytes of the first extents of an array's drives.
    pub fn first_bytes(&self, of: Range<usize>) -> u64 {
        self.extent(of).len
    }

    fn parts(&self, places: Range<usize>, extent: Extent) -> Vec<Part> {
        let there = self.drives[places].iter().flatten();
        there.map(|drive| Part::new(drive.clone(), extent)).collect()
    }
}

/// Whether a drive is the one that the set has in this place, and had all that it should: what its
/// arrays say of themselves may be believed. A copy of it that was cut short, or one that was being
/// filled, can have their labels and their page of intents, but is not called so by the set. Comes
/// before any label is written or wiped.
pub async fn is_named<D: Drive>(set: &RefCell<Set<D>>, place: usize, drive: &D) -> bool {
    let Some(own) = label::read(drive).await else { return false };
    let set = set.borrow();
    let listed = set.label.members[place];
    own.pool == set.label.pool
        && usize::from(own.index) == place
        && own.drive == listed.drive
        && listed.state == MemberState::Active
}

/// What such a drive lacks of an array of the set.
pub async fn lacks<E: Env>(named: bool, (array, at): (&Array<E>, usize), part: &Part) -> Lacks {
    if named { array.lacks(at, part).await } else { Lacks::All }
}

/// The labels of a set in use say from now on that the drive in this place, which is not lost, is
/// this one: those of all but itself and of those that are `lost`. What its own has to say, if they
/// took it. Who changes the set waits.
pub async fn relist<D: Drive>(
    set: &RefCell<Set<D>>,
    place: usize,
    drive: Uuid,
    lost: &[usize],
) -> Result<Superblock, StoreError> {
    let mut next = set.borrow().clone();
    next.label.generation += 1;
    next.label.members[place].drive = drive;
    let own = next.drives[place].take();
    let told = next.write_labels_but(&[lost, &[place]].concat()).await;
    next.drives[place] = own;
    let label = label::for_drive(&next.label, place);
    set.replace(next);
    told.map(|()| label)
}
