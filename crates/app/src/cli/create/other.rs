//! `create` for schemes other than `fusion`.

use io::Geometry;
use io::uring::{RealDrive, UringEnv};
use schemes::plan::Plan;
use schemes::scheme::{Scheme, Spec};

use super::{Args, on_drives};
use crate::drives::{gate, target};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::explain;
use crate::pools::array;
use crate::render::print;
use crate::size::Size;

pub fn run(args: &Args, scheme: Scheme) -> Outcome<Exit> {
    let given = [
        ("--replicated-area", args.replicated_area.is_some()),
        ("--conversion", args.conversion.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
        let what = format!("scheme {} has no such thing", scheme.name());
        return Err(Failure::usage(option, what).hint("leave it out"));
    }
    let spec = Spec {
        name: args.pool.clone(),
        scheme,
        width: args.width.map(usize::from),
        chunk: args.block_size.0,
        split: args.mirrors.map(usize::from),
        parity: args.parity.map(usize::from),
        staging: args.staging.map(|staging| staging.0),
        flush_log: args.flush_log.as_deref().map(array::flush_log),
        checksums: args.checksums.as_deref() != Some("off"),
    };
    let env = crate::cli::environment()?;
    env.block_on(create(&env, args, &spec))
}

async fn create(env: &UringEnv, args: &Args, spec: &Spec) -> Outcome<Exit> {
    let object = format!("pool {}", spec.name);
    let refuse = |error| explain::store(&object, &error);
    let opened = target::open_named(env, &args.drives).await?;
    let sizes: Vec<u64> =
        opened.geometries().iter().map(|(_, Geometry { size, .. })| *size).collect();
    let plan = schemes::plan::plan(env, &sizes, spec).await.map_err(refuse)?;
    gate::blank_or_forced(&opened, args.force).await?;
    if args.dry_run {
        print(&format!("{}nothing was written (--dry-run)\n", describe(&spec.name, &plan, spec)));
        return Ok(Exit::Ok);
    }
    let create = async |drives: &[RealDrive]| spec.create(env, drives).await.map_err(refuse);
    on_drives(env, args, &object, opened, create).await?;
    print(&format!("{}created\n", describe(&spec.name, &plan, spec)));
    Ok(Exit::Ok)
}

/// The plan, before and after.
fn describe(name: &str, plan: &Plan, spec: &Spec) -> String {
    let (raw, chunk) = (Size(plan.raw), Size(spec.chunk));
    let lines = [
        ("pool", format!("{name}, {} drives, {raw} together", plan.drives)),
        ("scheme", format!("{}, {}, chunks of {chunk}", plan.scheme, plan.shape)),
        ("usable", Size(plan.usable).to_string()),
        (
            "checksums",
            match plan.checksum_bytes {
                0 => "off: what a drive changes by itself is not noticed".to_owned(),
                bytes => {
                    format!("on: {} of memory, 1 GiB for each TiB of the drives", Size(bytes))
                }
            },
        ),
    ];
    lines.map(|(label, value)| format!("{label:>9}: {value}\n")).concat()
}
