//! What needs root: loop devices as block devices, and filesystems mounted for a test.
//! Without root these say that they skip, and pass.

use std::path::{Path, PathBuf};
use std::process::Command;

use io::uring::{Access, OpenError, UringDrive, UringEnv, create_file};
use io::{Drive, Durability};

use crate::support::{TempDir, open_soon, pattern};

const SIZE: u64 = 8 << 20;

/// A loop device, detached at the end.
struct Loop {
    device: PathBuf,
    _dir: TempDir,
}

impl Loop {
    /// `None`, with the reason printed, where loop devices can't be made.
    fn new(options: &[&str]) -> Option<Loop> {
        let dir = TempDir::new();
        let file = dir.join("backing");
        create_file(&file, SIZE).unwrap();
        Loop::on(&file, dir, options)
    }

    /// The same on a file.
    fn on(file: &Path, dir: TempDir, options: &[&str]) -> Option<Loop> {
        let output =
            Command::new("losetup").args(["--find", "--show"]).args(options).arg(file).output();
        match output {
            Ok(output) if output.status.success() => {
                let device = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
                Some(Loop { device, _dir: dir })
            }
            failed => {
                println!("SKIPPED: losetup does not work here: {failed:?}");
                None
            }
        }
    }
}

impl Loop {
    fn sysfs(&self, file: &str) -> String {
        let name = self.device.file_name().unwrap().to_str().unwrap();
        std::fs::read_to_string(format!("/sys/block/{name}/{file}")).unwrap()
    }

    /// Discards that the kernel has counted on it; `None` where it counts none.
    fn discards(&self) -> Option<u64> {
        self.sysfs("stat").split_whitespace().nth(11).map(|count| count.parse().unwrap())
    }

