//! Running the binary: a directory of its own, drives in it, servers that end with the test.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::events::pause;

/// Large enough for a pool of four, small enough to be made in no time.
pub const DRIVE_BYTES: u64 = 128 << 20;

pub const BINARY: &str = env!("CARGO_BIN_EXE_steadyraid");

/// The binary in the directory of another user.
const COPY: &str = "./steadyraid";

/// Has no rights anywhere.
const NOBODY: u32 = 65534;

/// Patience with a command, far beyond what any of them takes.
const TIMEOUT_SECS: &str = "60";

/// What a command did.
#[derive(Debug)]
pub struct Done {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    #[track_caller]
    pub fn expect(self, exit: i32) -> Done {
        assert_eq!(self.exit, exit, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn says(self, text: &str) -> Done {
        let said = self.out.contains(text) || self.err.contains(text);
        assert!(said, "'{text}' is not in stdout:\n{}\nor stderr:\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        let value: Value = serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error} in {}{}", self.out, self.err));
        assert_eq!(value["version"], 1, "every document says its version");
        value
    }
}

/// A directory in which commands run; removed with everything in it.
pub struct Scratch {
    directory: TempDir,
    /// Whose commands these are, if not ours.
    user: Option<u32>,
}

impl Scratch {
    pub fn new() -> Scratch {
        Scratch { directory: TempDir::new().expect("a directory for the test"), user: None }
    }

    /// Of a user who is not root: another one, if we are.
    pub fn of_a_user() -> Scratch {
        let mut scratch = Scratch::new();
        if geteuid().is_root() {
            scratch.user = Some(NOBODY);
            // The directory that it was built in may be root's alone.
            fs::copy(BINARY, scratch.path(COPY)).expect("copied");
            scratch.give("");
        }
        scratch
    }

    /// Makes a file the user's own.
    pub fn give(&self, name: &str) {
        if self.user.is_some() {
            chown(self.path(name), self.user, self.user).expect("ours to give");
        }
    }

    /// With drives d0, d1, ... in it.
    pub fn with_drives(count: usize) -> Scratch {
        let scratch = Scratch::new();
        (0..count).for_each(|index| scratch.file(&format!("d{index}"), DRIVE_BYTES));
        scratch
    }

    /// With pool `tank` on d0 to d3, and a volume of 64 MiB in it.
    pub fn with_pool() -> Scratch {
        let scratch = Scratch::with_drives(4);
        scratch.run(&["create", "tank", "d0", "d1", "d2", "d3"]).expect(0);
        scratch.run(&["volume", "create", "tank/vm", "64M", "--drives", "."]).expect(0);
        scratch
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// An empty file of that size. Sparse: the tests don't need the space, only the bytes.
    pub fn file(&self, name: &str, size: u64) {
        let file = File::create(self.path(name)).expect("a file");
        file.set_len(size).expect("of that size");
    }

    pub fn read_only(&self, name: &str) {
        fs::set_permissions(self.path(name), Permissions::from_mode(0o444)).expect("ours");
    }

    pub fn copy(&self, from: &str, to: &str) {
        fs::copy(self.path(from), self.path(to)).expect("copied");
    }

    pub fn poke(&self, name: &str, offset: u64, bytes: &[u8]) {
        let file = File::options().write(true).open(self.path(name)).expect("the file");
        file.write_all_at(bytes, offset).expect("written");
    }

    pub fn peek(&self, name: &str, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let file = File::open(self.path(name)).expect("the file");
        file.read_exact_at(&mut bytes, offset).expect("read");
        bytes
    }

    /// A command that ends: one that serves where it should refuse would go on for ever.
    pub fn command(&self, program: &[&str]) -> Command {
        self.prepare(Command::new("timeout"), &[&[TIMEOUT_SECS], program].concat())
    }

    fn prepare(&self, mut command: Command, arguments: &[&str]) -> Command {
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env("STEADYRAID_RUNTIME_DIR", self.path("run"))
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null());
        command
    }

    fn binary(&self) -> &'static str {
        match self.user {
            Some(_) => COPY,
            None => BINARY,
        }
    }

    pub fn run(&self, arguments: &[&str]) -> Done {
        run(self.command(&[&[self.binary()], arguments].concat()))
    }

    /// Runs it until what it did is as wanted, for half a minute and more.
    #[track_caller]
    pub fn until(&self, arguments: &[&str], is_wanted: impl Fn(&Done) -> bool) -> Done {
        for _ in 0..600 {
            let done = self.run(arguments);
            if is_wanted(&done) {
                return done;
            }
            pause();
        }
        panic!("{arguments:?} does not come to what is wanted: {:?}", self.run(arguments));
    }

    /// The same, told to end (SIGTERM) after so many seconds.
    pub fn run_for(&self, secs: &str, arguments: &[&str]) -> Done {
        let timed = ["timeout", "--preserve-status", secs, self.binary()];
        run(self.command(&[&timed, arguments].concat()))
    }

    /// The same with something else as standard output.
    pub fn run_into(&self, out: File, arguments: &[&str]) -> Done {
        let mut command = self.command(&[&[self.binary()], arguments].concat());
        command.stdout(out);
        run(command)
    }

