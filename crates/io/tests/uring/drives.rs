//! Files as drives: what is written is read, what is refused is refused wholly.

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use futures_util::future::join_all;
use io::mem::MemDrive;
use io::rng::Rng;
use io::uring::{Access, RealDrive, UringDrive, UringEnv, create_file};
use io::{Buf, Drive, DriveErrorKind, Durability, Env};

use crate::support::{TempDir, open_soon, pattern};

const MIB: u64 = 1 << 20;

fn env() -> UringEnv {
    UringEnv::new().unwrap()
}

/// One of `tasks` writers, each with pages of its own; every page written is read back.
async fn scribble(drive: UringDrive, model: Rc<RefCell<Vec<u8>>>, task: u64, tasks: u64) {
    let mut rng = Rng::new(task);
    let pages = drive.geometry().size / 4096;
    for round in 0..40 {
        let page = rng.below(pages / tasks) * tasks + task;
        let data = pattern(4096, rng.next_u64());
        let durability = if rng.chance(1, 8) { Durability::Durable } else { Durability::Cached };
        drive.write(page * 4096, data.clone(), durability).await.unwrap();
        if round % 10 == 9 {
            drive.flush().await.unwrap();
        }
        assert_eq!(drive.read(page * 4096, 4096).await.unwrap()[..], data[..]);
        let start = page as usize * 4096;
        model.borrow_mut()[start..start + 4096].copy_from_slice(&data);
    }
}

fn random_writes_read_back(dir: &TempDir) {
    let env = env();
    let drive = dir.drive(&env, 16 * MIB);
    let model = Rc::new(RefCell::new(vec![0; 16 * MIB as usize]));
    let tasks = (0..32).map(|task| scribble(drive.clone(), model.clone(), task, 32));
    env.block_on(join_all(tasks));
    env.block_on(drive.flush()).unwrap();
    assert!(fs::read(drive.path()).unwrap() == *model.borrow());
    let all = env.block_on(drive.read(0, 16 * MIB as usize)).unwrap();
    assert!(all[..] == model.borrow()[..]);
}

#[test]
fn random_writes_read_back_at_depth_32() {
    random_writes_read_back(&TempDir::new());
}

#[test]
fn random_writes_read_back_on_tmpfs() {
    random_writes_read_back(&TempDir::below(Path::new("/dev/shm")));
}

#[test]
fn a_file_knows_its_geometry() {
    let (env, dir) = (env(), TempDir::new());
    let drive = dir.drive(&env, 3 * MIB);
    let geometry = drive.geometry();
    assert_eq!(geometry.size, 3 * MIB);
    assert!([512, 4096].contains(&geometry.align), "{geometry:?}");
    assert!(drive.is_direct());
    assert_eq!(drive.name(), dir.join("drive").display().to_string());
}

#[test]
fn ranges_outside_or_not_aligned_are_refused_wholly() {
    let (env, dir) = (env(), TempDir::new());
    let drive = dir.drive(&env, MIB);
    let before = pattern(MIB as usize, 1);
    env.block_on(drive.write(0, before.clone(), Durability::Cached)).unwrap();
    for (offset, len) in [(MIB, 4096), (MIB - 4096, 8192), (1, 4096), (0, 100), (u64::MAX, 512)] {
        let data = Buf::zeroed(len);
        let write = env.block_on(drive.write(offset, data, Durability::Cached)).unwrap_err();
        let read = env.block_on(drive.read(offset, len)).unwrap_err();
        let discard = env.block_on(drive.discard(offset, len as u64)).unwrap_err();
        for error in [write, read, discard] {
            assert_eq!(error.kind, DriveErrorKind::OutOfRange, "{error}");
        }
    }
    assert!(fs::read(drive.path()).unwrap() == before[..]);
}

#[test]
fn data_may_lie_anywhere_in_memory() {
    let (env, dir) = (env(), TempDir::new());
    let drive = dir.drive(&env, MIB);
    let all = pattern(16384, 2);
    for start in [0, 1, 7, 256, 512, 4095, 4096] {
        let data = all.slice(start..start + 8192);
        env.block_on(drive.write(8192, data.clone(), Durability::Durable)).unwrap();
        assert!(env.block_on(drive.read(8192, 8192)).unwrap()[..] == data[..], "{start}");
    }
}

