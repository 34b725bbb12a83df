//! Bad input at opening and making: said clearly, and nothing is touched.

use classical::array::create;
use classical::{Array, ArrayError, CreateSpec, GridError, OpenOptions, Redundancy};
use io::Buf;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};

struct Shelf {
    env: VirtEnv,
    disks: Vec<Disk>,
}

impl Shelf {
    fn new(count: u64, bytes: u64) -> Shelf {
        let disk = |at| Disk::new(format!("d{at}"), bytes, 4096, at);
        Shelf { env: VirtEnv::new(1), disks: (0..count).map(disk).collect() }
    }

    fn drives(&self, which: &[usize]) -> Vec<VirtDrive> {
        let attach = |&at: &usize| VirtDrive::attach(&self.env, &self.disks[at], Latency::SSD);
        which.iter().map(attach).collect()
    }

    fn make(&self, which: &[usize], redundancy: Redundancy) -> Result<(), ArrayError> {
        let spec = CreateSpec {
            name: "tank".into(),
            redundancy,
            width: which.len(),
            chunk: 65536,
            checksums: true,
        };
        self.env.block_on(create(&self.env, &self.drives(which), &spec)).map(|_| ())
    }

    fn open(&self, which: &[usize]) -> Result<Array<VirtEnv>, ArrayError> {
        let drives = self.drives(which);
        self.env.block_on(Array::open(&self.env, drives, OpenOptions::default()))
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn shapes_and_drives_that_do_not_fit_are_refused() {
    let shelf = Shelf::new(3, 16 * MIB);
    let narrow = shelf.make(&[0, 1], Redundancy::Parity(1));
    assert!(matches!(narrow, Err(ArrayError::Grid(GridError::Narrow { width: 2, least: 3 }))));
    let none = shelf.make(&[], Redundancy::Mirror);
    assert!(matches!(none, Err(ArrayError::Grid(GridError::Narrow { width: 0, .. }))));
    let small = Shelf::new(3, 4 * MIB).make(&[0, 1, 2], Redundancy::Parity(1));
    assert!(matches!(small, Err(ArrayError::Grid(GridError::Small))), "the log alone is larger");
    assert!(matches!(shelf.open(&[0, 1, 2]), Err(ArrayError::NoLabel)));
}

#[test]
fn too_few_drives_and_strangers_are_refused() {
    let shelf = Shelf::new(6, 16 * MIB);
    shelf.make(&[0, 1, 2], Redundancy::Parity(1)).unwrap();
    shelf.make(&[3, 4, 5], Redundancy::Mirror).unwrap();
    let few = shelf.open(&[1]).err().expect("two are missing").to_string();
    assert_eq!(few, "2 drives of a group of 3 are lost, at most 1 may be: numbers [0, 2]");
    let both = shelf.open(&[0, 1, 2, 3]);
    assert!(matches!(both, Err(ArrayError::OtherPool { .. })));
    assert!(matches!(shelf.open(&[0, 1, 1]), Err(ArrayError::Duplicate { .. })));
    assert!(shelf.open(&[5]).is_ok(), "one mirror of three is enough");
}

#[test]
fn a_drive_that_was_away_is_not_trusted_again() {
    let shelf = Shelf::new(3, 16 * MIB);
    shelf.make(&[0, 1, 2], Redundancy::Mirror).unwrap();
    let write = |array: &Array<VirtEnv>, byte: u8| {
        let data = Buf::from_slice(&[byte; 4096]);
        shelf.env.block_on(array.write(0, data, true)).unwrap();
    };
    write(&shelf.open(&[0, 1, 2]).unwrap(), 1);
    write(&shelf.open(&[1, 2]).unwrap(), 2);
    let array = shelf.open(&[0, 1, 2]).unwrap();
    assert_eq!(array.lost(), [0]);
    for _ in 0..6 {
        let read = shelf.env.block_on(array.read(0, 4096)).unwrap();
        assert_eq!(read[0], 2);
    }
}

/// Each side acknowledged what the other one does not have: nobody but an operator knows which
/// counts. With one of them alone the array opens as before.
#[test]
fn drives_that_each_went_on_alone_are_refused_together() {
    for (redundancy, one, other) in [
        (Redundancy::Mirror, vec![0], vec![1]),
        (Redundancy::Mirror, vec![0], vec![1, 2]),
        (Redundancy::Mirror, vec![1, 2], vec![0]),
        (Redundancy::Parity(2), vec![0, 3], vec![1, 2]),
    ] {
        let all: Vec<usize> = (0..one.len() + other.len()).collect();
        let shelf = Shelf::new(all.len() as u64, 16 * MIB);
        shelf.make(&all, redundancy).unwrap();
        drop(shelf.open(&all).unwrap());
        for (side, byte) in [(&one, 1), (&other, 2)] {
            let array = shelf.open(side).unwrap();
            shelf.env.block_on(array.write(0, Buf::from_slice(&[byte; 4096]), true)).unwrap();
            shelf.env.crash();
        }
        // However often either of them is looked at.
        for _ in 0..3 {
            let both = shelf.open(&all);
            assert!(matches!(both, Err(ArrayError::Apart { .. })), "{one:?} and {other:?}");
            for (side, byte) in [(&one, 1), (&other, 2)] {
                let array = shelf.open(side).unwrap();
                assert_eq!(shelf.env.block_on(array.read(0, 4096)).unwrap()[0], byte);
                shelf.env.block_on(array.close()).unwrap();
            }
        }
    }
}

#[test]
fn requests_outside_or_crooked_are_refused() {
    let shelf = Shelf::new(3, 16 * MIB);
    shelf.make(&[0, 1, 2], Redundancy::Parity(1)).unwrap();
    let array = shelf.open(&[0, 1, 2]).unwrap();
    for (offset, len) in [(array.size(), 512), (u64::MAX - 511, 512), (1, 512), (0, 100)] {
        let read = shelf.env.block_on(array.read(offset, len));
        assert!(matches!(read, Err(ArrayError::Range { .. })), "{len} bytes at {offset}");
    }
}

#[test]
fn the_fusion_engine_leaves_such_drives_alone() {
    let shelf = Shelf::new(3, 64 * MIB);
    shelf.make(&[0, 1, 2], Redundancy::Parity(1)).unwrap();
    let drives = shelf.drives(&[0, 1, 2]);
    let options = engine::OpenOptions::default();
    let opened = shelf.env.block_on(engine::Pool::open(&shelf.env, drives, options));
    let error = opened.err().expect("it is no pool of that engine").to_string();
    assert!(error.contains("in-place array"), "{error}");
}

/// A drive answers writes that it does not do: so it has the record of an earlier write of a stripe
/// still, which is over, as the checksum log says. The opening after one that was cut short must
/// know that, too.
#[test]
fn what_is_over_stays_over_when_an_opening_is_cut_short() {
    for liar in 0..3 {
        let shelf = Shelf::new(3, 16 * MIB);
        shelf.make(&[0, 1, 2], Redundancy::Parity(1)).unwrap();
        let array = shelf.open(&[0, 1, 2]).unwrap();
        let write = |at: u64, byte: u8| {
            let data = Buf::from_slice(&[byte; 1024]);
            shelf.env.block_on(array.write(at, data, true)).unwrap();
        };
        write(0, 1);
        shelf.disks[liar].lose_writes(1_000_000);
        write(2048, 2);
        shelf.disks[liar].lose_writes(0);
        // Later records of other stripes are there: nothing shows that one is missing.
        (1..4).for_each(|stripe| write(stripe * array.grid().stripe_bytes(), 3));
        drop(array);
        shelf.env.crash();
        let mut cuts = 0;
        for limit in 1.. {
            let disks = shelf.disks.iter().map(Disk::fork).collect();
            let other = Shelf { env: VirtEnv::new(limit), disks };
            other.env.set_write_limit(limit);
            let drives = other.drives(&[0, 1, 2]);
            let open = async { Array::open(&other.env, drives, OpenOptions::default()).await };
            other.env.run_until(open, || other.env.write_limit_reached());
            let was_cut = other.env.write_limit_reached();
            other.env.crash();
            other.env.set_write_limit(u64::MAX);
            let array = other.open(&[0, 1, 2]).unwrap();
            let read = other.env.block_on(array.read(0, 4096)).unwrap();
            assert_eq!((read[0], read[2048]), (1, 2), "drive {liar} lies, cut at write {limit}");
            cuts += usize::from(was_cut);
            if !was_cut {
                break;
            }
        }
        assert!(cuts > 10, "{cuts} writes of an opening");
    }
}