    /// Starts `serve` and waits until it says that it is ready.
    pub fn serve(&self, arguments: &[&str]) -> Server {
        Server::start(self.server(arguments))
    }

    /// The same with more environment variables.
    pub fn serve_with(
        &self,
        variables: &[(&str, &dyn AsRef<OsStr>)],
        arguments: &[&str],
    ) -> Server {
        let mut command = self.server(arguments);
        command.envs(variables.iter().map(|(name, value)| (name, value.as_ref())));
        Server::start(command)
    }

    /// The same with standard error somewhere else.
    pub fn serve_telling(
        &self,
        to: impl Into<Stdio>,
        variables: &[(&str, &dyn AsRef<OsStr>)],
        arguments: &[&str],
    ) -> Server {
        let mut command = self.server(arguments);
        command.envs(variables.iter().map(|(name, value)| (name, value.as_ref())));
        command.stderr(to);
        Server::start(command)
    }

    /// A server started by another program, which is given its command line.
    pub fn serve_by(&self, starter: &[&str], arguments: &[&str]) -> Server {
        let command = self.prepare(Command::new(starter[0]), &starter[1..]);
        let mut command = self.as_server(command);
        command.arg(self.binary()).arg("serve").args(arguments);
        Server::start(command)
    }

    fn as_server(&self, mut command: Command) -> Command {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn server(&self, arguments: &[&str]) -> Command {
        let mut command = self.prepare(Command::new(self.binary()), &["serve"]);
        command.args(arguments);
        self.as_server(command)
    }
}

pub fn run(mut command: Command) -> Done {
    let output = command.output().expect("the command starts");
    Done {
        exit: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

/// A server; killed, by its own pid, if the test ends without stopping it.
pub struct Server {
    child: Child,
    /// Until nobody reads it any more.
    stdout: Option<BufReader<ChildStdout>>,
    /// What it said until it was ready.
    pub said: Vec<String>,
}

impl Server {
    fn start(mut command: Command) -> Server {
        let mut child = command.spawn().expect("the server starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut server = Server { child, stdout: Some(stdout), said: Vec::new() };
        while server.said.last().is_none_or(|line| line != "ready") {
            let mut line = String::new();
            let stdout = server.stdout.as_mut().expect("it is read");
            let count = stdout.read_line(&mut line).expect("text");
            assert_ne!(count, 0, "the server ended: {}", rest(&mut server.child));
            server.said.push(line.trim_end().to_owned());
        }
        server
    }

    /// SIGTERM, then what it still said as a warning. It says nothing else.
    #[track_caller]
    pub fn stop(self) -> String {
        let (out, err) = self.end();
        assert_eq!(out, "stopped\n");
        err
    }

    /// The same for a server that has something to say, and nothing to warn of.
    #[track_caller]
    pub fn stop_and_say(self) -> String {
        let (out, err) = self.end();
        assert!(out.ends_with("stopped\n") && err.is_empty(), "{out}{err}");
        out
    }

    /// Nobody reads any more what it says.
    pub fn hang_up(&mut self) {
        drop(self.child.stderr.take());
        self.stdout = None;
    }

    /// Where it finds what others find at `path`: it may have a filesystem of its own.
    pub fn root(&self, path: &Path) -> PathBuf {
        let root = format!("/proc/{}/root", self.child.id());
        Path::new(&root).join(path.strip_prefix("/").expect("from the root"))
    }

    /// SIGTERM to one that can't close its pools: how it ends, and what it says of it.
    pub fn end_badly(mut self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        self.rest_of_out();
        let status = self.child.wait().expect("ended");
        (status, rest(&mut self.child))
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the server is there");
    }

    fn rest_of_out(&mut self) -> String {
        let mut out = String::new();
        let read = self.stdout.as_mut().map(|stdout| stdout.read_to_string(&mut out));
        read.map(|read| read.expect("text"));
        out
    }

    /// What it still says until it ends by itself.
    pub fn ended(mut self) -> String {
        let out = self.rest_of_out();
        assert!(self.child.wait().expect("ended").success());
        out
    }

    /// SIGTERM, then what it still said.
    #[track_caller]
    pub fn end(mut self) -> (String, String) {
        self.signal(Signal::TERM);
        let out = self.rest_of_out();
        let status = self.child.wait().expect("ended");
        let err = rest(&mut self.child);
        assert!(status.success(), "{status}: {out}{err}");
        (out, err)
    }

    /// SIGKILL: a crash.
    pub fn crash(mut self) -> ExitStatus {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended")
    }
}

fn rest(child: &mut Child) -> String {
    let mut err = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut err);
    }
    err
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compares the part of a page of docs/ below its mark with what is so now; with `BLESS` set
/// in the environment, writes it.
pub fn check_page(name: &str, test: &str, now: &str) {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    let mark =
        format!("<!-- Below: written by `BLESS=1 cargo test -p app --test cli {test}`. -->\n");
    let page = fs::read_to_string(&path).expect("the page is there");
    let (head, written) = page.split_once(&mark).expect("the page has its mark");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, format!("{head}{mark}{now}")).expect("written");
        return;
    }
    let differs = written.lines().zip(now.lines()).find(|(page, now)| page != now);
    assert!(
        written == now,
        "docs/{name} is out of date; first difference (page, now): {differs:#?}"
    );
}
