//! RAID0, 1, 10, 4, 5, 6, 50, 60 in place.

use classical::array::create;
use classical::{Array, CreateSpec, OpenOptions, Redundancy, WriteHole};
use io::virt::{Disk, VirtDrive, VirtEnv};
use schemes::StoreError;

use crate::battery::afflicted::{
    Left, afflicted_failing, battery_afflicted, battery_lagging, one_afflicted, one_hurt,
    one_lagging, one_losing, one_mixed_up,
};
use crate::battery::hung::battery_hung;
use crate::battery::replaced::{Replaced, battery_replaced};
use crate::battery::rotten::{self, battery_rotten, failing};
use crate::battery::world::{CHUNK, Subject, World, battery, failures, with_discards};

#[derive(Clone, Copy)]
pub struct InPlace {
    name: &'static str,
    redundancy: Redundancy,
    width: usize,
    groups: usize,
    write_hole: WriteHole,
    checksums: bool,
}

const DRIVE: u64 = 4 << 20;

impl InPlace {
    const fn new(
        name: &'static str,
        redundancy: Redundancy,
        width: usize,
        groups: usize,
    ) -> InPlace {
        let (write_hole, checksums) = (WriteHole::Closed, true);
        InPlace { name, redundancy, width, groups, write_hole, checksums }
    }

    fn tolerance(&self) -> usize {
        match self.redundancy {
            Redundancy::Mirror => self.width - 1,
            Redundancy::Parity(parity) => parity,
            Redundancy::ParityDrive => 1,
        }
    }
}

impl Subject for InPlace {
    type Store = Array<VirtEnv>;

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn drives(&self) -> Vec<u64> {
        vec![DRIVE; self.width * self.groups]
    }

    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
        let InPlace { redundancy, width, checksums, .. } = *self;
        let spec = CreateSpec { name: "tank".into(), redundancy, width, chunk: CHUNK, checksums };
        create(env, drives, &spec).await?;
        Ok(())
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<Array<VirtEnv>, StoreError> {
        let options = OpenOptions { write_hole: self.write_hole, ..OpenOptions::default() };
        Ok(Array::open(env, drives, options).await?)
    }

    fn survives(&self, lost: &[bool]) -> bool {
        let gone = |group: &[bool]| group.iter().filter(|lost| **lost).count();
        lost.chunks(self.width).all(|group| gone(group) <= self.tolerance())
    }

    fn by_parity(&self) -> bool {
        matches!(self.redundancy, Redundancy::Parity(1..) | Redundancy::ParityDrive)
    }

    fn records_first(&self) -> bool {
        self.by_parity()
    }

    fn admits_loss(&self) -> bool {
        self.redundancy == Redundancy::Mirror && self.checksums
    }
}

#[test]
fn raid0() {
    battery(InPlace::new("raid0", Redundancy::Parity(0), 3, 1));
}

#[test]
fn raid1() {
    battery(InPlace::new("raid1", Redundancy::Mirror, 3, 1));
}

#[test]
fn raid10() {
    battery(InPlace::new("raid10", Redundancy::Mirror, 2, 3));
}

const RAID5: InPlace = InPlace::new("raid5", Redundancy::Parity(1), 4, 1);

#[test]
fn raid5() {
    battery(RAID5);
}

#[test]
fn raid4() {
    battery(InPlace::new("raid4", Redundancy::ParityDrive, 4, 1));
}

#[test]
fn raid6() {
    battery(InPlace::new("raid6", Redundancy::Parity(2), 5, 1));
}

#[test]
fn raid50() {
    battery(InPlace::new("raid50", Redundancy::Parity(1), 3, 2));
}

#[test]
fn raid60() {
    battery(InPlace::new("raid60", Redundancy::Parity(2), 4, 2));
}

/// A cut, and a drive lost with it, with the write hole open, as md has it by default: it must be
/// noticed, and the very same worlds with it closed are in order.
#[test]
fn an_open_write_hole_is_noticed() {
    let harmed = |write_hole| {
        let hole = |mut world: World<InPlace>| {
            world.subject.write_hole = write_hole;
            world.hole();
        };
        failures(RAID5, 60, hole).len()
    };
    assert!(harmed(WriteHole::Open) > 0);
    assert_eq!(harmed(WriteHole::Closed), 0);
}