    fn has_discard(&self) -> bool {
        let has = self.sysfs("queue/discard_max_bytes").trim() != "0" && self.discards().is_some();
        if !has {
            println!("SKIPPED: loop devices have no discard here, or it is not counted");
        }
        has
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

fn works(options: &[&str], align: u32) {
    let Some(device) = Loop::new(options) else { return };
    let env = UringEnv::new().unwrap();
    let drive = UringDrive::open(&env, &device.device, Access::ReadWrite).unwrap();
    let geometry = drive.geometry();
    assert_eq!((geometry.size, geometry.align), (SIZE, align));
    assert!(drive.is_direct());
    let data = pattern(1 << 20, 1);
    env.block_on(async {
        drive.write(4096, data.clone(), Durability::Cached).await.unwrap();
        drive.flush().await.unwrap();
        drive.write(2 << 20, data.slice(4096..8192), Durability::Durable).await.unwrap();
        assert!(drive.read(4096, 1 << 20).await.unwrap()[..] == data[..]);
        assert!(drive.read(2 << 20, 4096).await.unwrap()[..] == data[4096..8192]);
        drive.discard(4096, 65536).await.unwrap();
        let kept = drive.read(4096 + 65536, 4096).await.unwrap();
        assert!(kept[..] == data[65536..65536 + 4096]);
    });
}

#[test]
fn a_block_device_works() {
    works(&["--direct-io=on"], 512);
}

#[test]
fn a_block_device_with_large_sectors_works() {
    works(&["--sector-size=4096"], 4096);
}

#[test]
fn a_block_device_is_claimed() {
    let Some(device) = Loop::new(&[]) else { return };
    let env = UringEnv::new().unwrap();
    let drive = UringDrive::open(&env, &device.device, Access::ReadWrite).unwrap();
    let error = UringDrive::open(&env, &device.device, Access::ReadWrite).err().unwrap();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    let inspected = UringDrive::open(&env, &device.device, Access::ReadOnly).unwrap();
    env.block_on(inspected.read(0, 4096)).unwrap();
    drop(drive);
    open_soon(&env, &device.device);
}

#[test]
fn a_write_protected_block_device_can_only_be_inspected() {
    let Some(device) = Loop::new(&["--read-only"]) else { return };
    let env = UringEnv::new().unwrap();
    let error = UringDrive::open(&env, &device.device, Access::ReadWrite).err().unwrap();
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error}");
    UringDrive::open(&env, &device.device, Access::ReadOnly).unwrap();
}

/// A mount, undone at the end.
struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    fn new(kind: &str, options: &str, at: &'a Path) -> Option<Mount<'a>> {
        std::fs::create_dir(at).unwrap();
        let result = Command::new("mount").args(["-t", kind, "-o", options, kind]).arg(at).output();
        if result.as_ref().is_ok_and(|output| output.status.success()) {
            return Some(Mount(at));
        }
        println!("SKIPPED: can't mount {kind}: {result:?}");
        None
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_filesystem_without_direct_io_goes_through_the_cache() {
    let dir = TempDir::new();
    let at = dir.join("ramfs");
    let Some(_mount) = Mount::new("ramfs", "defaults", &at) else { return };
    let env = UringEnv::new().unwrap();
    let path = at.join("drive");
    create_file(&path, SIZE).unwrap();
    let drive = UringDrive::open(&env, &path, Access::ReadWrite).unwrap();
    if drive.is_direct() {
        println!("SKIPPED: ramfs has direct I/O here");
        return;
    }
    let data = pattern(16384, 2).slice(1..8193);
    env.block_on(async {
        drive.write(512, data.clone(), Durability::Durable).await.unwrap();
        drive.flush().await.unwrap();
        assert!(drive.read(512, 8192).await.unwrap()[..] == data[..]);
        // Can't be done there, which is a success that does nothing.
        drive.discard(0, SIZE).await.unwrap();
        drive.discard(0, SIZE).await.unwrap();
        // This is done all the same.
        assert!(!drive.takes_write_zeroes());
        drive.write_zeroes(1024, 4096).await.unwrap();
        let read = drive.read(512, 8192).await.unwrap();
        assert!(read[..512] == data[..512] && read[4608..] == data[4608..]);
        assert!(read[512..4608].iter().all(|byte| *byte == 0));
    });
}

/// In a filesystem of its own: to fill one that others use, however shortly, takes their space.
#[test]
fn a_file_that_does_not_fit_is_not_left_behind() {
    let dir = TempDir::new();
    let at = dir.join("tmpfs");
    let Some(_mount) = Mount::new("tmpfs", "size=1m", &at) else { return };
    let path = at.join("huge");
    let error = create_file(&path, 8 << 20).unwrap_err();
    assert!(matches!(error, OpenError::NoSpace { size, .. } if size == 8 << 20), "{error}");
    assert!(!path.exists());
    let error = create_file(at.join("absent/file"), 4096).unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
}

/// Punching a hole in a block device is WRITE ZEROES, which is no discard: many devices know the
/// one and not the other, and were never told of anything.
#[test]
fn a_block_device_gets_real_discards() {
    for by_ioctl in [false, true] {
        let Some(device) = Loop::new(&["--direct-io=on"]) else { return };
        if !device.has_discard() {
            return;
        }
        let env = UringEnv::new().unwrap();
        let drive = UringDrive::open(&env, &device.device, Access::ReadWrite).unwrap();
        let drive = if by_ioctl { drive.without_discard_command() } else { drive };
        let unit: u32 = device.sysfs("queue/discard_granularity").trim().parse().unwrap();
        assert_eq!(drive.discard_granularity(), Some(unit));
        let data = pattern(1 << 20, 4);
        let before = device.discards().unwrap();
        env.block_on(async {
            drive.write(0, data.clone(), Durability::Durable).await.unwrap();
            drive.discard(65536, 131072).await.unwrap();
            drive.discard(0, 0).await.unwrap();
            assert!(drive.read(0, 65536).await.unwrap()[..] == data[..65536]);
            let behind = drive.read(196_608, 65536).await.unwrap();
            assert!(behind[..] == data[196_608..196_608 + 65536]);
        });
        assert_eq!(device.discards().unwrap() - before, 1, "by ioctl: {by_ioctl}");
        // The claim on the device goes with the drive, whichever thread discarded.
        drop(drive);
        open_soon(&env, &device.device);
    }
}

/// The queue says so at once, and nobody is asked.
#[test]
fn a_block_device_without_discard_says_so() {
    let dir = TempDir::new();
    let at = dir.join("ramfs");
    // No file there can have a hole punched into it, nor can a loop device on one.
    let Some(_mount) = Mount::new("ramfs", "defaults", &at) else { return };
    let file = at.join("backing");
    std::fs::write(&file, vec![7; SIZE as usize]).unwrap();
    let Some(device) = Loop::on(&file, dir, &[]) else { return };
    assert_eq!(device.sysfs("queue/discard_max_bytes").trim(), "0");
    let env = UringEnv::new().unwrap();
    let drive = UringDrive::open(&env, &device.device, Access::ReadWrite).unwrap();
    assert_eq!((drive.discard_granularity(), drive.takes_write_zeroes()), (None, false));
    env.block_on(async {
        drive.discard(0, SIZE).await.unwrap();
        assert!(drive.read(0, 65536).await.unwrap().iter().all(|byte| *byte == 7));
    });
}

/// Zeroes for which the file below need not keep room.
#[test]
fn a_block_device_takes_zeroes_as_holes() {
    let dir = TempDir::new();
    let file = dir.join("backing");
    std::fs::File::create(&file).unwrap().set_len(SIZE).unwrap();
    let Some(device) = Loop::on(&file, dir, &["--direct-io=on"]) else { return };
    if !device.has_discard() {
        return;
    }
    let env = UringEnv::new().unwrap();
    let drive = UringDrive::open(&env, &device.device, Access::ReadWrite).unwrap();
    assert!(drive.takes_write_zeroes());
    let data = pattern(4 << 20, 5);
    let blocks = || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&file).unwrap());
    env.block_on(async {
        drive.write(0, data.clone(), Durability::Durable).await.unwrap();
        let before = blocks();
        drive.write_zeroes(1 << 20, 2 << 20).await.unwrap();
        drive.write_zeroes(3 << 20, 4096).await.unwrap();
        drive.flush().await.unwrap();
        assert!(blocks() + 4096 <= before, "2 MiB are free: {before}, {}", blocks());
        let read = drive.read(0, 4 << 20).await.unwrap();
        let end = (3 << 20) + 4096;
        assert!(read[..1 << 20] == data[..1 << 20] && read[end..] == data[end..]);
        assert!(read[1 << 20..end].iter().all(|byte| *byte == 0));
    });
}