#[test]
fn nothing_is_a_valid_amount() {
    let (env, dir) = (env(), TempDir::new());
    let drive = dir.drive(&env, MIB);
    env.block_on(drive.write(MIB, Buf::zeroed(0), Durability::Durable)).unwrap();
    assert!(env.block_on(drive.read(MIB, 0)).unwrap().is_empty());
    env.block_on(drive.discard(0, 0)).unwrap();
}

#[test]
fn discard_gives_space_back_that_was_never_promised_and_keeps_the_rest() {
    let (env, dir) = (env(), TempDir::new());
    let sparse = dir.join("sparse");
    fs::File::create(&sparse).unwrap().set_len(4 * MIB).unwrap();
    let sparse = UringDrive::open(&env, &sparse, Access::ReadWrite).unwrap();
    assert_eq!(discarded(&env, &sparse), 2 * MIB);
    // Of this one somebody said that its space is really there.
    let promised = dir.drive(&env, 4 * MIB);
    assert_eq!(discarded(&env, &promised), 0);
    let zeroes = env.block_on(promised.read(MIB, 2 * MIB as usize)).unwrap();
    assert!(zeroes.iter().all(|byte| *byte == 0), "what was there is not");
}

/// Bytes that the filesystem has again when the middle of a drive is discarded.
fn discarded(env: &UringEnv, drive: &UringDrive) -> u64 {
    let data = pattern(4 * MIB as usize, 3);
    env.block_on(drive.write(0, data.clone(), Durability::Cached)).unwrap();
    env.block_on(drive.flush()).unwrap();
    let blocks = || fs::metadata(drive.path()).unwrap().blocks();
    let before = blocks();
    env.block_on(drive.discard(MIB, 2 * MIB)).unwrap();
    let given_back = (before - blocks()) * 512;
    assert_eq!(fs::metadata(drive.path()).unwrap().len(), 4 * MIB);
    let first = env.block_on(drive.read(0, MIB as usize)).unwrap();
    assert!(first[..] == data[..MIB as usize]);
    let last = env.block_on(drive.read(3 * MIB, MIB as usize)).unwrap();
    assert!(last[..] == data[3 * MIB as usize..]);
    given_back
}

#[test]
fn zeroes_take_no_space_in_a_file() {
    let (env, dir) = (env(), TempDir::new());
    let sparse = dir.join("sparse");
    fs::File::create(&sparse).unwrap().set_len(4 * MIB).unwrap();
    let drive = UringDrive::open(&env, &sparse, Access::ReadWrite).unwrap();
    assert!(drive.takes_write_zeroes());
    let data = pattern(4 * MIB as usize, 6);
    env.block_on(async {
        drive.write(0, data.clone(), Durability::Durable).await.unwrap();
        let before = fs::metadata(&sparse).unwrap().blocks();
        drive.write_zeroes(MIB, 2 * MIB).await.unwrap();
        drive.write_zeroes(512, 512).await.unwrap();
        let freed = (before - fs::metadata(&sparse).unwrap().blocks()) * 512;
        assert_eq!(freed, 2 * MIB);
        let mut wanted = data.to_vec();
        wanted[MIB as usize..3 * MIB as usize].fill(0);
        wanted[512..1024].fill(0);
        assert!(drive.read(0, 4 * MIB as usize).await.unwrap()[..] == wanted[..]);
    });
}

