//! An alert told to a program: variables for scripts, a JSON document on its standard input.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::render::json;
use crate::render::view::Event;
use crate::serve::child;

/// How long a program may take. Mail and pagers are slow, but alerts wait behind this one.
const PATIENCE: Duration = Duration::from_secs(30);

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
    match child::wait(&mut child, PATIENCE)? {
        status if status.success() => Ok(()),
        status => Err(format!("ended with {status}")),
    }
}
