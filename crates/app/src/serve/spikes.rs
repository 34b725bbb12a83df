//! How `serve` is told to handle latency spikes (FusionRAID §4.3).

use std::str::FromStr;

use clap::ValueEnum;
use engine::{SpikeHandling, Threshold};
use io::Nanos;
use jiff::SignedDuration;
use serde::Deserialize;

use crate::error::{Failure, Outcome};

/// What is done about drives in a spike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Lead requests round slow drives, send late ones again another way, fail drives that hang
    On,
    /// Only count and tell
    Watch,
    /// Lead requests round slow drives and no more, as FusionRAID was published
    Paper,
    /// Nothing: no histograms, no events
    Off,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::On, Mode::Watch, Mode::Paper, Mode::Off];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Mode::On => "on",
            Mode::Watch => "watch",
            Mode::Paper => "paper",
            Mode::Off => "off",
        }
    }

    pub fn handling(self) -> SpikeHandling {
        match self {
            Mode::On => SpikeHandling::default(),
            Mode::Watch => SpikeHandling::WATCH,
            Mode::Paper => SpikeHandling::PAPER,
            Mode::Off => SpikeHandling::OFF,
        }
    }
}

/// A threshold below that is less than any drive needs; above it clients have given up.
const THRESHOLD_MIN: Nanos = Nanos::from_micros(10);
const THRESHOLD_MAX: Nanos = Nanos::from_secs(60);
/// More stragglers than any drive has requests under way.
const STRAGGLERS_MAX: u32 = 4096;

/// `learned`, or a duration like `2ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct StragglerThreshold(Threshold);

impl FromStr for StragglerThreshold {
    type Err = String;

    fn from_str(text: &str) -> Result<StragglerThreshold, String> {
        if text == "learned" {
            return Ok(StragglerThreshold(Threshold::Learned));
        }
        let span: SignedDuration = text
            .parse()
            .map_err(|_| format!("'{text}' is neither 'learned' nor a time like 500us or 2ms"))?;
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(0);
        if !(THRESHOLD_MIN.0..=THRESHOLD_MAX.0).contains(&nanos) {
            return Err(format!("'{text}' is not between {THRESHOLD_MIN} and {THRESHOLD_MAX}"));
        }
        Ok(StragglerThreshold(Threshold::Fixed(Nanos(nanos))))
    }
}

impl TryFrom<String> for StragglerThreshold {
    type Error = String;

    fn try_from(text: String) -> Result<StragglerThreshold, String> {
        text.parse()
    }
}

/// The options as they were given; the same on the command line and in a file.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpikeOptions {
    /// What is done about drives in a latency spike [default: on; watch for pools made as
    /// fusion-nd]
    #[arg(long, value_name = "MODE", value_enum)]
    pub spikes: Option<Mode>,
    /// A request that a drive has not answered after this long is a straggler: a time like
    /// 500us or 2ms, or 'learned' from each drive's own latency and its peers' [default:
    /// learned; 2ms with --spikes paper]
    #[arg(long, value_name = "TIME")]
    pub straggler_threshold: Option<StragglerThreshold>,
    /// A drive with so many stragglers is in a spike [default: 2]
    #[arg(long, value_name = "N")]
    pub stragglers_enter: Option<u32>,
    /// With so many or fewer it is back; less than --stragglers-enter [default: 0]
    #[arg(long, value_name = "N")]
    pub stragglers_leave: Option<u32>,
    /// Parts of the threshold in which requests are counted: more are more precise [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub spike_slots: Option<u8>,
}

impl SpikeOptions {
    /// What is given here, and for the rest what is given there.
    pub fn or(self, other: SpikeOptions) -> SpikeOptions {
        SpikeOptions {
            spikes: self.spikes.or(other.spikes),
            straggler_threshold: self.straggler_threshold.or(other.straggler_threshold),
            stragglers_enter: self.stragglers_enter.or(other.stragglers_enter),
            stragglers_leave: self.stragglers_leave.or(other.stragglers_leave),
            spike_slots: self.spike_slots.or(other.spike_slots),
        }
    }