/// Drives that give anything after what they were told to zero, as after a DISCARD: parity does not
/// follow from that.
#[test]
fn discards_that_are_no_zeroes_are_noticed() {
    let harmed = |garbled: bool| {
        let world = |world: World<InPlace>| {
            world.disks.iter().filter(|_| garbled).for_each(Disk::garble_zeroes);
            with_discards(world);
        };
        failures(RAID5, 8, world).len()
    };
    assert!(harmed(true) > 0);
    assert_eq!(harmed(false), 0);
}

#[test]
fn raid1_replaced() {
    battery_replaced(InPlace::new("raid1", Redundancy::Mirror, 3, 1));
}

#[test]
fn raid10_replaced() {
    battery_replaced(InPlace::new("raid10", Redundancy::Mirror, 2, 3));
}

#[test]
fn raid4_replaced() {
    battery_replaced(InPlace::new("raid4", Redundancy::ParityDrive, 4, 1));
}

#[test]
fn raid5_replaced() {
    battery_replaced(RAID5);
}

#[test]
fn raid6_replaced() {
    battery_replaced(InPlace::new("raid6", Redundancy::Parity(2), 5, 1));
}

#[test]
fn raid50_replaced() {
    battery_replaced(InPlace::new("raid50", Redundancy::Parity(1), 3, 2));
}

#[test]
fn raid60_replaced() {
    battery_replaced(InPlace::new("raid60", Redundancy::Parity(2), 4, 2));
}

pub const REDUNDANT: [InPlace; 7] = [
    InPlace::new("raid1", Redundancy::Mirror, 3, 1),
    InPlace::new("raid10", Redundancy::Mirror, 2, 3),
    InPlace::new("raid4", Redundancy::ParityDrive, 4, 1),
    RAID5,
    InPlace::new("raid6", Redundancy::Parity(2), 5, 1),
    InPlace::new("raid50", Redundancy::Parity(1), 3, 2),
    InPlace::new("raid60", Redundancy::Parity(2), 4, 2),
];

#[test]
fn in_place_rotten() {
    REDUNDANT.into_iter().for_each(battery_rotten);
}

#[test]
fn raid1_afflicted() {
    battery_afflicted(REDUNDANT[0]);
}

#[test]
fn raid10_afflicted() {
    battery_afflicted(REDUNDANT[1]);
}

#[test]
fn raid4_afflicted() {
    battery_afflicted(REDUNDANT[2]);
}

#[test]
fn raid5_afflicted() {
    battery_afflicted(REDUNDANT[3]);
}

#[test]
fn raid6_afflicted() {
    battery_afflicted(REDUNDANT[4]);
}

#[test]
fn raid50_afflicted() {
    battery_afflicted(REDUNDANT[5]);
}

#[test]
fn raid60_afflicted() {
    battery_afflicted(REDUNDANT[6]);
}

#[test]
fn mirrors_with_a_slow_drive_afflicted() {
    REDUNDANT[..2].iter().for_each(|&mirror| battery_lagging(mirror, 24));
}

/// Beyond those that are run every time. 493: the last record of a stripe was gone with the rotten
/// drive of parity, and the one before passed for the last.
#[test]
fn an_afflicted_world_that_failed_once() {
    one_afflicted(InPlace::new("raid4", Redundancy::ParityDrive, 4, 1), 493);
}

/// What another drive had of its log, where nothing had been yet, passed for slots of the drive of
/// parity that were never used. In 1266 two pages of a row were being written, the one was torn,
/// the other what another drive had: what was left alone of that stayed so, because in one range of
/// the page both were.
#[test]
fn mixed_up_worlds_that_failed_once() {
    one_mixed_up(REDUNDANT[2], 620);
    one_mixed_up(REDUNDANT[6], 500);
    one_mixed_up(RAID5, 1266);
}

