//! `create`: makes a pool of drives. Everything that can be refused is refused before the
//! first byte is written.

mod other;

use std::fmt::Write;

use clap::builder::PossibleValuesParser;
use engine::{CreatePlan, CreateSpec};
use io::Geometry;
use io::uring::{RealDrive, UringEnv};
use schemes::scheme::{Scheme, Spec};

use crate::drives::target::{self, Opened};
use crate::drives::{blank, gate};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::explain;
use crate::pools::array::StagingArg;
use crate::pools::held::{self, Claimed, Others};
use crate::render::print;
use crate::size::Size;
use crate::wall_clock;

/// Make a pool of drives
///
/// The drives' contents are lost: they are told first that they hold nothing (TRIM), so that they
/// need not keep it. Drives that hold something known (a filesystem, a partition table, another
/// pool) are refused unless --force is given; drives in use are always refused.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  steadyraid create tank /dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1
  steadyraid create --dry-run --parity 2 tank /dev/nvme?n1
  steadyraid create --scheme raid10 tank /dev/nvme?n1
  steadyraid create test d0.img:1G d1.img:1G d2.img:1G d3.img:1G")]
pub struct Args {
    /// Name of the pool: 1 to 63 letters, digits, '.', '_' or '-'
    pool: String,
    /// How data is laid out and kept; 'steadyraid schemes' tells them apart
    #[arg(long, value_name = "NAME", default_value = "fusion",
        value_parser = PossibleValuesParser::new(names()))]
    scheme: String,
    /// fusion, log-mirror, steering: drives that may die without loss, 1 (RAID5) or 2 (RAID6)
    /// [default: 1]; alternate: of each replica [default: none]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=2))]
    parity: Option<u8>,
    /// fusion: blocks in a stripe, parity included [default: six data blocks, or what the drives
    /// allow]; others: drives of a group
    /// [default: 2 in raid10, half of the drives where there are two groups, 4 in hybrid]
    #[arg(long, value_name = "W")]
    width: Option<u16>,
    /// hybrid: drives of the mirrors, the first ones given [default: about 30 % of them];
    /// alternate: replicas that take turns, 2 to 4 [default: 2]; steering: copies, in place of
    /// parity
    #[arg(long, value_name = "N")]
    mirrors: Option<u16>,
    /// steering: bytes of every drive where writes go that are meant for a drive that collects
    /// garbage, or 'dedicated' for the last drive [default: a fiftieth of the drives]
    #[arg(long, value_name = "SIZE|dedicated")]
    staging: Option<StagingArg>,
    /// alternate: which replicas have flushed data in a log: all, or writer, the one that is
    /// written to. With writer FLUSH does not disturb reads, but flushed data is lost if a drive
    /// dies together with the power [default: all]
    #[arg(long, value_name = "REPLICAS", value_parser = ["all", "writer"])]
    flush_log: Option<String>,
    /// Size of a block: a power of two from 4K to 1M
    #[arg(long, value_name = "SIZE", default_value = "64K")]
    block_size: Size,
    /// fusion: share of the pool that small writes may occupy as copies before they are converted
    /// [default: 10]
    #[arg(long, value_name = "PERCENT")]
    replicated_area: Option<u8>,
    /// fusion: when copies become RAID stripes: lazy (when space asks for it), or eager (at once)
    /// [default: lazy]
    #[arg(long, value_name = "POLICY", value_parser = ["lazy", "eager"])]
    conversion: Option<String>,
    /// Keep a checksum of every page of data, apart from it, and look at it whenever the page is
    /// read: on (4 bytes of memory for each 4 KiB of data; of parity and copies, too, in schemes
    /// other than fusion), or off [default: on]
    #[arg(long, value_name = "ON|OFF", value_parser = ["on", "off"])]
    checksums: Option<String>,
    /// Overwrite what is on the drives, even filesystems and other pools
    #[arg(long)]
    force: bool,
    /// Don't discard what is on the drives: for those that take very long to, or do it badly
    #[arg(long)]
    no_discard: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Block devices or files; PATH:SIZE makes a file that doesn't exist, and so does
    /// model:PRESET,size=SIZE,file=PATH, for 'serve' to give it the timing of a modelled drive
    #[arg(required = true, value_name = "DRIVE")]
    drives: Vec<String>,
}

/// `fusion` without detection of spikes.
const FUSION_ND: &str = "fusion-nd";

fn names() -> impl Iterator<Item = &'static str> {
    ["fusion", FUSION_ND].into_iter().chain(Scheme::ALL.map(Scheme::name))
}

/// What `create` was told to make.
pub enum Wanted {
    Fusion(CreateSpec),
    Other(Spec),
}

impl Wanted {
    /// Refuses what makes no sense whatever the drives are.
    pub fn of(args: &Args) -> Outcome<Wanted> {
        if let Some(scheme) = Scheme::named(&args.scheme) {
            return other::spec(args, scheme).map(Wanted::Other);
        }
        let of_others = [
            ("--mirrors", args.mirrors.is_some()),
            ("--staging", args.staging.is_some()),
            ("--flush-log", args.flush_log.is_some()),
        ];
        if let Some((option, _)) = of_others.iter().find(|(_, given)| *given) {
            let what = "scheme fusion has no such thing";
            return Err(Failure::usage(option, what).hint("leave it out"));
        }
        spec(args).map(Wanted::Fusion)
    }

    pub fn scheme(&self) -> Option<Scheme> {
        match self {
            Wanted::Fusion(_) => None,
            Wanted::Other(spec) => Some(spec.scheme),
        }
    }

