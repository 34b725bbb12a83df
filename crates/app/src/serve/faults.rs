//! Faults by hand, for tests: what the control socket takes when `serve` was started with
//! `--test-faults`. docs/testing.md shows each.

use io::drive::DriveErrorKind;
use io::faulty::{Delay, Effect, Fault, Kind, Ramp, Tear, Times};
use io::{Env, Nanos, Operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::wrap::Wrapper;
use crate::control::{Answer, Request};
use crate::error::{Failure, Outcome};
use crate::pools::Pool;

/// Input/output error.
const EIO: i32 = 5;

/// A fault as it is written in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    effect: EffectSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation: Option<OperationSpec>,
    /// First byte, and the byte after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range: Option<[u64; 2]>,
    #[serde(default)]
    times: TimesSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    per_million: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum EffectSpec {
    Error {
        #[serde(default = "eio")]
        errno: i32,
    },
    Delay(DelaySpec),
    Slow {
        percent_per_second: u32,
        percent_max: u32,
    },
    Hang {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        millis: Option<u64>,
    },
    Torn {
        tear: TearSpec,
        lying: bool,
    },
    Lost,
    Misdirected {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<u64>,
    },
    Flip {
        bits: u32,
    },
    Lie,
    Gone,
}

fn eio() -> i32 {
    EIO
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum DelaySpec {
    Constant { micros: u64 },
    Uniform { least_micros: u64, most_micros: u64 },
    Exponential { mean_micros: u64 },
    Pareto { least_micros: u64, alpha_percent: u32, most_micros: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum TearSpec {
    Prefix,
    Sectors,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum OperationSpec {
    Read,
    Write,
    Flush,
    Discard,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum TimesSpec {
    Nth(u64),
    Millis(u64),
    #[default]
    Forever,
}

/// Longest span that may be asked for: a day. Longer ones are typing mistakes, and could be
/// more nanoseconds than fit.
const MICROS_MAX: u64 = 24 * 3600 * 1_000_000;

fn span(micros: u64) -> Nanos {
    Nanos::from_micros(micros.min(MICROS_MAX))
}

impl From<DelaySpec> for Delay {
    fn from(spec: DelaySpec) -> Delay {
        match spec {
            DelaySpec::Constant { micros } => Delay::Constant(span(micros)),
            DelaySpec::Uniform { least_micros, most_micros } => {
                Delay::Uniform { least: span(least_micros), most: span(most_micros) }
            }
            DelaySpec::Exponential { mean_micros } => {
                Delay::Exponential { mean: span(mean_micros) }
            }
            DelaySpec::Pareto { least_micros, alpha_percent, most_micros } => {
                Delay::Pareto { least: span(least_micros), alpha_percent, most: span(most_micros) }
            }
        }
    }
}

impl From<&EffectSpec> for Effect {
    fn from(spec: &EffectSpec) -> Effect {
        match *spec {
            EffectSpec::Error { errno } => Effect::Error(DriveErrorKind::Os(errno)),
            EffectSpec::Delay(delay) => Effect::Delay(delay.into()),
            EffectSpec::Slow { percent_per_second, percent_max } => {
                Effect::Slow(Ramp { percent_per_second, percent_max })
            }
            EffectSpec::Hang { millis } => {
                Effect::Hang(millis.map(|millis| span(millis.saturating_mul(1000))))
            }
            EffectSpec::Torn { tear: TearSpec::Prefix, lying } => {
                Effect::Torn { tear: Tear::Prefix, lying }
            }
            EffectSpec::Torn { tear: TearSpec::Sectors, lying } => {
                Effect::Torn { tear: Tear::Sectors, lying }
            }
            EffectSpec::Lost => Effect::Lost,
            EffectSpec::Misdirected { to } => Effect::Misdirected { to },
            EffectSpec::Flip { bits } => Effect::Flip { bits },
            EffectSpec::Lie => Effect::Lie,
            EffectSpec::Gone => Effect::Gone,
        }
    }
}

impl From<OperationSpec> for Operation {
    fn from(spec: OperationSpec) -> Operation {
        match spec {
            OperationSpec::Read => Operation::Read,
            OperationSpec::Write => Operation::Write,
            OperationSpec::Flush => Operation::Flush,
            OperationSpec::Discard => Operation::Discard,
        }
    }
}

impl From<&FaultSpec> for Fault {
    fn from(spec: &FaultSpec) -> Fault {
        let fault = Fault::new((&spec.effect).into());
        Fault {
            operation: spec.operation.map(Operation::from),
            range: spec.range.map(|[start, end]| start..end),
            times: match spec.times {
                TimesSpec::Nth(n) => Times::Nth(n),
                TimesSpec::Millis(millis) => Times::For(span(millis.saturating_mul(1000))),
                TimesSpec::Forever => Times::Forever,
            },
            per_million: spec.per_million.unwrap_or(fault.per_million),
            ..fault
        }
    }
}

/// Carries out a request about the faults of a drive of `pool`, if it is one.
pub fn carry_out(
    env: &impl Env,
    wrapper: &Wrapper,
    pool: &Pool,
    request: &Request,
) -> Option<Outcome<Answer>> {
    let (Request::Fault { drive, .. }
    | Request::FaultRelease { drive, .. }
    | Request::FaultCounts { drive, .. }) = request
    else {
        return None;
    };
    Some(act(env, wrapper, pool, request, drive).map(Answer::Done))
}

/// The name of the drive of this index, UUID or name.
fn drive_name(pool: &Pool, drive: &str) -> Outcome<String> {
    let view = pool.view();
    let found = view
        .drives
        .iter()
        .find(|info| info.index.to_string() == drive || info.uuid == drive || info.name == drive);
    let found = found.ok_or_else(|| Failure::new(format!("'{drive}'"), "no such drive"))?;
    Ok(found.name.clone())
}

fn act(
    env: &impl Env,
    wrapper: &Wrapper,
    pool: &Pool,
    request: &Request,
    drive: &str,
) -> Outcome<String> {
    if !wrapper.takes_faults() {
        return Err(Failure::new("faults", "this server takes none")
            .hint("start one with --test-faults, where no data matters"));
    }
    let name = drive_name(pool, drive)?;
    let faults = wrapper.faults(&name).ok_or_else(|| Failure::new(drive, "is not there"))?;
    match request {
        Request::Fault { fault, .. } => {
            let fault = Fault::from(fault);
            let text = fault.to_string();
            let id =
                faults.arm(env.now(), fault).map_err(|error| Failure::usage("fault", error))?;
            Ok(format!("fault {} of drive {name}: {text}", id.0))
        }
        Request::FaultRelease { fault: Some(fault), .. } => {
            match faults.release(io::faulty::FaultId(*fault)) {
                true => Ok(format!("fault {fault} of drive {name} released")),
                false => Err(Failure::new(format!("fault {fault}"), "is not armed any more")),
            }
        }
        Request::FaultRelease { .. } => {
            faults.release_all();
            Ok(format!("all faults of drive {name} released"))
        }
        _ => {
            let count = |kind: &Kind| format!("{} {}", kind.name(), faults.count(*kind));
            Ok(format!(
                "drive {name}: {}",
                Kind::ALL.iter().map(count).collect::<Vec<_>>().join(", ")
            ))
        }
    }
}
