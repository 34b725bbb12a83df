//! Times of claims. They are the same everywhere: hosts of different software meet on a drive.

use io::Nanos;

/// Between two looks at one's own claims: one page read and one written on each drive.
pub const BEAT: Nanos = Nanos::from_secs(1);
/// How long a look at one's claims holds good, from its beginning. Three beats may come late.
pub const VALID: Nanos = Nanos::from_secs(4);
/// A drive on which so many looks in a row found no claim of anybody is not used any more: somebody
/// who does not know claims has written over it. With one a second this takes longer than it takes
/// to miss its labels.
pub const UNCLAIMED_LOOKS: u32 = 20;
/// Who is watched for so long without a sign of life has let its claim lapse: more than
/// [`VALID`] by what clocks may differ in speed, and by a beat that was on its way.
pub const SILENT: Nanos = Nanos::from_secs(5);
/// How long who took claims away from another host waits before it uses the drives: more than
/// [`VALID`], for the same reasons.
pub const LAPSE: Nanos = Nanos::from_secs(5);
/// Claims have to be on the drives so soon after they were found free.
pub const SETTLE_BOUND: Nanos = Nanos::from_millis(80);
/// When claims are looked at again that were written where nobody was: after [`SETTLE_BOUND`],
/// and what clocks may differ.
pub const SETTLE: Nanos = Nanos::from_millis(100);
/// A drive that has not answered for so long is done without, for this time.
pub const PATIENCE: Nanos = Nanos::from_millis(500);
/// The same before anything is known of the claims: longer than a drive takes to spin up.
pub const LOOK_PATIENCE: Nanos = Nanos::from_secs(12);
/// A claim that is damaged is read so often: somebody may be writing it.
pub const READS: usize = 3;
/// So often claims are written anew that somebody wrote over who then left.
pub const TRIES: usize = 3;

const _: () = assert!(SETTLE_BOUND.0 < SETTLE.0);
const _: () = assert!(BEAT.0 + PATIENCE.0 < VALID.0);
const _: () = assert!(VALID.0 < BEAT.0 * UNCLAIMED_LOOKS as u64);
const _: () = assert!(VALID.0 < SILENT.0 && VALID.0 < LAPSE.0);