    /// What would be made of such drives, in words. What making refuses, this does.
    pub(crate) async fn plan(
        &self,
        env: &UringEnv,
        drives: &[(String, Geometry)],
    ) -> Outcome<String> {
        match self {
            Wanted::Fusion(spec) => {
                let plan = engine::plan_create(drives, spec);
                let plan = plan.map_err(|error| explain::create(object(&spec.name), &error))?;
                Ok(describe(&spec.name, &plan))
            }
            Wanted::Other(spec) => other::plan(env, drives, spec).await,
        }
    }

    pub(crate) async fn make(&self, env: &UringEnv, drives: &[RealDrive]) -> Outcome<()> {
        match self {
            Wanted::Fusion(spec) => {
                let made = engine::create(env, drives, spec).await;
                made.map(|_| ()).map_err(|error| explain::create(object(&spec.name), &error))
            }
            Wanted::Other(spec) => {
                let made = spec.create(env, drives).await;
                made.map_err(|error| explain::store(object(&spec.name), &error))
            }
        }
    }
}

fn object(name: &str) -> String {
    format!("pool {name}")
}

impl Args {
    /// Drives as they were named.
    pub fn drives(&self) -> &[String] {
        &self.drives
    }
}

pub fn run(args: &Args) -> Outcome<Exit> {
    let wanted = Wanted::of(args)?;
    let env = super::environment()?;
    env.block_on(create(&env, args, &wanted))
}

fn spec(args: &Args) -> Outcome<CreateSpec> {
    let block_size = u32::try_from(args.block_size.0).map_err(|_| {
        let error = engine::CreateError::BlockSize(args.block_size.0);
        explain::create(object(&args.pool), &error)
    })?;
    Ok(CreateSpec {
        parity: args.parity.unwrap_or(1),
        width: args.width,
        block_size,
        replicated_percent: args.replicated_area.unwrap_or(CreateSpec::REPLICATED_PERCENT_DEFAULT),
        conversion: match args.conversion.as_deref() {
            Some("eager") => engine::ConversionPolicy::Eager,
            _ => engine::ConversionPolicy::Lazy,
        },
        detection: args.scheme != FUSION_ND,
        checksums: args.checksums.as_deref() != Some("off"),
        created_secs: wall_clock::now_secs(),
        ..CreateSpec::new(&args.pool)
    })
}

async fn create(env: &UringEnv, args: &Args, wanted: &Wanted) -> Outcome<Exit> {
    let opened = target::open_named(env, &args.drives).await?;
    let plan = wanted.plan(env, &opened.geometries()).await?;
    gate::blank_or_forced(&opened, args.force).await?;
    if args.dry_run {
        print(&format!("{plan}nothing was written (--dry-run)\n"));
        return Ok(Exit::Ok);
    }
    let make = async |drives: &[RealDrive]| wanted.make(env, drives).await;
    on_drives(env, args, &object(&args.pool), opened, make).await?;
    print(&format!("{plan}created\n"));
    Ok(Exit::Ok)
}

/// What is made on drives that are this host's meanwhile, and hold nothing.
async fn on_drives(
    env: &UringEnv,
    args: &Args,
    object: &str,
    opened: Opened,
    make: impl AsyncFnOnce(&[RealDrive]) -> Outcome<()>,
) -> Outcome<()> {
    let made = opened.make_files(env).await?;
    // Whoever forces knows that they hold something, of whatever host.
    let others = if args.force { Others::TakeOver } else { Others::Respect };
    let Claimed { drives, hold } = held::take(env, object, made.drives(), others).await?;
    let create = async {
        if !args.no_discard {
            blank::discard(&made.found(&drives)).await;
        }
        make(&drives).await
    };
    hold.release_after(held::while_held(Some(&hold), object, create)).await?;
    made.keep();
    Ok(())
}

/// The plan, before and after.
fn describe(name: &str, plan: &CreatePlan) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:>9}: {value}");
    };
    let level = if plan.parity == 1 { "RAID5" } else { "RAID6" };
    let data = plan.width.saturating_sub(u16::from(plan.parity));
    let block = Size(u64::from(plan.block_size));
    line("pool", format!("{name}, {} drives, {} together", plan.drives, Size(plan.raw_bytes)));
    line("stripes", format!("{level} {data}+{}, blocks of {block}", plan.parity));
    line("layout", plan.layout.clone());
    line("usable", Size(plan.usable_bytes).to_string());
    line(
        "spare",
        match plan.drives - usize::from(plan.width) {
            0 => "none: a lost drive has to be replaced (a smaller --width leaves room)".to_owned(),
            more => format!("what {more} lost drives held is restored on the others, if it fits"),
        },
    );
    if plan.unused_bytes > 0 {
        let unused = Size(plan.unused_bytes);
        let enough = plan.width.max(3);
        let why = format!("{unused}: what fewer than {enough} of the larger drives have");
        line("unused", why);
    } else {
        line("unused", "nothing".to_owned());
    }
    line("zones", format!("{} of {} on each drive", plan.zones, Size(plan.zone_bytes)));
    let (journal, metadata) = (Size(plan.journal_bytes), Size(plan.metadata_bytes));
    line("metadata", format!("{journal} journal and {metadata} checkpoints on each drive"));
    line(
        "checksums",
        match plan.checksum_bytes {
            0 => "off: what a drive changes by itself is not noticed".to_owned(),
            bytes => format!("on: {} of memory when full, 1 GiB for each TiB of data", Size(bytes)),
        },
    );
    text
}
