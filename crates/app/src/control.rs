//! The control socket's protocol, and its client. The server's side is [`crate::serve::control`].
//!
//! One JSON document a line, each way, over a Unix socket:
//!
//! ```text
//! -> {"version":1,"request":"volume-create","pool":"tank","volume":"vm1","size":1073741824}
//! <- {"version":1,"done":"volume tank/vm1 of 1 GiB created"}
//! -> {"version":1,"request":"status","pool":"nosuch"}
//! <- {"version":1,"error":{"object":"nosuch","what":"no such pool is served here", ...}}
//! ```
//!
//! A connection may carry many requests, one after another.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::render::print;
use crate::render::view::{self, VERSION};
use crate::runtime_dir;
use crate::serve::faults::FaultSpec;

/// Longest request line. The longest sensible one has two names of 63 bytes and a
/// path of 4,095.
pub const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Longest response line: the status of thousands of drives and volumes. Keeps a client from
/// filling its memory with what is not our server.
const RESPONSE_BYTES_MAX: u64 = 64 << 20;

const NO_SERVER: &str = "no server is running here";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// All pools, or one.
    Status {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<String>,
    },
    VolumeCreate {
        pool: String,
        volume: String,
        size: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parity: Option<u8>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        width: Option<u16>,
    },
    VolumeResize {
        pool: String,
        volume: String,
        size: u64,
    },
    VolumeDelete {
        pool: String,
        volume: String,
    },
    VolumeLimit {
        pool: String,
        volume: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iops: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes_per_sec: Option<u64>,
    },
    /// What an operator decides about a drive. Drives are named by index, UUID or name.
    DriveDecide {
        pool: String,
        drive: String,
        decision: Decision,
    },
    DriveFail {
        pool: String,
        drive: String,
        #[serde(default)]
        force: bool,
        /// It is to come back.
        #[serde(default)]
        offline: bool,
    },
    /// Puts the drive at a path in another one's place.
    DriveReplace {
        pool: String,
        drive: String,
        path: String,
        /// It is the lost one, come back.
        #[serde(default)]
        back: bool,
        /// Whatever is on it.
        #[serde(default)]
        force: bool,
    },
    /// Drives at these paths join.
    DriveAdd {
        pool: String,
        new: Vec<String>,
        /// Whatever is on them.
        #[serde(default)]
        force: bool,
    },
    DriveRemove {
        pool: String,
        drive: String,
        #[serde(default)]
        stop: bool,
    },
    /// What lost drives held, and what is restored, stands still or goes on.
    Rebuild {
        pool: String,
        pause: bool,
    },
    Scrub {
        pool: String,
        action: ScrubAction,
    },
    Rebalance {
        pool: String,
        #[serde(default)]
        stop: bool,
    },
    /// Events of all pools, or one; waits for one if there is none.
    Events {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<String>,
        /// The last one that is known, by the pool's name; 0 where nothing is said.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        after: BTreeMap<String, u64>,
        #[serde(default)]
        wait_millis: u64,
    },
    /// For tests, see [`crate::serve::faults`].
    Fault {
        pool: String,
        drive: String,
        fault: FaultSpec,
    },
    /// Ends one fault, or all.
    FaultRelease {
        pool: String,
        drive: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<u64>,
    },
    /// How often which kind was injected.
    FaultCounts {
        pool: String,
        drive: String,
    },
}

/// The verbs' words for [`engine::DriveOverride`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    SitOut,
    Trust,
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubAction {
    Start,
    Pause,
    Stop,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Pools(Vec<view::Pool>),
    Events(Vec<view::Event>),
    /// Done; a sentence for people.
    Done(String),
    Error(Failure),
}

#[derive(Serialize, Deserialize)]
struct Message<T> {
    version: u32,
    #[serde(flatten)]
    content: T,
}

fn line<T: Serialize>(content: &T) -> String {
    let message = Message { version: VERSION, content };
    match serde_json::to_string(&message) {
        Ok(text) => text + "\n",
        Err(error) => unreachable!("messages are plain values: {error}"),
    }
}

impl Request {
    pub fn to_line(&self) -> String {
        line(self)
    }

    /// Reads a request that anybody may have written.
    pub fn parse(line: &[u8]) -> Outcome<Request> {
        let bad = |error: serde_json::Error| {
            Failure::usage("control request", format!("not understood: {error}"))
        };
        let mut document: Value = serde_json::from_slice(line).map_err(bad)?;
        let version = document.as_object_mut().and_then(|fields| fields.remove("version"));
        match version.and_then(|version| version.as_u64()) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => {
                let what = format!("version {version} is not spoken here, only {VERSION}");
                return Err(Failure::usage("control request", what));
            }
            None => return Err(Failure::usage("control request", "has no \"version\" number")),
        }
        serde_json::from_value(document).map_err(bad)
    }
}

impl Answer {
    pub fn to_line(&self) -> String {
        line(self)
    }
}

