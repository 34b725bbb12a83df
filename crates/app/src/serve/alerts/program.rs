//! An alert told to a program: variables for scripts, a JSON document on its standard input.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::render::json;
use crate::render::view::Event;

/// How long a program may take. Mail and pagers are slow, but alerts wait behind this one.
const PATIENCE: Duration = Duration::from_secs(30);
/// Looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

pub fn run(words: &[String], event: &Event) -> Result<(), String> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null());
    command
        .env("STEADYRAID_POOL", &event.pool)
        .env("STEADYRAID_SEVERITY", &event.severity)
        .env("STEADYRAID_EVENT", &event.kind)
        .env("STEADYRAID_TEXT", &event.text)
        .env("STEADYRAID_TIME", &event.time)
        .env("STEADYRAID_DRIVE", event.drive.map_or_else(String::new, |drive| drive.to_string()))
        .env("STEADYRAID_DRIVE_NAME", event.drive_name.as_deref().unwrap_or(""));
    let mut child = command.spawn().map_err(|error| format!("can't be started: {error}"))?;
    if let Some(mut input) = child.stdin.take() {
        // Whoever takes the variables does not read this; it fits a pipe.
        let _ = input.write_all(json::line(event).as_bytes());
    }
    wait(&mut child)
}

fn wait(child: &mut Child) -> Result<(), String> {
    let looks = PATIENCE.as_millis() / LOOK.as_millis();
    for _ in 0..looks {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("ended with {status}")),
            None => pause(),
        }
    }
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // It may just have ended.
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = child.wait();
    Err(format!("took longer than {} s and was killed", PATIENCE.as_secs()))
}

#[expect(clippy::disallowed_methods, reason = "the thread of this target has nothing else to do")]
fn pause() {
    std::thread::sleep(LOOK);
}
