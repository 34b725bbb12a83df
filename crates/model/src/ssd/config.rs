//! What an SSD is made of: every parameter of the model, with its unit.

use io::Nanos;

/// All of an SSD's parameters. Fields are public so that a preset can be changed in place;
/// [`Config::check`] (called by [`super::Ssd::new`]) says what doesn't fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub channels: u32,
    pub dies_per_channel: u32,
    /// Planes of a die. They work together: one command senses, programs or erases in all.
    pub planes: u32,
    pub blocks_per_plane: u32,
    pub pages_per_block: u32,
    /// Bytes of a flash page.
    pub page_bytes: u32,
    /// What the host doesn't see of the raw capacity, in thousandths. The rest is rounded down
    /// to whole flash pages.
    pub over_provisioning_permille: u32,
    /// What the host sees, if that is less than the over-provisioning leaves: blocks are whole,
    /// capacities asked for seldom are.
    pub visible_bytes: Option<u64>,
    /// Bytes of one entry of the map: 4096, or the flash page.
    pub mapping_bytes: u32,
    /// What offsets and lengths of the host are multiples of: 512 or 4096 bytes. A write of
    /// part of a map entry reads the rest first.
    pub align: u32,
    pub allocation: Allocation,
    pub timing: Timing,
    pub host: Host,
    /// `None`: a write is done when its program is.
    pub buffer: Option<Buffer>,
    pub collection: Collection,
    /// `None`: changes of the map cost nothing.
    pub map_log: Option<MapLog>,
    pub fill: Fill,
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Superblocks of one block of every plane of every die. Successive programs go round the
    /// dies and fill all planes of one. Garbage is collected by superblocks.
    Striped,
    /// An address always goes to the same plane (channel first, then die, then plane), and each
    /// plane collects its own garbage, as in MQSim. Map entries are flash pages.
    Static,
}

/// The flash and the wires to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the array to the page register (tR).
    pub read: Nanos,
    /// From the page register to the array (tPROG), all planes at once.
    pub program: Nanos,
    /// A block of each plane (tBERS).
    pub erase: Nanos,
    /// Bytes per second of one channel. Its dies share it; a die is busy while it transfers.
    pub channel_bytes_per_sec: u64,
    /// Host reads overtake everything else that waits for a die. Otherwise in order.
    pub reads_first: bool,
    /// Lets a host read interrupt a program; what each interruption costs. `None`: never.
    pub program_suspend: Option<Nanos>,
    /// The same for erases.
    pub erase_suspend: Option<Nanos>,
}

/// Between the host and the flash translation layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Bytes per second of the link (SATA, PCIe).
    pub link_bytes_per_sec: u64,
    /// Both directions at once (PCIe), or one at a time (SATA).
    pub link_duplex: bool,
    /// Takes host writes no faster than this: a drive that promises less than its flash can do
    /// hides its erases in the buffer. `None`: as fast as the link.
    pub write_bytes_per_sec: Option<u64>,
    /// Added to every read, whatever else goes on: no limit on the number of commands.
    pub read_overhead: Nanos,
    /// Added to every other command.
    pub write_overhead: Nanos,
    /// What the firmware needs for one command, one after the other: limits IOPS.
    pub command: Nanos,
    /// Commands the drive takes at a time (SATA: 32). More wait in front of it, in order.
    pub queue_depth: u32,
}

/// The write buffer. A write is done when it is in; it waits when the buffer is full. What is
/// in the buffer takes space there until it is programmed, and reads find it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    pub bytes: u64,
    /// Capacitors: FLUSH and durable writes need not wait for the flash.
    pub power_loss_protected: bool,
    pub destage: Destage,
    /// Drains the buffer at this interval while there is something in it. The phase follows
    /// from the seed. `None`: no timer.
    pub period: Option<Nanos>,
    /// While the threshold or the timer drains the buffer, the host waits, reads too.
    pub drain_blocks_host: bool,
}

/// When data leaves the buffer, FLUSH and timer aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destage {
    /// As soon as there is enough for a program.
    Continuous,
    /// When there are so many bytes of it; then everything, in a burst. The first burst comes
    /// earlier, by a phase from the seed.
    Threshold { bytes: u64 },
}

/// Garbage collection. Watermarks count free superblocks (striped) or the free blocks of a
/// plane (static).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    pub mode: Mode,
    pub victims: Victims,
    /// Collection starts when the host takes a block and no more than this are left.
    pub low: u32,
    /// It ends when so many are free.
    pub high: u32,
    /// The last ones, which only the collection may take: at least 2. Host writes wait.
    pub hard: u32,
    /// Collects, up to `high`, after the host was silent for so long, and stops when it comes
    /// back, in any mode. `None`: not because of silence.
    pub idle_after: Option<Nanos>,
    /// Pages (of all planes) read and not yet programmed again, or being programmed: how many
    /// dies a collection keeps busy.
    pub copies_in_flight: u32,
}

/// What a collection does to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Host I/O is held until the collection is over, then completed in a batch. Static: only
    /// on the die that collects.
    Blocking,
    /// Host I/O goes first on every die, until `hard` is reached.
    Preemptible,
    /// Copies are paid by host writes: for each page written, as many are copied as are needed
    /// to win a page back, times a factor that grows from 0 at `high` to twice
    /// `gain_percent`/100 at `hard`. With 100 the collection keeps pace; with less than 50 it
    /// falls behind a sustained load, and at `hard` writes wait until a superblock is clean.
    /// Host reads don't wait.
    Paced { gain_percent: u32 },
    /// Only after `idle_after` of silence; when `low` is reached all the same, as `Blocking`.
    Idle,
}

/// Which block is collected next, among those that hold garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// The one with the least valid data.
    Greedy,
    /// The best of `d` drawn at random.
    Choices { d: u32 },
    /// The one that was filled first.
    Fifo,
}

/// The log of changes of the map. Writes that continue each other are one entry. When enough
/// have gathered the drive programs them, and the host waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapLog {
    pub entries: u32,
    /// Programs (a page of all planes of a die) that store them, dealt to the dies in turn.
    pub programs: u32,
}

/// What a drive holds when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Nothing.
    Fresh,
    /// Everything, written sequentially once.
    Written,
    /// Everything, then overwritten at random, by more than its capacity, until the write
    /// amplification is steady.
    Aged,
}
