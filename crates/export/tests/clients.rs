//! Other people's clients against our server, over a Unix socket and io_uring.
//!
//! They need `nbdinfo` and `nbdcopy` (libnbd-bin), `qemu-img` and `qemu-io` (qemu-utils) and
//! `fio`; a test whose tool is missing fails and names the package.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use export::ram::{RamExports, RamVolume};
use export::{Limits, Server};
use io::Env;
use io::net::{Address, Listener};
use io::uring::UringEnv;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 64 * MIB;

/// A running server as clients see it.
struct Target {
    dir: PathBuf,
}

impl Target {
    fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.dir.join("socket").display())
    }

    fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }
}

/// Whether the clients are done, and who waits for that.
#[derive(Default)]
struct Done {
    finished: bool,
    waiting: Option<Waker>,
}

/// Sets `finished` also when the clients' thread panics.
struct Finish(Arc<Mutex<Done>>);

impl Drop for Finish {
    fn drop(&mut self) {
        let mut done = self.0.lock().expect("nobody panics while holding the lock");
        done.finished = true;
        if let Some(waker) = done.waiting.take() {
            waker.wake();
        }
    }
}

/// Serves "disk" (empty) and "frozen" (the same, read-only) on this thread while `clients`
/// runs on another.
fn serve(name: &str, clients: impl FnOnce(&Target) + Send) {
    let dir = std::env::temp_dir().join(format!("steadyraid-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("the temporary directory is writable");
    let env = UringEnv::new().expect("io_uring works here");
    let volume = RamVolume::new(SIZE);
    let exports = RamExports::new([("disk", volume.clone()), ("frozen", volume.frozen())]);
    let server = Server::new(env.clone(), exports, Limits::default());
    let listener = Listener::bind(&env, &Address::Unix(dir.join("socket"))).expect("a new socket");
    env.spawn(accept(env.clone(), server.clone(), listener));

    let (done, target) = (Arc::new(Mutex::new(Done::default())), Target { dir: dir.clone() });
    std::thread::scope(|scope| {
        let finish = Finish(done.clone());
        scope.spawn(move || {
            let _finish = finish;
            clients(&target);
        });
        env.block_on(async {
            wait_for(&done).await;
            server.shut_down();
            server.stopped().await;
        });
    });
    env.drop_tasks();
    std::fs::remove_dir_all(&dir).expect("the directory is ours");
}

async fn wait_for(done: &Mutex<Done>) {
    poll_fn(|context| {
        let mut done = done.lock().expect("nobody panics while holding the lock");
        done.waiting = Some(context.waker().clone());
        if done.finished { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

async fn accept(env: UringEnv, server: Server<UringEnv, RamExports>, listener: Listener) {
    while let Ok(stream) = listener.accept().await {
        let server = server.clone();
        env.spawn(async move {
            server.serve(stream).await.expect("these clients keep to the protocol");
        });
    }
}

/// Runs a tool; gives what it printed, or its error output if it failed.
fn try_run(tool: &str, package: &str, arguments: &[&str]) -> Result<String, String> {
    let output = match Command::new(tool).args(arguments).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("`{tool}` is not installed; install the package `{package}`")
        }
        output => output.expect("the tool starts"),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr) + &text(&output.stdout))
    }
}

fn run(tool: &str, package: &str, arguments: &[&str]) -> String {
    try_run(tool, package, arguments)
        .unwrap_or_else(|error| panic!("{tool} {} failed: {error}", arguments.join(" ")))
}

/// A file of the volume's size: data that doesn't repeat, with holes between.
fn sparse_file(path: &str) {
    let mut bytes = vec![0; SIZE as usize];
    for (number, part) in bytes.chunks_mut(1_234_944).enumerate().filter(|(n, _)| n % 3 != 0) {
        let mut state = number as u64;
        for word in part.chunks_exact_mut(8) {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            word.copy_from_slice(&state.to_le_bytes());
        }
    }
    std::fs::write(path, bytes).expect("there is room");
}

fn assert_same(left: &str, right: &str) {
    let read = |path: &str| std::fs::read(Path::new(path)).expect("the tool wrote it");
    assert!(read(left) == read(right), "{left} and {right} differ");
}

#[test]
fn nbdinfo_sees_what_we_offer() {
    serve("nbdinfo", |target| {
        let info = |arguments: &[&str]| run("nbdinfo", "libnbd-bin", arguments);
        let list = info(&["--list", "--json", &target.uri("")]);
        for expected in [
            r#""export-name": "disk""#,
            r#""export-name": "frozen""#,
            r#""description": "67108864 bytes of memory""#,
            r#""protocol": "newstyle-fixed""#,
            r#""structured": true"#,
            r#""base:allocation""#,
            r#""block_size_minimum": 512"#,
            r#""block_size_preferred": 4096"#,
            r#""block_size_maximum": 33554432"#,
            r#""is_read_only": true"#,
        ] {
            assert!(list.contains(expected), "{expected} is not in {list}");
        }
        assert_eq!(info(&["--size", &target.uri("disk")]).trim(), SIZE.to_string());
        for can in ["fua", "flush", "trim", "zero", "fast-zero", "df", "multi-conn", "write"] {
            info(&["--can", can, &target.uri("disk")]);
        }
        info(&["--is", "read-only", &target.uri("frozen")]);
        assert!(info(&["--map", &target.uri("disk")]).contains("hole,zero"));
        let missing = try_run("nbdinfo", "libnbd-bin", &[&target.uri("missing")]);
        let missing = missing.expect_err("there is no such export");
        assert!(missing.contains("export: missing"), "{missing}");
    });
}

#[test]
fn nbdcopy_brings_back_what_it_took() {
    serve("nbdcopy", |target| {
        let (source, back, uri) = (target.file("source"), target.file("back"), target.uri("disk"));
        sparse_file(&source);
        let copy = |arguments: &[&str]| run("nbdcopy", "libnbd-bin", arguments);
        copy(&["--flush", "--connections=4", "--requests=64", &source, &uri]);
        copy(&["--connections=4", "--requests=64", &uri, &back]);
        assert_same(&source, &back);
        let map = run("nbdinfo", "libnbd-bin", &["--map", "--totals", &uri]);
        assert!(map.contains("data") && map.contains("hole,zero"), "{map}");
        // Without block status and with synchronous requests, too.
        let other = target.file("other");
        copy(&["--no-extents", "--synchronous", "--connections=1", &uri, &other]);
        assert_same(&source, &other);
    });
}

#[test]
fn qemu_img_converts_and_compares() {
    serve("qemu-img", |target| {
        let (source, back, uri) = (target.file("source"), target.file("back"), target.uri("disk"));
        sparse_file(&source);
        let img = |arguments: &[&str]| run("qemu-img", "qemu-utils", arguments);
        img(&["convert", "-n", "-W", "-m", "8", "-f", "raw", "-O", "raw", &source, &uri]);
        img(&["compare", "-f", "raw", "-F", "raw", &source, &uri]);
        img(&["convert", "-f", "raw", "-O", "raw", &uri, &back]);
        assert_same(&source, &back);
        let map = img(&["map", "-f", "raw", "--output=json", &uri]);
        assert!(map.contains(r#""zero": true"#) && map.contains(r#""data": true"#), "{map}");
        let info = img(&["info", "-f", "raw", &uri]);
        assert!(info.contains("virtual size: 64 MiB"), "{info}");
    });
}

#[test]
fn qemu_io_writes_zeroes_discards_and_flushes() {
    serve("qemu-io", |target| {
        let io = |uri: String, commands: &[&str]| {
            let mut arguments = vec!["-f", "raw"];
            arguments.extend(commands.iter().flat_map(|command| ["-c", command]));
            arguments.push(&uri);
            try_run("qemu-io", "qemu-utils", &arguments)
        };
        let output = io(
            target.uri("disk"),
            &[
                "write -P 0xa5 0 8M",
                "write -f -P 0x5a 1M 64k",
                "aio_write -P 0x77 2M 12k",
                "aio_write -P 0x88 3M 512",
                "aio_flush",
                "write -z -u 4M 1M",
                "write -z 5M 1M",
                "discard 6M 1M",
                "flush",
                "read -P 0xa5 0 1M",
                "read -P 0x5a 1M 64k",
                "read -P 0x77 2M 12k",
                "read -P 0x88 3M 512",
                "read -P 0xa5 3146240 512",
                "read -P 0 4M 3M",
                "read -P 0xa5 7M 1M",
            ],
        );
        let output = output.expect("all of it works");
        assert!(!output.contains("Pattern verification failed"), "{output}");
        let refused = io(target.uri("frozen"), &["write 0 512"]).expect_err("it is read-only");
        assert!(refused.contains("Permission denied"), "{refused}");
    });
}

#[test]
fn fio_verifies_what_it_wrote_at_depth_32() {
    serve("fio", |target| {
        let uri = format!("--uri={}", target.uri("disk"));
        for shape in ["--bs=4k", "--bsrange=512-256k"] {
            run(
                "fio",
                "fio",
                &[
                    "--name=verify",
                    "--ioengine=nbd",
                    &uri,
                    "--rw=randrw",
                    shape,
                    "--iodepth=32",
                    "--size=48m",
                    "--verify=crc32c",
                    "--verify_fatal=1",
                    "--fsync=64",
                    "--output=/dev/null",
                ],
            );
        }
    });
}
