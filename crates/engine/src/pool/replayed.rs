//! Recovery without consequences: what opening would find, for `audit`.

use io::{Drive, Nanos};

use crate::api::{OpenError, SpikeHandling};
use crate::pool::open::{assemble, geometry_of, read_labels, rebuild_space, trusted_label};
use crate::recover::{Recovered, Recovery};
use crate::shard::Settings;

/// Loads and replays as opening for reading does. Then replays the last so many percent of the
/// journal's blocks once more, for each of `again`.
pub async fn replayed<D: Drive>(drives: Vec<D>, again: &[u8]) -> Result<Recovered, OpenError> {
    let labelled = read_labels(drives).await?;
    let (label, stale) = trusted_label(&labelled)?;
    // Nobody waits for this one: there is no need to watch drives, nor a clock to do it by.
    let clock = Box::new(|| Nanos::ZERO);
    let array = std::rc::Rc::new(assemble(&label, labelled, SpikeHandling::OFF, clock)?);
    let geometry = geometry_of(&label);
    let recovery = Recovery {
        label: &label,
        geometry: &geometry,
        array: &array,
        stale: &stale,
        read_only: true,
    };
    let mut recovered = recovery.load(Settings::default()).await?;
    if !label.clean {
        recovery.replay(&mut recovered).await?;
        let blocks = recovered.report.blocks_replayed;
        for &percent in again {
            let skipped = blocks - blocks * u64::from(percent.min(100)) / 100;
            let first = recovered.next_sequence - blocks + skipped;
            recovery.replay_from(&mut recovered, first).await?;
        }
    }
    rebuild_space(&mut recovered).await;
    Ok(recovered)
}
