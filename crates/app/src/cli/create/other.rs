//! `create` for schemes other than `fusion`.

use io::Geometry;
use io::uring::UringEnv;
use schemes::plan::Plan;
use schemes::scheme::{Scheme, Spec};

use super::{Args, object};
use crate::error::{Failure, Outcome};
use crate::explain;
use crate::pools::array;
use crate::size::Size;

pub fn spec(args: &Args, scheme: Scheme) -> Outcome<Spec> {
    let given = [
        ("--replicated-area", args.replicated_area.is_some()),
        ("--conversion", args.conversion.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
        let what = format!("scheme {} has no such thing", scheme.name());
        return Err(Failure::usage(option, what).hint("leave it out"));
    }
    Ok(Spec {
        name: args.pool.clone(),
        scheme,
        width: args.width.map(usize::from),
        chunk: args.block_size.0,
        split: args.mirrors.map(usize::from),
        parity: args.parity.map(usize::from),
        staging: args.staging.map(|staging| staging.0),
        flush_log: args.flush_log.as_deref().map(array::flush_log),
        checksums: args.checksums.as_deref() != Some("off"),
    })
}

/// What would be made of such drives, in words.
pub(crate) async fn plan(
    env: &UringEnv,
    drives: &[(String, Geometry)],
    spec: &Spec,
) -> Outcome<String> {
    let sizes: Vec<u64> = drives.iter().map(|(_, Geometry { size, .. })| *size).collect();
    let plan = schemes::plan::plan(env, &sizes, spec).await;
    let plan = plan.map_err(|error| explain::store(object(&spec.name), &error))?;
    Ok(describe(&spec.name, &plan, spec))
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
