//! Further arrays of pools of in-place schemes.

use std::str::FromStr;

use io::Drive;
use io::uring::{RealDrive, UringEnv};
use schemes::scheme::Spec;
use schemes::scheme::alternate::FlushLog;
use schemes::scheme::steering::Staging;

use super::add;
use super::any::Other;
use crate::control::ArrayShape;
use crate::error::{Failure, Outcome};
use crate::explain;
use crate::size::Size;

/// `dedicated`, or so many bytes of every drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingArg(pub Staging);

impl FromStr for StagingArg {
    type Err = String;

    fn from_str(text: &str) -> Result<StagingArg, String> {
        if text == "dedicated" {
            return Ok(StagingArg(Staging::Dedicated));
        }
        let size: Size = text.parse()?;
        Ok(StagingArg(Staging::Reserved { bytes: size.0 }))
    }
}

/// `writer`, or else `all`.
pub fn flush_log(text: &str) -> FlushLog {
    match text {
        "writer" => FlushLog::Writer,
        _ => FlushLog::All,
    }
}

fn spec(shape: &ArrayShape, like: Spec) -> Outcome<Spec> {
    let staging = shape.staging.as_deref().map(StagingArg::from_str).transpose();
    let staging = staging.map_err(|error| Failure::usage("--staging", error))?;
    Ok(Spec {
        width: shape.width.map(usize::from),
        split: shape.mirrors.map(usize::from),
        parity: shape.parity.map(usize::from),
        staging: staging.map(|own| own.0),
        flush_log: shape.flush_log.as_deref().map(flush_log),
        ..like
    })
}

/// The pool grows by an array of these drives, which are served as others if something is wrapped
/// around them. Returns what is said about it.
pub(crate) async fn grow(
    env: &UringEnv,
    pool: &Other,
    drives: &[RealDrive],
    served: &[RealDrive],
    (shape, force): (&ArrayShape, bool),
) -> Outcome<String> {
    let object = format!("pool {}", pool.name());
    let failed = |error| explain::store(&object, &error);
    let spec = spec(shape, pool.array_spec())?;
    let sizes: Vec<u64> = served.iter().map(|drive| drive.geometry().size).collect();
    // What can be refused is, before anything is written.
    let plan = schemes::plan::plan(env, &sizes, &spec).await.map_err(failed)?;
    pool.check_unit(plan.unit).map_err(failed)?;
    if force {
        add::wipe_labels(drives).await?;
    }
    pool.grow(served.to_vec(), &spec).await.map_err(failed)?;
    let usable = Size(pool.status().space.total);
    Ok(format!(
        "{object}: {} drives added as a further array, {}; {usable} usable now; name them to \
         'serve' from now on",
        served.len(),
        plan.shape
    ))
}
