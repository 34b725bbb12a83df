//! The product's command line and control socket, with a bound on everything.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::failure::{Failure, Problem};
use crate::clock::poll;

/// What any command may take, and what a pool may take to be whole again: with eight storms at once
/// on two cores a rebuild takes many times the 15 s that it takes alone.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub struct Tool {
    pub binary: PathBuf,
    pub folder: PathBuf,
    /// Where in its log the words of the present server begin.
    pub log_read: u64,
}

const LINES_SHOWN: usize = 6;

/// What a command said, on both outputs.
#[derive(Clone, Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub text: String,
}

/// What `status` says of a drive of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveStatus {
    pub path: PathBuf,
    pub state: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub state: String,
    pub reason: String,
    pub drives: Vec<DriveStatus>,
}

impl Tool {
    pub fn drives(&self) -> PathBuf {
        in_full(&self.folder.join("drives"))
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("nbd.sock")
    }

    fn control(&self) -> PathBuf {
        self.folder.join("control.sock")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.env("STEADYRAID_RUNTIME_DIR", self.folder.join("run")).stdin(Stdio::null());
        command
    }

    /// Lost drives are replaced when the storm says so.
    pub fn serve(&mut self) -> Result<Command, Failure> {
        let log = OpenOptions::new().create(true).append(true).open(self.log());
        self.log_read = fs::metadata(self.log()).map_or(0, |data| data.len());
        let mut command = self.command();
        command
            .args(["serve", "--test-faults", "--rebuild-after", "never", "--nbd"])
            .arg(format!("unix:{}", self.socket().display()))
            .arg("--control")
            .args([self.control(), self.drives()])
            .stderr(log.map_err(Failure::harness)?);
        Ok(command)
    }

    /// The last words of the server: what it said of errors, or else of anything.
    pub fn last_words(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let since = usize::try_from(self.log_read).unwrap_or(0).min(log.len());
        let text = String::from_utf8_lossy(&log[since..]).into_owned();
        let errors = text.lines().position(|line| line.starts_with("error: "));
        let lines = text.lines().skip(errors.unwrap_or(0)).take(LINES_SHOWN);
        lines.collect::<Vec<_>>().join(" | ")
    }

    /// Runs a command that needs no server.
    pub fn run(&self, words: &[&str]) -> Result<Said, Failure> {
        let output = self.folder.join("output");
        let file = File::create(&output).map_err(Failure::harness)?;
        let other = file.try_clone().map_err(Failure::harness)?;
        let child = self.command().args(words).stdout(file).stderr(other).spawn();
        let mut child = child.map_err(Failure::harness)?;
        let status = poll(PATIENCE, || child.try_wait().transpose());
        let text = fs::read_to_string(&output).unwrap_or_default();
        match status {
            Some(Ok(status)) => Ok(Said { code: status.code(), text: text.trim().to_owned() }),
            Some(Err(error)) => Err(Failure::harness(error)),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                let text = format!("'{}' does not end: {text}", words.join(" "));
                Err(Failure::new(Problem::Hangs, text))
            }
        }
    }

    /// Asks the server.
    pub fn ask(&self, words: &[&str]) -> Result<Said, Failure> {
        let control = self.control();
        self.run(&[words, &["--control", control.to_str().expect("a name of ours")]].concat())
    }

    /// The same for what must not be refused.
    pub fn demand(&self, words: &[&str]) -> Result<String, Failure> {
        let Said { code, text } = self.ask(words)?;
        if code == Some(0) {
            return Ok(text);
        }
        let text = format!("'{}': {}", words.join(" "), text.replace('\n', " | "));
        Err(Failure::new(Problem::Refused, text))
    }

    pub fn status(&self) -> Result<Status, Failure> {
        let said = self.ask(&["status", "tank", "--json"])?;
        read_status(&said.text).map_err(|why| {
            Failure::new(Problem::Refused, format!("status: {why}: {}", shortened(&said.text)))
        })
    }

    /// Pages that the last scrub found lost.
    pub fn lost_pages(&self) -> Result<u64, Failure> {
        let said = self.ask(&["scrub", "status", "tank", "--json"])?;
        let document: serde_json::Value =
            serde_json::from_str(&said.text).map_err(Failure::harness)?;
        let scrub = &document["scrub"];
        match (scrub["state"].as_str(), scrub["lost_pages"].as_u64()) {
            (Some("done"), Some(lost)) => Ok(lost),
            _ => Err(Failure::new(Problem::Refused, format!("a scrub is not done: {scrub}"))),
        }
    }

    /// Has a drive answer writes late, so that a kill finds stripes half written.
    pub fn slow(&self, drive: usize) -> Result<(), Failure> {
        let fault =
            r#"{"fault":{"effect":{"delay":{"constant":{"micros":3000}}},"operation":"write"}}"#;
        let path = format!("/api/v1/pools/tank/drives/{drive}/faults");
        let answer = post(&self.control(), &path, fault).map_err(Failure::harness)?;
        // The pool may have failed it by itself.
        if answer.starts_with("HTTP/1.1 200") || answer.contains("is not there") {
            return Ok(());
        }
        Err(Failure::new(Problem::Refused, format!("{path}: {}", shortened(&answer))))
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(300).collect::<String>().replace('\n', " ")
}

/// The pool names drives as it was given them: one file has one name here, or it would be taken for
/// another one, that is not needed any more.
fn in_full(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

fn post(socket: &Path, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn read_status(text: &str) -> Result<Status, String> {
    let document: serde_json::Value =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let pool = &document["pools"][0];
    let word = |value: &serde_json::Value| value.as_str().unwrap_or("").to_owned();
    let drives = pool["drives"].as_array().ok_or("no drives")?;
    let drives = drives.iter().map(|drive| DriveStatus {
        path: in_full(word(&drive["name"]).as_ref()),
        state: word(&drive["state"]),
    });
    Ok(Status {
        state: word(&pool["state"]),
        reason: word(&pool["reason"]),
        drives: drives.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let text = r#"{"version":1,"pools":[{"state":"degraded","reason":"drive 1 is failed",
            "drives":[{"index":0,"name":"/d/d0","state":"active"},
                      {"index":1,"name":"/d/d1","state":"failed"}]}]}"#;
        let status = read_status(text).expect("a status");
        assert_eq!((status.state.as_str(), status.reason.len()), ("degraded", 17));
        let drive =
            |path: &str, state: &str| DriveStatus { path: path.into(), state: state.into() };
        assert_eq!(status.drives, [drive("/d/d0", "active"), drive("/d/d1", "failed")]);
        assert!(read_status("error: no server").is_err());
    }
}
