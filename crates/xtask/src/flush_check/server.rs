//! A server as a process: started, waited for until it serves, killed or asked to stop.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::clock::{Elapsed, poll};

/// What became of a server that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    Ready,
    /// It ended before it was ready.
    Ended(ExitStatus),
    /// It neither ended nor became ready in time.
    Hangs,
}

/// A running server. Dropping it kills it.
pub struct Server {
    process: Child,
    lines: Receiver<String>,
}

impl Server {
    /// Opening a pool takes a fraction of a second; this long means that it hangs.
    pub const PATIENCE: Duration = Duration::from_secs(60);

    #[expect(clippy::disallowed_methods, reason = "a client; the thread ends with the server")]
    pub fn start(command: &mut Command) -> Result<Server, String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let stdout = process.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        // Reads to the end: a server must be able to print.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { break };
                let _ = sender.send(line);
            }
        });
        Ok(Server { process, lines })
    }

    /// Waits for the line `ready`.
    pub fn opened(&mut self, patience: Duration) -> Result<Opened, String> {
        let since = Elapsed::start();
        loop {
            match self.lines.recv_timeout(patience.saturating_sub(since.get())) {
                Ok(line) if line.trim_end() == "ready" => return Ok(Opened::Ready),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(Opened::Hangs),
                Err(RecvTimeoutError::Disconnected) => {
                    let ended = self.ended(patience)?;
                    return Ok(ended.map_or(Opened::Hangs, Opened::Ended));
                }
            }
        }
    }

    /// The exit status, if the server ends in time.
    fn ended(&mut self, patience: Duration) -> Result<Option<ExitStatus>, String> {
        let status = poll(patience, || self.process.try_wait().transpose());
        status.transpose().map_err(|error| error.to_string())
    }

    /// The exit status of a server that has ended by itself.
    pub fn has_ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.process.try_wait().map_err(|error| error.to_string())
    }

    /// SIGKILL, and wait until it is gone.
    pub fn kill(mut self) -> Result<(), String> {
        if let Some(status) = self.has_ended()? {
            return Err(format!("the server ended before it was killed: {status}"));
        }
        self.end();
        Ok(())
    }

    /// SIGTERM: the exit status, or `None` if the server did not end in time.
    pub fn stop(mut self, patience: Duration) -> Result<Option<ExitStatus>, String> {
        let asked = Command::new("sh")
            .args(["-c", "kill -TERM \"$1\"", "sh", &self.process.id().to_string()])
            .status()
            .map_err(|error| format!("sh: {error}"))?;
        if !asked.success() {
            return Err("the server could not be sent SIGTERM".to_owned());
        }
        self.ended(patience)
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(300);

    fn shell(script: &str) -> Server {
        Server::start(Command::new("sh").args(["-c", script])).expect("there is a shell")
    }

    #[test]
    fn a_server_becomes_ready_ends_or_hangs() {
        assert_eq!(
            shell("echo pool; echo ready; exec sleep 9").opened(Server::PATIENCE),
            Ok(Opened::Ready)
        );
        let ended = shell("echo pool; exit 3").opened(Server::PATIENCE);
        assert!(
            matches!(ended, Ok(Opened::Ended(status)) if status.code() == Some(3)),
            "{ended:?}"
        );
        assert_eq!(shell("echo pool; exec sleep 9").opened(SOON), Ok(Opened::Hangs));
    }

    #[test]
    fn a_server_that_ended_by_itself_can_not_be_killed() {
        let mut server = shell("exit 1");
        server.opened(Server::PATIENCE).expect("it ends");
        assert!(server.kill().expect_err("too late").contains("before it was killed"));
    }

    #[test]
    fn a_clean_stop_tells_the_exit_status() {
        let mut server = shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done");
        assert_eq!(server.opened(Server::PATIENCE), Ok(Opened::Ready));
        let status = server.stop(Server::PATIENCE).expect("it can be asked");
        assert_eq!(status.and_then(|status| status.code()), Some(7));
    }
}