/// Two drives had what was written since the last checksum, and the third, which had lost writes,
/// an older version that one was known of.
#[test]
fn mirrors_with_a_drive_that_lies_that_failed_once() {
    [1139, 1321].into_iter().for_each(|seed| one_losing(REDUNDANT[0], seed));
}

/// A drive had lost what was flushed, and the crash came in the middle of the next write of its
/// row: all pages as they were once, and parity for that, passed for the row before both.
#[test]
fn a_parity_drive_beside_one_that_lies_that_failed_once() {
    one_losing(REDUNDANT[2], 1377);
}

/// The crash had torn a record of another stripe, so that the drive of parity was doubted, and what
/// had rotted on another one counted as being written.
#[test]
fn a_world_with_a_torn_record_that_failed_once() {
    one_lagging(REDUNDANT[2], 1106);
}

/// The drive of parity had lost all writes, a page was flushed and then written once more: parity
/// of before both, and the other page, passed for the row as it was.
#[test]
fn a_drive_of_parity_that_lost_all_writes_that_failed_once() {
    one_losing(REDUNDANT[5], 1306);
}

/// One of two drives of parity had lost the record of the last write of a stripe, and kept that of
/// the one before: what had been flushed was mixed with the parity that this one told.
#[test]
fn a_world_with_a_lost_record_that_failed_once() {
    one_losing(REDUNDANT[4], 413);
}

/// A page that was being written had rotted beside what was written, and one of two drives of
/// parity that told of the write was suspect: the other one told it as well.
#[test]
fn a_world_with_a_suspect_drive_of_parity_that_failed_once() {
    one_lagging(REDUNDANT[4], 1204);
}

/// A restored drive counted as whole before the labels said so: power failed then, another one was
/// out of date, and the pool was refused.
#[test]
fn a_world_with_a_drive_not_yet_told_whole_that_failed_once() {
    one_hurt(Replaced(REDUNDANT[5]), 1041);
}

/// Without an error for copies that differ garbage was read in these: what was written since the
/// last flush had rotted in one of them. In 123 a first opening gave noise the head of the log, was
/// cut short, and the next one found nothing wrong with that drive; so in 724, where it gave it a
/// page of intents.
#[test]
fn afflicted_mirrors_that_failed_once() {
    one_hurt(REDUNDANT[1], 724);
    one_afflicted(REDUNDANT[0], 123);
    one_afflicted(REDUNDANT[0], 199);
    one_afflicted(REDUNDANT[1], 69);
}

/// Where a drive that was behind by the first version of a page of the checksum log counted as one
/// that had rotted, garbage was read in this one, of two mirrors in 1000 worlds each.
#[test]
fn a_world_with_a_slow_drive_that_failed_once() {
    one_lagging(REDUNDANT[0], 263);
}

#[test]
fn in_place_hung() {
    REDUNDANT.into_iter().for_each(battery_hung);
}

/// Worlds that rot prove nothing unless what is not put right shows: without checksums other bytes
/// are read, and without a scrub something is left.
#[test]
fn what_is_not_mended_is_noticed() {
    for subject in [REDUNDANT[0], RAID5, REDUNDANT[4]] {
        let bare = InPlace { checksums: false, ..subject };
        assert!(failing(bare, 4, rotten::Left::Nothing) > 0, "{}: no checksums", subject.name);
        assert!(failing(subject, 4, rotten::Left::Scrub) > 0, "{}: no scrub", subject.name);
        assert_eq!(failing(subject, 4, rotten::Left::Nothing), 0, "{}", subject.name);
    }
}

/// Neither do worlds in which drives are hurt at rest: without checksums what rotted is read, and
/// without their log what rotted of all that was written since the area was.
#[test]
fn harm_at_rest_is_noticed() {
    for subject in [REDUNDANT[0], RAID5, REDUNDANT[4]] {
        let bare = InPlace { checksums: false, ..subject };
        assert!(afflicted_failing(bare, 8, Left::Nothing) > 0, "{}: no checksums", subject.name);
        assert!(afflicted_failing(subject, 8, Left::Log) > 0, "{}: no log", subject.name);
    }
}
