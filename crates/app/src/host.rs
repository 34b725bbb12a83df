//! This process on this machine, as claims on drives tell of it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use format::{Holder, Uuid};
use members::host::Claimant;

use crate::wall_clock;

/// Files that say which machine this is, the first that can be read. The second is there where
/// systemd is not.
const MACHINE: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
const NAMESPACE: &str = "/proc/self/ns/pid";

/// This process.
pub fn claimant() -> Claimant {
    let boot = read_uuid(BOOT).unwrap_or_default();
    let process = std::process::id();
    let holder = Holder {
        // Without an identity of its own a machine is another one with each boot.
        host: MACHINE.iter().find_map(|file| read_uuid(file)).unwrap_or(boot),
        boot,
        process,
        namespace: fs::metadata(NAMESPACE).map_or(0, |namespace| namespace.ino()),
        started: started(process).unwrap_or(0),
        name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
    };
    Claimant { holder, lives: Rc::new(lives), wall_secs: Rc::new(wall_clock::now_secs) }
}

/// The process is still there, and no later one of its number. It is one of this boot, and numbered
/// as ours are.
fn lives(holder: &Holder) -> bool {
    started(holder.process) == Some(holder.started)
}

/// When a process started, in ticks of the kernel since it booted; `None` if there is none.
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    parse_started(&stat)
}

/// Its name is in brackets, and may have any in it.
fn parse_started(stat: &str) -> Option<u64> {
    const STATE: usize = 3;
    const STARTED: usize = 22;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    // A process that has ended and is not waited for does nothing any more.
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.nth(STARTED - STATE - 1)?.parse().ok(),
    }
}

/// 32 hexadecimal digits, with dashes or without.
fn read_uuid(file: &str) -> Option<Uuid> {
    parse_uuid(&fs::read_to_string(file).ok()?)
}

fn parse_uuid(text: &str) -> Option<Uuid> {
    let digits = text.trim().replace('-', "");
    let number = u128::from_str_radix(&digits, 16).ok()?;
    (digits.len() == 32).then(|| Uuid(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_another_of_its_number_does_not() {
        let own = claimant().holder;
        assert!(lives(&own));
        assert!(!lives(&Holder { started: own.started + 1, ..own.clone() }));
        assert!(!lives(&Holder { process: u32::MAX, ..own.clone() }));
        assert_ne!((own.host, own.boot, own.namespace), (Uuid::default(), Uuid::default(), 0));
    }

    #[test]
    fn the_start_of_a_process_is_found_whatever_it_is_called() {
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";
        assert_eq!(parse_started(&format!("12 (a) b) (c)) S {rest}\n")), Some(777));
        assert_eq!(parse_started(&format!("12 (a) Z {rest}\n")), None);
        assert_eq!(parse_started("12 (a) S 1 2"), None);
    }

    #[test]
    fn identities_are_read_in_both_forms() {
        let bytes = Uuid([0x12; 16]);
        assert_eq!(parse_uuid("12121212121212121212121212121212\n"), Some(bytes));
        assert_eq!(parse_uuid("12121212-1212-1212-1212-121212121212"), Some(bytes));
        assert_eq!([parse_uuid(""), parse_uuid("uninitialized")], [None, None]);
    }
}
