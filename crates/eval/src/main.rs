//! `steadyraid-eval`: the papers' experiments by name (`list`, `run`, `report`, `compare`), and
//! our own, a verb each: `engine` the engine alone, no transport; `space` overwriting a full volume
//! for a long time; `recovery` metadata size and opening after a kill; `model` how fast modelled
//! drives are; `detector` the spike detector against an oracle, `slow-drives` that of drives
//! that are slow for long; the rest looks at arrays over
//! modelled drives in virtual time.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use eval::{
    bursts, command, conversion, detector, engine_speed, model_speed, pressure, rebuild, recovery,
    slow_drives, space, spikes, systems, tail, thresholds, trace,
};

/// What a cell made goes back to the system when the next one makes something else. The C library
/// keeps what a thread freed for that thread: a full run had 18 GB of memory in the end.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "steadyraid-eval", about = "SteadyRAID's experiments and benchmarks", version)]
struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// The papers' experiments, and what they cost
    List(command::ListOptions),
    /// Run experiments of the papers, and write their report (virtual time)
    Run(command::RunOptions),
    /// Write the report anew from cells that are there
    Report(command::ReportOptions),
    /// Numbers that differ between two folders of results
    Compare(command::CompareOptions),
    /// Operations per second of one core, over memory drives, no transport
    Engine(engine_speed::Options),
    /// Random overwrites of a full volume: write amplification, throughput, longest stall
    Space(space::Options),
    /// Metadata per block, and opening a large pool after a kill
    Recovery(recovery::Options),
    /// Modelled drive operations per second of one core
    Model(model_speed::Options),
    /// The spike detector against an oracle: precision, recall, reaction time
    Detector(detector::Options),
    /// Drives that are slow for long: precision, recall, time to the verdict
    SlowDrives(slow_drives::Options),
    /// Any schemes and systems under one load: latency, write amplification (virtual time)
    Systems(systems::Options),
    /// Reads beside bursts of large writes, and traces, on `fusion` and other arrays (virtual time)
    Bursts(bursts::Options),
    /// Latency with one slow drive in the array, and without (virtual time)
    Tail(tail::Options),
    /// The slowest 1 % with and without redirection, FusionRAID Table 6 (virtual time)
    Spikes(spikes::Options),
    /// How much the detector's t and x^ matter, FusionRAID Figure 13 (d) (virtual time)
    Thresholds(thresholds::Options),
    /// What conversion costs and gives, FusionRAID Figure 13 (virtual time)
    Conversion(conversion::Options),
    /// A pool nearly full under a sustained load, second by second (virtual time)
    Pressure(pressure::Options),
    /// A drive is lost: time to full redundancy, and latency meanwhile (virtual time)
    Rebuild(rebuild::Options),
    /// Traces of block requests: measured, converted, fitted, made
    #[command(subcommand)]
    Trace(trace::Verb),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().experiment {
        Experiment::List(options) => command::list(&options),
        Experiment::Run(options) => command::run(&options),
        Experiment::Report(options) => command::report(&options),
        Experiment::Compare(options) => command::compare(&options),
        Experiment::Engine(options) => {
            engine_speed::run(&options);
            Ok(())
        }
        Experiment::Space(options) => {
            space::run(&options);
            Ok(())
        }
        Experiment::Recovery(options) => {
            recovery::run(&options);
            Ok(())
        }
        Experiment::Model(options) => {
            model_speed::run(&options);
            Ok(())
        }
        Experiment::Detector(options) => detector::run(&options).map_err(|e| e.to_string()),
        Experiment::SlowDrives(options) => slow_drives::run(&options),
        Experiment::Systems(options) => systems::run(&options),
        Experiment::Bursts(options) => bursts::run(&options),
        Experiment::Tail(options) => tail::run(&options),
        Experiment::Spikes(options) => spikes::run(&options),
        Experiment::Thresholds(options) => thresholds::run(&options),
        Experiment::Conversion(options) => conversion::run(&options),
        Experiment::Pressure(options) => pressure::run(&options),
        Experiment::Rebuild(options) => rebuild::run(&options),
        Experiment::Trace(verb) => trace::run(&verb),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("steadyraid-eval: {error}");
            ExitCode::FAILURE
        }
    }
}
