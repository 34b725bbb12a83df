//! What a server can be asked, and by whom over the control socket.
//!
//! It travels as HTTP ([`crate::api`]); an answer is a JSON document with its version:
//!
//! ```text
//! POST /api/v1/pools/tank/volumes  {"volume":"vm1","size":1073741824}
//!      {"version":1,"done":"volume tank/vm1 of 1 GiB created"}
//! GET  /api/v1/pools/nosuch
//!      {"version":1,"error":{"object":"nosuch","what":"no such pool is served here", ...}}
//! ```

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::client::Client;
use crate::api::route::Call;
use crate::drives::{PATIENCE, RETRY};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::render::print;
use crate::render::view::{self, VERSION};
use crate::runtime_dir;
use crate::serve::faults::FaultSpec;

/// Longest body of a request: one that adds drives has a dozen paths of up to 4,095 bytes.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

const NO_SERVER: &str = "no server is running here";

/// How the drives of a further array form groups; without them as 'create' would have it.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArrayShape {
    /// With --array, what 'create' was told: drives of a group
    #[arg(long, value_name = "W", requires = "array")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u16>,
    /// With --array, what 'create' was told: drives that may die without loss
    #[arg(long, requires = "array", value_parser = clap::value_parser!(u8).range(1..=2))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parity: Option<u8>,
    /// With --array, what 'create' was told: drives of the mirrors, replicas, or copies
    #[arg(long, value_name = "N", requires = "array")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirrors: Option<u16>,
    /// With --array, what 'create' was told: bytes of every drive, or 'dedicated'
    #[arg(long, value_name = "SIZE|dedicated", requires = "array")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staging: Option<String>,
    /// With --array, what 'create' was told: all, or writer
    #[arg(long, value_name = "REPLICAS", requires = "array", value_parser = ["all", "writer"])]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_log: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// All pools, or one.
    Status {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<String>,
    },
    /// Where the blocks of one stripe lie.
    Stripe {
        pool: String,
        number: u64,
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
        /// Of another scheme than fusion: they are a further array of the pool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        array: Option<ArrayShape>,
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
        /// Single spikes instead, which have numbers of their own.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        spikes: bool,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    SitOut,
    Trust,
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubAction {
    Start,
    Pause,
    Stop,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Pools(Vec<view::Pool>),
    Events(Vec<view::Event>),
    Stripe(view::Stripe),
    /// Done; a sentence for people.
    Done(String),
    Error(Failure),
}

#[derive(Serialize, Deserialize)]
struct Message<T> {
    version: u32,
    #[serde(flatten)]
    content: T,
    /// Beside the pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<view::Server>,
}

fn line<T: Serialize>(content: &T, server: Option<view::Server>) -> String {
    let message = Message { version: VERSION, content, server };
    match serde_json::to_string(&message) {
        Ok(text) => text + "\n",
        Err(error) => unreachable!("messages are plain values: {error}"),
    }
}

impl Answer {
    pub fn to_line(&self) -> String {
        line(self, None)
    }

    /// With what is to be told of the server itself.
    pub fn to_line_with(&self, server: view::Server) -> String {
        line(self, Some(server))
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
            Ok(stream) => Ok(Some(Connection { client: Client::new(stream), path })),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Err(error) => Err(Failure::new(path.display(), format!("can't connect: {error}"))),
        }
    }

    /// What the server says of itself; `Ok(None)` if none is running, nor one that was killed a
    /// moment ago and whose socket the kernel still holds. For what may be asked twice.
    pub fn look(&self, request: &Request) -> Outcome<Option<Answer>> {
        let mut tries = PATIENCE.0 / RETRY.0;
        loop {
            let Some(server) = self.try_connect()? else { return Ok(None) };
            match server.call(request) {
                Err(_) if tries > 0 => pause(Duration::from_nanos(RETRY.0)),
                answer => return server.understand(answer).map(Some),
            }
            tries -= 1;
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
        self.ask_whole(request).map(|(answer, _)| answer)
    }

    /// The same, with what the server tells of itself.
    pub fn ask_whole(&self, request: &Request) -> Outcome<(Answer, Option<view::Server>)> {
        let server = self.try_connect()?.ok_or_else(|| {
            Failure::new(self.path().display(), NO_SERVER).hint(
                "start one with 'steadyraid serve', or name its socket with --control, or act on \
                 drives that are not being served with --drives",
            )
        })?;
        server.understand_whole(server.call(request))
    }
}

/// To one server: a request on it never reaches one that was started later.
pub struct Connection {
    client: Client,
    path: PathBuf,
}

impl Connection {
    pub fn ask(&self, request: &Request) -> Outcome<Answer> {
        self.understand(self.call(request))
    }

    fn call(&self, request: &Request) -> Result<Vec<u8>, ureq::Error> {
        self.client.call(&Call::of(request))
    }

    fn understand(&self, answer: Result<Vec<u8>, ureq::Error>) -> Outcome<Answer> {
        self.understand_whole(answer).map(|(answer, _)| answer)
    }

    fn understand_whole(
        &self,
        answer: Result<Vec<u8>, ureq::Error>,
    ) -> Outcome<(Answer, Option<view::Server>)> {
        let body = answer.map_err(|error| {
            let what = format!("the connection to the server broke: {error}");
            Failure::new(self.path.display(), what)
                .hint("it may be stopping, or have too many control connections; try again")
        })?;
        let message: Message<Answer> = serde_json::from_slice(&body).map_err(|error| {
            Failure::new(self.path.display(), format!("the answer is not understood: {error}"))
                .hint("are server and client of the same version?")
        })?;
        match message.content {
            Answer::Error(failure) => Err(failure),
            answer => Ok((answer, message.server)),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a client has nothing else to do meanwhile")]
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}

#[cfg(test)]
mod tests {
    use super::*;

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
