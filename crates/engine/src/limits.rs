//! Every bound of the engine, with its reason.

use io::Nanos;

/// Volumes of one pool. Each costs a directory of chunk pointers; more than this is a
/// namespace problem, not a block device.
pub const VOLUMES_MAX: usize = 1024;
/// RAID levels and widths that share one pool.
pub const CLASSES_MAX: usize = 32;
/// Mapped blocks looked at for one answer about allocation: well below a millisecond, during
/// which nothing else runs. A client asks again for the rest.
pub const EXTENT_BLOCKS_MAX: usize = 1024;
/// Copies of every checkpoint slot (fewer only if the pool has fewer drives). Three survive
/// any two drives, whatever parity the pool's volumes have.
pub const METADATA_COPIES: usize = 3;
/// Stripes looked at when a tuple is built: FusionRAID §4.2 takes four for two copies.
pub const TUPLE_CANDIDATES: [usize; 2] = [4, 6];
/// Draws of so many stripes until there is a tuple among them. One is enough unless stripes have
/// a single data block: with 1+2 on three drives a quarter of the draws lack a drive.
pub const TUPLE_ATTEMPTS: usize = 16;
/// Blocks that small writes of a class are packed into at the same time: as many as have their
/// copies on all drives, each on one, within these bounds. Neighbouring writes of different blocks
/// then use different drives; more only leaves more half-filled blocks.
pub const LANES_MIN: usize = 8;
pub const LANES_MAX: usize = 64;
/// Operations outstanding at a drive from which a small write looks at a second lane: it would wait
/// for more than the one before it.
pub const LANE_QUEUE: u32 = 2;
/// Journal blocks in flight at once. Two keep the drives busy while the next one fills; more
/// would only make smaller groups.
pub const JOURNAL_WRITES_MAX: usize = 4;
/// Journal space kept free for the block that is open and those in flight when a checkpoint
/// begins: a checkpoint must be able to commit what is already buffered.
pub const JOURNAL_RESERVE_BLOCKS: u64 = 8;
/// A checkpoint starts when the journal is this full (percent).
pub const CHECKPOINT_AT_PERCENT: u64 = 50;
/// At this fill background work has all of the time: small rings make requests wait from 75 on.
pub const JOURNAL_HURRY_PERCENT: u64 = 65;
/// Patch memory in use (percent of its budget) from which blocks are merged; at 100 writes slow.
pub const PATCH_MERGE_PERCENT: u64 = 90;
/// While background work is held back it looks again this often whether it may go on: about the
/// time of a group of its operations.
pub const PACE_STEP: Nanos = Nanos::from_millis(2);
/// Checkpoint slots written at once.
pub const CHECKPOINT_WRITES_MAX: usize = 32;
/// Records a checkpoint may leave to be verified: the engine flushes by itself this often
/// while anything is unflushed, like a filesystem's periodic commit.
pub const SYNC_INTERVAL: Nanos = Nanos::from_secs(1);
/// Tick of the background task when nothing wakes it.
pub const BACKGROUND_INTERVAL: Nanos = Nanos::from_millis(100);
/// Tuples converted for one pair of flushes.
pub const CONVERT_BATCH: usize = 32;
/// Stripes whose owners are looked up in one scan of the map. The scan costs the same for one
/// or for many; the cap bounds the memory of the batch.
pub const COMPACT_BATCH: usize = 2048;
/// Stripes a batch of compaction should gain even if its victims do not fit the free stripes at
/// once. Two would do; rounding to whole blocks may take one of them.
pub const COMPACT_GAIN_MIN: u64 = 4;
/// Stripes that a group of them gains, which is compacted in one go: space comes in so small
/// portions that writers beside it notice none, and large enough to fill stripes of its own.
pub const COMPACT_GROUP_GAIN: u64 = 16;
/// Pieces of one destination block that are read at once: enough for drives to have something to do
/// and few enough to have all of them in one slice.
pub const COMPACT_READS: usize = 16;
/// What reading a piece costs beside its bytes, and what recording its new place does, in units of
/// [`io::slice::SLICE_WORK`].
pub const READ_WORK: usize = 10;
pub const RELOCATE_WORK: usize = 10;
/// Entries of tables looked at, or sorted, before a task asks whether it has had the thread for
/// long enough ([`io::slice::spend`]): some 10 us.
pub const LOOK_STEP: usize = 256;
/// Data that parity is computed of in one go beside requests: some 30 us.
pub const PARITY_STEP_BYTES: usize = 256 << 10;
/// Bytes compaction may have in memory at once.
pub const COMPACT_BYTES_MAX: usize = 32 << 20;
/// Stripes that background work reads, computes and writes at once; requests get a turn after
/// each such group (about 200 us of computing). Two keep a dozen drives busy.
pub const STRIPES_AT_ONCE: usize = 2;
/// Map entries scanned before a task asks for its next turn: at most about 4,000 pieces, 100 us.
pub const SCAN_STEP_BLOCKS: usize = 32;
/// Pieces of one block, for each of its pages, above which it is merged back into one. (In
/// FusionRAID §4.4 a patch list is not longer than the pages of a block: one.)
pub const PATCHES_PER_BLOCK_FACTOR: usize = 2;
/// Memory for patches by default: see `docs/`; above it blocks are merged.
pub const PATCH_BUDGET_BYTES: u64 = 256 << 20;
/// Free stripes that only background work may take: it needs room to make room. One batch of
/// compaction at the smallest useful size.
pub const RESERVE_STRIPES: u64 = 12;
/// Journal blocks and reads verified at once during recovery.
pub const RECOVERY_READS_MAX: usize = 256;
/// Ring bytes read at once from each drive during recovery.
pub const RECOVERY_READ_BYTES: usize = 1 << 20;
/// Journal payload the pool can hold before a checkpoint must have finished, and the bounds of
/// its share on one drive. 64 MiB is about a million small writes and about a second to replay.
pub const JOURNAL_TOTAL_BYTES: u64 = 64 << 20;
pub const JOURNAL_DRIVE_MIN: u64 = 2 << 20;
pub const JOURNAL_DRIVE_MAX: u64 = 64 << 20;
/// At most this part of a small drive is journal.
pub const JOURNAL_DRIVE_FRACTION: u64 = 32;
/// Smallest zone on a drive; small enough that a small pool has many, large enough that zone
/// tables stay small.
pub const ZONE_BYTES_MIN: u64 = 4 << 20;
/// Zones a drive is divided into when it is large.
pub const ZONES_AIM: u64 = 512;
/// Fewest zones that make a pool: two classes, and room to move.
pub const ZONES_MIN: u32 = 4;
/// Objects of the checkpoint whose copies a drive in a lost one's place gets before others may
/// write a checkpoint of their own: a few MiB, some milliseconds.
pub const RESTORE_OBJECTS_AT_ONCE: usize = 64;
/// Restoring looks again at what was being written or read after this long, and at what can't be
/// computed, because too many drives are lost or refuse it, after that long.
pub const RESTORE_RETRY: Nanos = Nanos::from_millis(100);
pub const RESTORE_LOST_RETRY: Nanos = Nanos::from_secs(60);
/// Objects of the checkpoint that a scrub reads before others may write a checkpoint.
pub const SCRUB_OBJECTS_AT_ONCE: usize = 32;
/// Tasks that mend pages at once, or wait for their turn; each keeps dead stripes from being used
/// again. What comes beyond is left to the next read, or to a scrub.
pub const MENDS_MAX: usize = 64;
/// Lost pages of a scrub that are remembered until it ends (2 MiB): whether volumes still have
/// something in them is asked then. Of more the rest counts until its stripes are emptied.
pub const SCRUB_LOST_MAX: usize = 65_536;
/// Lost pages that are remembered, so that each is told and counted once.
pub const LOST_PAGES_KNOWN_MAX: usize = 1024;
/// Zones drawn, while a pool is rebalanced, in search of one that lies on all drives already: with
/// a quarter of them there, nine of ten stripes go where they need not be moved from again.
pub const NEWEST_DRAWS: usize = 8;
/// A pool that is rebalanced looks again this long after there was no room to empty a zone.
pub const REBALANCE_RETRY: Nanos = Nanos::from_secs(5);
/// Findings that an audit lists; the rest is counted. A broken table makes one for every entry.
pub const FINDINGS_MAX: usize = 64;
/// Stripes (or replicated blocks) an audit reads at once: enough to keep a dozen drives busy.
pub const AUDIT_STRIPES_AT_ONCE: usize = 8;
/// Patches that requests on their way may add after writes are held up (at 9/8 of the budget):
/// a request adds at most three at each of its two ends, and thousands may be under way.
pub const PATCH_BYTES_IN_FLIGHT: u64 = 1 << 20;
/// Free stripes remembered that drives have not been told of, 512 KiB: a gigabyte of 64 KiB blocks
/// on each of 29 drives. After a larger wave a walk finds the rest.
pub const DISCARD_QUEUE_MAX: usize = 65_536;
/// Stripes off the free list while their drives are told: few beside `low`, 48 at least, and
/// enough for every drive to have something to do.
pub const DISCARD_STRIPES_AT_ONCE: usize = 16;
/// Entries of that queue looked at before other tasks get a turn: about 100 us.
pub const DISCARD_LOOK_MAX: usize = 256;
/// Bytes a drive is told of in a second at most: about what data-centre drives write in the long
/// run, so that discards keep up, and far below what makes them answer late.
pub const DISCARD_BYTES_PER_SEC: u64 = 256 << 20;
/// The same for what drives may know already: nothing waits for that, and at the rate above one
/// write in ten thousand beside it was late by 0.4 ms. 4 TB take a day and a half.
pub const DISCARD_WALK_BYTES_PER_SEC: u64 = 32 << 20;
/// Space pressure must have been below a mark for so long before that is told: making space goes
/// in rounds, and each would tell.
pub const PRESSURE_CALM: Nanos = Nanos::from_secs(10);
/// Events a pool remembers of those that are only told: some hours of 29 drives with five spikes a
/// minute each would not fit, a bad quarter of an hour does. Whoever wants all of them follows the
/// stream.
pub const EVENTS_MAX: usize = 4096;
/// Single spikes it remembers, for those who ask for them: the last minutes of a bad time.
pub const SPIKES_MAX: usize = 1024;
/// Spikes are told of together so often; a noisy host has one every second.
pub const SPIKES_TOLD_EVERY: Nanos = Nanos::from_secs(60);
/// Drives that are named when spikes are told of: the worst.
pub const SPIKES_NAMED_MAX: usize = 3;
/// Spikes of one drive between two looks at them: a look comes fifty times a second.
pub const SPIKES_UNTOLD_MAX: usize = 64;
/// A drive that answers nothing for so long, or for so many deadlines of reads, is mute: what is
/// read from it is rebuilt at any cost. Data-centre SSDs collect garbage for 4 ms at a time.
pub const MUTE_MIN: Nanos = Nanos::from_millis(5);
pub const MUTE_DEADLINES: u64 = 4;
/// A drive with no more operations under way than these is not busy: SSDs carry out several.
pub const LITTLE_TO_DO: u32 = 1;
/// How often the drives are looked at for load: as good as at once beside what a drive collects in
/// one go, and nothing beside the requests of that time.
pub const LOAD_LOOK: Nanos = Nanos::from_millis(1);
/// Among slow drives, one that has not answered for so long is the worst: the ladder's first step.
pub const HANG_AFTER: Nanos = Nanos::from_millis(100);
/// A drive that has not answered for so long hangs, and clients' flushes do without it: consumer
/// SSDs take tenths of a second to flush a full cache.
pub const FLUSH_PATIENCE: Nanos = Nanos::from_secs(1);
/// A flush looks so often whether the drives it waits for hang.
pub const FLUSH_LOOK: Nanos = Nanos::from_millis(20);
/// Further places a write may be sent to because the first is late. Each costs a whole write. There
/// is one more, without such drives, if every place so far has one that hangs.
pub const WRITE_HEDGES_MAX: usize = 2;
/// Spare slots passed over because of a slow drive before the least bad is taken.
pub const SPARE_LOOKS_MAX: usize = 128;
/// Tuples built in search of a slot without a slow drive.
pub const SPARE_BUILDS_MAX: usize = 8;
/// Free stripes drawn in search of one without a slow drive: with 7 of 8 drives in each, one of
/// eight is free of any given drive, and 16 draws find one in 88 of 100 cases.
pub const STRIPE_CANDIDATES: usize = 16;
/// Loads that were told of are not told of again for so long: bursts come by the dozen.
pub const LOAD_TOLD_EVERY: Nanos = Nanos::from_secs(600);
/// A load that goes on is told of after so long, without waiting for its end.
pub const LOAD_LASTING: Nanos = Nanos::from_secs(5);
/// How often drives are judged: a spike of a consumer SSD is as long.
pub const LADDER_TICK: Nanos = Nanos::from_millis(20);
/// A tick that comes so late tells of a process that was stopped.
pub const STOPPED: Nanos = Nanos::from_secs(1);
/// Ticks after which what was counted counts half: two seconds, enough operations of a drive in
/// moderate use to see one slow answer in a hundred.
pub const TALLY_SPAN: u64 = 100;
/// Time between two probes of a drive that is gone round: too few to disturb it.
pub const PROBE_INTERVAL: Nanos = Nanos::from_millis(50);
/// Stripes drawn in search of one with a block on the drive to be probed.
pub const PROBE_LOOKS_MAX: usize = 8;
/// Zones of a class, and stripes in each, looked at for one that holds something.
pub const RAID_ZONES_MAX: usize = 16;
pub const RAID_LOOKS_MAX: u64 = 256;
/// How long closing waits for operations that were left to themselves; a drive that still hangs
/// then keeps its file open until it answers.
pub const LEFTOVERS_PATIENCE: Nanos = Nanos::from_secs(5);
/// Spare slots of a class; with more, slow ones are used: 256 MiB of each copy at 64 KiB a block.
pub const SPARE_MAX: usize = 4096;
/// Tuples of a class whose spare slots are kept when nobody writes, or somebody waits for space.
pub const SPARE_TUPLES_AT_REST: usize = 4;
/// So long after the last request nobody writes: longer than most drives are slow.
pub const SPARE_IDLE: Nanos = Nanos::from_secs(1);
/// Reads of volumes under way at once, for each drive; what comes beyond waits for its turn.
/// It costs a single volume nothing: 32 is all that a SATA drive queues, and a shard that does
/// a million requests a second on drives that take 100 us has 100 of them under way.
pub const READS_PER_DRIVE: usize = 32;
/// And writes. With their copies more are with a drive, which keeps it busy; in a burst each one
/// more is one that reads wait for (virtual time, 8 aged drives that are given too much: reads'
/// p99 is 7 ms, and 1.8 s where reads and writes have the same 32 places a drive).
pub const WRITES_PER_DRIVE: usize = 8;
/// Requests that a volume may have under way whatever others do: what a program that waits for
/// each answer has, with its log and its readahead. A thousand such volumes are no burst.
pub const PLACES_GUARANTEED: usize = 4;
/// Of the planted bug that has writes wait for reads: how often a write looks again.
pub const STARVED_LOOK: Nanos = Nanos::from_millis(1);
/// Longest sleep of a request that its volume's limit holds back, before it looks whether the
/// pool is about to be closed.
pub const LIMIT_SLEEP_MAX: Nanos = Nanos::from_secs(1);
/// Longest time that writes to a drive are held back while it is exchanged: as long as a client's
/// flush waits for a drive that hangs.
pub const EXCHANGE_GATE_MAX: Nanos = FLUSH_PATIENCE;
/// An exchange that waits for writes to end looks so often whether it is to end itself.
pub const EXCHANGE_LOOK: Nanos = Nanos::from_millis(100);
/// Blocks of spare stripes that nobody has, for each drive, while spare stripes are taken for the
/// sake of balance: a stripe taken for one drive brings blocks on others, which will be wanted.
pub const SPARE_BLOCKS_OPEN: usize = 8;
/// Free stripes drawn in search of one with a block on a given drive: with 7 of 29 drives in each,
/// one of four has it.
pub const SPARE_DRAWS: usize = 16;
/// How many substitutes more than the drive with the fewest the one that the layout has for a
/// stripe's spare may have: it evens out over a template of the layout.
pub const SPARE_SKEW: u64 = 2;
/// Dead stripes freed at once, some 50 us. In a pool with substitutes each may take a record of up
/// to some dozens of bytes, for which nobody has reserved room in the journal.
pub const RELEASE_MAX: usize = 512;
/// Stripes rebuilt for one pair of flushes: while they are, nothing that dies is given away.
pub const REBUILD_BATCH: usize = 32;
/// Rebuilding that has no room, or can't compute what is left, looks again after this long.
pub const REBUILD_SPACE_RETRY: Nanos = Nanos::from_secs(5);
/// Checkpoints written in a row so that no block of the journal is needed that a drive may have
/// had: the second begins after everything that was under way when the first did.
pub const FORGET_CHECKPOINTS: usize = 3;
/// The rate of rebuilding is that of so many samples, taken so far apart: the last ten seconds.
pub const RATE_SAMPLES: usize = 10;
pub const RATE_STEP: Nanos = Nanos::from_secs(1);
/// Longest time that what is under way may take to end when drives are added, while other requests
/// wait; as long as a client's flush waits for a drive that hangs. Then it is tried again later.
pub const GROW_GATE_MAX: Nanos = FLUSH_PATIENCE;
/// So often, after pauses of this.
pub const GROW_ATTEMPTS: u32 = 5;
pub const GROW_PAUSE: Nanos = Nanos::from_secs(1);
