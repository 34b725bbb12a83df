//! Temporary directories, patterns, and running a part of a test in another process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use io::uring::{Access, OpenError, UringDrive, UringEnv, create_file};
use io::{Buf, BufMut, Env, Nanos};

/// Removed with everything in it at the end of the test.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> TempDir {
        TempDir::below(Path::new("/tmp"))
    }

    pub fn below(parent: &Path) -> TempDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(format!("steadyraid-io-test-{process}-{number}"));
        fs::create_dir(&path).unwrap();
        TempDir(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A new file, open as a drive.
    pub fn drive(&self, env: &UringEnv, size: u64) -> UringDrive {
        let path = self.join("drive");
        create_file(&path, size).unwrap();
        UringDrive::open(env, &path, Access::ReadWrite).unwrap()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A child that another test starts has all our files, and with them our locks, until it is a
/// program of its own.
pub fn open_soon(env: &UringEnv, path: &Path) -> UringDrive {
    let deadline = env.now() + Nanos::from_secs(10);
    loop {
        match UringDrive::open(env, path, Access::ReadWrite) {
            Err(OpenError::Locked { .. } | OpenError::InUse { .. }) if env.now() < deadline => {
                env.block_on(env.sleep_until(env.now() + Nanos::from_millis(1)));
            }
            opened => return opened.unwrap(),
        }
    }
}

/// Bytes that differ by seed and position.
pub fn pattern(len: usize, seed: u64) -> Buf {
    let mut buf = BufMut::with_len(len);
    io::rng::Rng::new(seed).fill(&mut buf);
    buf.freeze()
}

/// Runs the test `name` of this program in a process of its own.
pub fn in_child(name: &str, argument: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(ARGUMENT, argument)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

const ARGUMENT: &str = "STEADYRAID_IO_TEST_ARGUMENT";

/// What the parent gave to `in_child`; `None` in a test that nobody's child runs.
pub fn argument() -> Option<PathBuf> {
    std::env::var_os(ARGUMENT).map(PathBuf::from)
}