    /// `otherwise`: the mode when none is given.
    pub fn handling(self, otherwise: Mode) -> Outcome<SpikeHandling> {
        let mode = self.spikes.unwrap_or(otherwise);
        let alone = SpikeOptions { spikes: self.spikes, ..SpikeOptions::default() };
        if mode == Mode::Off && self != alone {
            return Err(Failure::usage("--spikes off", "stragglers are not counted at all then")
                .hint("leave --straggler-... and --spike-slots out, or use --spikes watch"));
        }
        let default = mode.handling();
        let handling = SpikeHandling {
            threshold: self.straggler_threshold.map_or(default.threshold, |given| given.0),
            slots: self.spike_slots.unwrap_or(default.slots),
            enter: self.stragglers_enter.unwrap_or(default.enter),
            leave: self.stragglers_leave.unwrap_or(default.leave),
            ..default
        };
        check(&handling)?;
        Ok(handling)
    }
}

fn check(handling: &SpikeHandling) -> Outcome<()> {
    let SpikeHandling { enter, leave, slots, .. } = *handling;
    if !(1..=STRAGGLERS_MAX).contains(&enter) {
        let what = format!("{enter} is not between 1 and {STRAGGLERS_MAX}");
        return Err(Failure::usage("--stragglers-enter", what));
    }
    if leave >= enter {
        let what = format!("{leave} is not less than --stragglers-enter, which is {enter}");
        return Err(Failure::usage("--stragglers-leave", what)
            .hint("a drive would be in a spike and out of it with the same stragglers"));
    }
    if slots == 0 {
        return Err(Failure::usage("--spike-slots", "there must be at least 1"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_times_within_reason() {
        let nanos = |text: &str| match text.parse::<StragglerThreshold>() {
            Ok(StragglerThreshold(Threshold::Fixed(span))) => Ok(Some(span.0)),
            Ok(StragglerThreshold(Threshold::Learned)) => Ok(None),
            Err(error) => Err(error),
        };
        assert_eq!(nanos("learned"), Ok(None));
        assert_eq!(nanos("2ms"), Ok(Some(2_000_000)));
        assert_eq!(nanos("500us"), Ok(Some(500_000)));
        assert_eq!(nanos("1.5s"), Ok(Some(1_500_000_000)));
        for text in ["", "2", "ms", "-2ms", "fast", "1us", "2h", "99999999999999999h", "2ms2"] {
            assert!(nanos(text).is_err(), "{text} was taken as {:?}", nanos(text));
        }
    }

    #[test]
    fn the_command_line_comes_before_the_file_option_by_option() {
        let file = SpikeOptions {
            spikes: Some(Mode::Watch),
            stragglers_enter: Some(7),
            ..SpikeOptions::default()
        };
        let line = SpikeOptions { spikes: Some(Mode::Paper), ..SpikeOptions::default() };
        let handling = line.or(file).handling(Mode::On).expect("sense");
        assert_eq!(handling, SpikeHandling { enter: 7, ..SpikeHandling::PAPER });
        assert_eq!(SpikeOptions::default().handling(Mode::On), Ok(SpikeHandling::default()));
        assert_eq!(SpikeOptions::default().handling(Mode::Watch), Ok(SpikeHandling::WATCH));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let none = SpikeOptions::default();
        let cases = [
            (SpikeOptions { stragglers_enter: Some(0), ..none }, "--stragglers-enter"),
            (SpikeOptions { stragglers_enter: Some(u32::MAX), ..none }, "--stragglers-enter"),
            (SpikeOptions { stragglers_leave: Some(2), ..none }, "--stragglers-leave"),
            (SpikeOptions { spike_slots: Some(0), ..none }, "--spike-slots"),
            (SpikeOptions { spikes: Some(Mode::Off), spike_slots: Some(9), ..none }, "off"),
        ];
        for (options, object) in cases {
            let failure = options.handling(Mode::On).expect_err("no sense");
            assert!(failure.usage && failure.object.contains(object), "{failure}");
        }
    }
}
