//! Programs that the server runs, and does not wait for without end. For threads of their own.

use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until it ends; kills it if that takes longer than this.
pub fn wait(child: &mut Child, patience: Duration) -> Result<ExitStatus, String> {
    let looks = patience.as_millis() / LOOK.as_millis();
    for _ in 0..looks {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => return Ok(status),
            None => pause(),
        }
    }
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // It may just have ended.
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = child.wait();
    Err(format!("took longer than {} s and was killed", patience.as_secs_f32()))
}

#[expect(clippy::disallowed_methods, reason = "the thread of this program has nothing else to do")]
fn pause() {
    std::thread::sleep(LOOK);
}
