//! Everything a pool holds against the oracle, after it was opened.

use engine::Pool;
use io::virt::VirtEnv;

use super::client::gathered;
use crate::failure::{Check, Failure};
use crate::oracle::Oracle;

const STEP: u64 = 1 << 20;

/// Reads all volumes; what is read is the truth from now on.
pub async fn verify_volumes(
    pool: &Pool<VirtEnv>,
    oracle: &std::cell::RefCell<Oracle>,
) -> Result<(), Failure> {
    let wrong = |what: String| Failure::new(Check::Recovery, what);
    let names = oracle.borrow().names();
    for name in &names {
        let volume = pool.volume(name).ok_or_else(|| wrong(format!("volume {name} is gone")))?;
        let (size, expected) = (volume.size(), oracle.borrow().volume(name).bytes());
        if !oracle.borrow_mut().found_size(name, size) {
            return Err(wrong(format!("volume {name} has {size} bytes, not {expected}")));
        }
        for offset in (0..size).step_by(STEP as usize) {
            let len = STEP.min(size - offset);
            let read = volume.read(offset, len as u32).await;
            let pieces = read.map_err(|error| {
                let what = format!("after recovery: read {name} {offset}: {error}");
                wrong(what).at(name, offset / 512)
            })?;
            let bytes = gathered(&pieces);
            if bytes.len() as u64 != len {
                return Err(wrong(format!("a read of {len} bytes gave {}", bytes.len())));
            }
            oracle.borrow_mut().recovered(name, offset, &bytes)?;
        }
    }
    Ok(())
}

/// Volumes that the pool has and the oracle doesn't know.
pub fn unknown_volumes(pool: &Pool<VirtEnv>, oracle: &Oracle) -> Vec<String> {
    let known = oracle.names();
    let all = pool.volumes().into_iter().map(|volume| volume.name);
    all.filter(|name| !known.contains(name)).collect()
}