/// `--control PATH`, the same for every verb.
#[derive(Args, Clone, Debug, Default)]
pub struct ControlArgs {
    /// Control socket of the server [default: control.sock in the runtime directory, which is
    /// $STEADYRAID_RUNTIME_DIR, /run/steadyraid for root, $XDG_RUNTIME_DIR/steadyraid, or
    /// /tmp/steadyraid-UID]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

impl ControlArgs {
    pub fn path(&self) -> PathBuf {
        self.control.clone().unwrap_or_else(runtime_dir::control_socket)
    }

    /// `Ok(None)` if no server is running.
    pub fn try_connect(&self) -> Outcome<Option<Connection>> {
        let path = self.path();
        match UnixStream::connect(&path) {
            Ok(stream) => Ok(Some(Connection { stream, path })),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Err(error) => Err(Failure::new(path.display(), format!("can't connect: {error}"))),
        }
    }

    /// To the server that must be running.
    pub fn connect(&self) -> Outcome<Connection> {
        self.try_connect()?.ok_or_else(|| {
            Failure::new(self.path().display(), NO_SERVER)
                .hint("start one with 'steadyraid serve', or name its socket with --control")
        })
    }

    /// Has the server that must be running do something, and prints what it says about it.
    pub fn have_done(&self, request: &Request) -> Outcome<Exit> {
        match self.connect()?.ask(request)? {
            Answer::Done(what) => print(&format!("{what}\n")),
            _ => return Err(Failure::new("server", "answered something else than it was asked")),
        }
        Ok(Exit::Ok)
    }

    /// Asks the server that must be running, for a verb that could do with drives.
    pub fn ask(&self, request: &Request) -> Outcome<Answer> {
        let server = self.try_connect()?.ok_or_else(|| {
            Failure::new(self.path().display(), NO_SERVER).hint(
                "start one with 'steadyraid serve', or name its socket with --control, or act on \
                 drives that are not being served with --drives",
            )
        })?;
        server.ask(request)
    }
}

/// To one server: a request on it never reaches one that was started later.
pub struct Connection {
    stream: UnixStream,
    path: PathBuf,
}

impl Connection {
    pub fn ask(&self, request: &Request) -> Outcome<Answer> {
        exchange(&self.stream, request, &self.path)
    }
}

fn exchange(mut stream: &UnixStream, request: &Request, path: &Path) -> Outcome<Answer> {
    let broken = |error: std::io::Error| {
        Failure::new(path.display(), format!("the connection to the server broke: {error}"))
    };
    stream.write_all(request.to_line().as_bytes()).map_err(broken)?;
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream.take(RESPONSE_BYTES_MAX));
    reader.read_until(b'\n', &mut line).map_err(broken)?;
    if line.is_empty() {
        return Err(Failure::new(path.display(), "the server hung up without an answer")
            .hint("it may be stopping, or have too many control connections; try again"));
    }
    let message: Message<Answer> = serde_json::from_slice(&line).map_err(|error| {
        Failure::new(path.display(), format!("the answer is not understood: {error}"))
            .hint("are server and client of the same version?")
    })?;
    match message.content {
        Answer::Error(failure) => Err(failure),
        answer => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_wire() {
        let requests = [
            Request::Status { pool: None },
            Request::Status { pool: Some("tank".to_owned()) },
            Request::VolumeCreate {
                pool: "tank".to_owned(),
                volume: "vm1".to_owned(),
                size: u64::MAX,
                parity: Some(2),
                width: None,
            },
            Request::VolumeDelete { pool: "tank".to_owned(), volume: "vm1".to_owned() },
            Request::Events {
                pool: None,
                after: [("tank".to_owned(), 7)].into(),
                wait_millis: 20_000,
            },
            Request::DriveDecide {
                pool: "tank".to_owned(),
                drive: "3".to_owned(),
                decision: Decision::SitOut,
            },
        ];
        for request in requests {
            assert_eq!(Request::parse(request.to_line().as_bytes()), Ok(request));
        }
    }

    #[test]
    fn hostile_bytes_get_an_error() {
        let deep = "[".repeat(4000);
        let lines: [&[u8]; 13] = [
            b"",
            b"\0\xff\xfe",
            b"null",
            b"[1]",
            b"{}",
            br#"{"version":2,"request":"status"}"#,
            br#"{"version":1,"request":"format-everything"}"#,
            br#"{"version":1,"request":"status","pool":"a","extra":1}"#,
            br#"{"version":1,"request":"volume-resize","pool":"a","volume":"b","size":-1}"#,
            br#"{"version":1,"request":"events","after":7}"#,
            br#"{"version":1,"request":"events","wait_millis":-1}"#,
            br#"{"version":1,"request":"drive-decide","pool":"a","drive":"0","decision":"sell"}"#,
            deep.as_bytes(),
        ];
        for line in lines {
            let failure = Request::parse(line).expect_err("no request");
            assert!(failure.usage, "{failure}");
        }
    }

    #[test]
    fn answers_carry_the_version_beside_the_content() {
        let answer = Answer::Error(Failure::new("tank", "is on fire").hint("extinguish it"));
        assert_eq!(
            answer.to_line(),
            "{\"version\":1,\"error\":{\"object\":\"tank\",\"what\":\"is on fire\",\"hint\":\
             \"extinguish it\",\"usage\":false}}\n"
        );
    }
}