#[test]
fn a_file_cut_behind_our_back_reads_short() {
    let (env, dir) = (env(), TempDir::new());
    let drive = dir.drive(&env, MIB);
    OpenOptions::new().write(true).open(drive.path()).unwrap().set_len(MIB / 2 + 100).unwrap();
    for offset in [0, MIB - 4096] {
        let error = env.block_on(drive.read(offset, (MIB - offset) as usize)).unwrap_err();
        assert_eq!(error.kind, DriveErrorKind::Short, "{error}");
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_open_is_noticed() {
    let (env, dir) = (env(), TempDir::new());
    let drive = dir.drive(&env, MIB);
    let watch = drive.watch();
    let shrunk_to = || env.block_on(watch.look()).unwrap().shrunk_to;
    let cut = |size| {
        OpenOptions::new().write(true).open(drive.path()).unwrap().set_len(size).unwrap();
    };
    assert_eq!(shrunk_to(), None);
    cut(2 * MIB);
    assert_eq!(shrunk_to(), None);
    cut(MIB - 512);
    assert_eq!(shrunk_to(), Some(MIB - 512));
    cut(MIB);
    assert_eq!(shrunk_to(), None);
}

#[test]
fn a_file_that_is_deleted_while_it_is_open_is_noticed() {
    let (env, dir) = (env(), TempDir::new());
    let drive = dir.drive(&env, MIB);
    let watch = drive.watch();
    let is_deleted = || env.block_on(watch.look()).map(|found| found.is_deleted);
    assert_eq!(is_deleted(), Some(false));
    // Under another name it is as safe as before.
    fs::hard_link(drive.path(), dir.join("other")).unwrap();
    fs::remove_file(drive.path()).unwrap();
    assert_eq!(is_deleted(), Some(false));
    fs::rename(dir.join("other"), dir.join("third")).unwrap();
    assert_eq!(is_deleted(), Some(false));
    fs::remove_file(dir.join("third")).unwrap();
    assert_eq!(is_deleted(), Some(true));
    drop(drive);
    assert_eq!(is_deleted(), None);
}

#[test]
fn a_file_without_a_name_was_meant_so() {
    let (env, dir) = (env(), TempDir::new());
    create_file(dir.join("drive"), MIB).unwrap();
    let file = fs::File::open(dir.join("drive")).unwrap();
    fs::remove_file(dir.join("drive")).unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let drive = UringDrive::open(&env, path, Access::ReadWrite).unwrap();
    assert!(!env.block_on(drive.watch().look()).unwrap().is_deleted);
}

#[test]
fn more_operations_than_the_ring_has_entries() {
    let (env, dir) = (env(), TempDir::new());
    let drive = dir.drive(&env, 4 * MIB);
    let data = pattern(4 * MIB as usize, 4);
    env.block_on(drive.write(0, data.clone(), Durability::Cached)).unwrap();
    let reads = (0..10_000u64).map(|index| {
        let (drive, data) = (drive.clone(), data.clone());
        async move {
            let start = (index % 1024) as usize * 4096;
            let page = drive.read(start as u64, 4096).await.unwrap();
            assert!(page[..] == data[start..start + 4096]);
        }
    });
    env.block_on(join_all(reads));
}

/// The kernel may still write into the buffer of a read nobody waits for. Were that buffer
/// back in the pool, the next owner would see its bytes change.
#[test]
fn futures_may_be_dropped_in_flight() {
    let (env, dir) = (env(), TempDir::new());
    let drive = dir.drive(&env, 4 * MIB);
    env.block_on(drive.write(0, pattern(4 * MIB as usize, 5), Durability::Cached)).unwrap();
    env.block_on(async {
        for round in 0..2000u64 {
            {
                let mut read = pin!(drive.read(round % 1000 * 4096, 4096));
                let _ = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                if round % 2 == 0 {
                    env.yield_now().await;
                }
            }
            let mine = pattern(4096, round);
            env.yield_now().await;
            assert!(mine[..] == pattern(4096, round)[..], "a buffer in use was written");
        }
        drive.flush().await.unwrap();
    });
}

#[test]
fn an_environment_may_end_with_operations_in_flight() {
    let dir = TempDir::new();
    for round in 0..50 {
        let env = env();
        if round == 0 {
            dir.drive(&env, MIB);
        }
        let drive = open_soon(&env, &dir.join("drive"));
        for page in 0..64 {
            let drive = drive.clone();
            env.spawn(async move {
                drive.read(page * 4096, 4096).await.unwrap();
            });
        }
        env.block_on(env.yield_now());
        env.drop_tasks();
    }
}

#[test]
fn memory_and_files_are_drives_of_one_type() {
    let (env, dir) = (env(), TempDir::new());
    let memory = MemDrive::new(String::from("mem:0"), MIB, 512);
    let drives = [RealDrive::from(dir.drive(&env, MIB)), RealDrive::from(memory)];
    for drive in drives {
        let data = pattern(8192, 6);
        env.block_on(drive.write(4096, data.clone(), Durability::Durable)).unwrap();
        env.block_on(drive.flush()).unwrap();
        assert!(env.block_on(drive.read(4096, 8192)).unwrap()[..] == data[..]);
        env.block_on(drive.discard(0, MIB)).unwrap();
        assert_eq!(drive.geometry().size, MIB);
    }
}
