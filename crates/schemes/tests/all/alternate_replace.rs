//! `alternate`: drives of replicas of several are replaced, one after the other.

use io::virt::Disk;
use schemes::Store;
use schemes::scheme::alternate::Spec;

use crate::alternate_requests::{Bench, DRIVE, KIB, spec};

/// Of a replica of several drives all must be there; one of parity has its drive rebuilt.
#[test]
fn replicas_of_several_drives_come_back() {
    let mut bench = Bench::new(&Spec { drives: 2, ..spec() });
    bench.disks[0].set_failed(true);
    bench.write(0, 4 * KIB, 1);
    bench.flush();
    bench.reopen(&[0, 1]).expect("it opens");
    assert_eq!(bench.store.lost(), [0, 1]);
    bench.replace(1, &bench.disks[1]).expect("the other one is to come");
    assert_eq!(bench.store.filled(), None);
    bench.disks[0].set_failed(false);
    bench.replace(0, &bench.disks[0]).expect("it can");
    bench.drain();
    assert_eq!(bench.store.lost(), []);
    bench.reopen(&[2, 3]).expect("it opens");
    bench.filled_with(0, 1);

    let mut bench = Bench::new(&Spec { drives: 3, parity: 1, ..spec() });
    bench.disks[4].set_failed(true);
    bench.write(0, 64 * KIB, 1);
    bench.drain();
    bench.disks[4] = new_disk("new");
    assert_eq!((bench.store.lost(), bench.store.margin()), (vec![4], 2));
    bench.replace(4, &bench.disks[4]).expect("it can");
    bench.drain();
    assert_eq!((bench.store.lost(), bench.store.margin()), (vec![], 3));
    bench.reopen(&[0, 1, 2, 5]).expect("it opens");
    bench.filled_with(60 * KIB, 1);
}

/// A pool whose first replica of two drives is lost, for the second can't be written to.
fn without_its_second() -> Bench {
    let bench = Bench::new(&Spec { drives: 2, ..spec() });
    bench.disks[1].set_failed(true);
    bench.write(0, 4 * KIB, 1);
    bench.flush();
    bench.work();
    assert_eq!(bench.store.lost(), [0, 1]);
    bench
}

fn new_disk(name: &str) -> Disk {
    Disk::new(name, DRIVE, 4096, 77)
}

/// It was refused for the second, and its file removed, but the replica was filled with it all the
/// same (a storm of `alternate`, seed 912008).
#[test]
fn a_new_drive_waits_for_the_other_one_to_be_replaced() {
    let mut bench = without_its_second();
    for place in [0, 1] {
        assert_eq!((bench.store.lost(), bench.store.filled()), (vec![0, 1], None));
        bench.disks[place] = new_disk("new");
        bench.replace(place, &bench.disks[place]).expect("the other one may be to come");
    }
    bench.drain();
    assert_eq!(bench.store.lost(), []);
    bench.reopen(&[2, 3]).expect("it opens");
    bench.filled_with(0, 1);
}

/// Whoever was told so may have removed it.
#[test]
fn a_new_drive_that_was_refused_is_not_used_later() {
    let mut refused = 0;
    for failing in 1..60 {
        let mut bench = without_its_second();
        bench.disks[1].set_failed(false);
        let removed = new_disk("removed");
        removed.fail_nth_write(failing);
        if bench.replace(0, &removed).is_ok() {
            continue;
        }
        refused += 1;
        let before = removed.peek(0, DRIVE as usize);
        bench.replace(1, &bench.disks[1]).expect("it can");
        // If nothing was written of the first one before.
        bench.drain();
        if !bench.store.lost().is_empty() {
            bench.disks[0] = new_disk("new");
            bench.replace(0, &bench.disks[0]).expect("it can");
            bench.drain();
        }
        assert_eq!(bench.store.lost(), []);
        assert!(removed.peek(0, DRIVE as usize) == before, "write {failing} failed");
        bench.reopen(&[2, 3]).expect("it opens");
        bench.filled_with(0, 1);
    }
    assert!(refused > 5, "{refused}");
}
