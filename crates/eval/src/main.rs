//! Experiments and benchmarks, their tables and numbers.
//!
//! `eval engine` the engine alone, no transport; `eval space` overwriting a full volume for a
//! long time; `eval recovery` metadata size and opening after a kill; `eval model` how fast
//! modelled drives are; `eval detector` the spike detector against an oracle.

mod detector;
mod engine_speed;
mod load;
mod model_speed;
mod recovery;
mod space;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "SteadyRAID benchmarks")]
struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
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
}

fn main() {
    match Arguments::parse().experiment {
        Experiment::Engine(options) => engine_speed::run(&options),
        Experiment::Space(options) => space::run(&options),
        Experiment::Recovery(options) => recovery::run(&options),
        Experiment::Model(options) => model_speed::run(&options),
        Experiment::Detector(options) => {
            if let Err(error) = detector::run(&options) {
                eprintln!("eval detector: {error}");
                std::process::exit(1);
            }
        }
    }
}
