//! The figures, for people and as JSON.

use io::Nanos;
use serde::Serialize;

use super::replay::{Settings, Threshold};
use super::score::Score;
use super::trace::{DriveTrace, Scene};

/// One scene as the oracle sees it.
#[derive(Serialize)]
pub struct SceneRow {
    pub class: &'static str,
    pub scene: String,
    pub requests: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub slow_requests: u64,
    /// Spikes a minute and drive, of any cause and with garbage collection.
    pub spikes_per_minute: f64,
    pub gc_spikes_per_minute: f64,
    pub spike_mean_ms: f64,
    pub spike_longest_ms: f64,
    /// Spikes of one slow request: nobody who reacts can help it.
    pub lone_share: f64,
    /// Share of time in spikes, and collecting garbage.
    pub spike_share: f64,
    pub collecting_share: f64,
}

impl SceneRow {
    pub fn of(scene: &Scene, drives: &[DriveTrace]) -> SceneRow {
        let requests = || drives.iter().flat_map(|trace| &trace.requests);
        let spikes = || drives.iter().flat_map(|trace| &trace.spikes);
        let mut latencies: Vec<u64> =
            requests().map(|request| request.end.saturating_sub(request.begin).0).collect();
        latencies.sort_unstable();
        let at = |percent: usize| {
            let rank = (latencies.len() * percent).div_ceil(100).max(1);
            ms(Nanos(latencies.get(rank - 1).copied().unwrap_or(0)))
        };
        let length: u64 = drives.iter().map(|trace| trace.length.0).sum();
        let part = |nanos: u64| nanos as f64 / length as f64;
        let lengths = || spikes().map(|spike| spike.period.length().0);
        let count = spikes().count();
        let gc = spikes().filter(|spike| spike.collecting).count();
        let victims = || drives.iter().flat_map(|trace| &trace.victims);
        let lone = victims().filter(|&&victims| victims == 1).count();
        let per_minute = |count: usize| count as f64 * 60e9 / length as f64;
        SceneRow {
            class: scene.class.name(),
            scene: scene.name(),
            requests: latencies.len() as u64,
            p50_ms: at(50),
            p99_ms: at(99),
            slow_requests: requests().filter(|request| request.slow).count() as u64,
            spikes_per_minute: per_minute(count),
            gc_spikes_per_minute: per_minute(gc),
            spike_mean_ms: ms(Nanos(lengths().sum::<u64>() / count.max(1) as u64)),
            spike_longest_ms: ms(Nanos(lengths().max().unwrap_or(0))),
            lone_share: lone as f64 / count.max(1) as f64,
            spike_share: part(lengths().sum()),
            collecting_share: part(drives.iter().map(|trace| trace.cause.0).sum()),
        }
    }

    pub fn heading() -> String {
        format!(
            "{:<34}{:>9}{:>8}{:>8}{:>8}{:>9}{:>9}{:>9}{:>10}{:>8}{:>9}{:>9}",
            "drive and load",
            "requests",
            "p50 ms",
            "p99 ms",
            "slow",
            "spikes/m",
            "of GC/m",
            "mean ms",
            "longest",
            "lone %",
            "spikes %",
            "GC %"
        )
    }

    pub fn line(&self) -> String {
        format!(
            "{:<34}{:>9}{:>8.2}{:>8.2}{:>8}{:>9.1}{:>9.1}{:>9.2}{:>10.2}{:>8.1}{:>9.2}{:>9.1}",
            self.scene,
            self.requests,
            self.p50_ms,
            self.p99_ms,
            self.slow_requests,
            self.spikes_per_minute,
            self.gc_spikes_per_minute,
            self.spike_mean_ms,
            self.spike_longest_ms,
            self.lone_share * 100.0,
            self.spike_share * 100.0,
            self.collecting_share * 100.0
        )
    }
}

const HEADING: [&str; 2] = [
    concat!(
        "                                                   precision %        ",
        "        recall %                   reaction ms          false unresp.   round"
    ),
    concat!(
        "t                         mean ms   y  x^  xv  detect   time   reqs  s",
        "pikes     GC     2+   reqs     mean      p50      p99   a min  % time  % reqs"
    ),
];

/// One setting over one scene, or over all of a class.
#[derive(Serialize)]
pub struct Row {
    pub class: &'static str,
    /// "all" together, or one of them.
    pub scene: String,
    pub section: &'static str,
    /// What it was set to, and what that came to.
    pub t: String,
    pub t_mean_ms: f64,
    pub slots: u8,
    pub enter: u32,
    pub leave: u32,
    pub detections: u64,
    pub precision: f64,
    pub time_precision: f64,
    pub request_precision: f64,
    pub recall: f64,
    pub gc_recall: f64,
    /// Of spikes with more than one slow request.
    pub shared_recall: f64,
    pub request_recall: f64,
    pub request_recall_bound: f64,
    pub reaction_mean_ms: Option<f64>,
    pub reaction_p50_ms: Option<f64>,
    pub reaction_p99_ms: Option<f64>,
    pub false_alarms_per_minute: f64,
    pub unresponsive_share: f64,
    pub round_share: f64,
}

impl Row {
    pub fn of(
        class: &'static str,
        scene: String,
        section: &'static str,
        settings: &Settings,
        score: &Score,
    ) -> Row {
        Row {
            class,
            scene,
            section,
            t: name(settings.threshold),
            t_mean_ms: ms(score.threshold()),
            slots: settings.slots,
            enter: settings.enter,
            leave: settings.leave,
            detections: score.detections,
            precision: score.precision(),
            time_precision: score.time_precision(),
            request_precision: score.request_precision(),
            recall: score.recall(),
            gc_recall: score.gc_recall(),
            shared_recall: score.shared_recall(),
            request_recall: score.request_recall(),
            request_recall_bound: score.request_recall_bound(),
            reaction_mean_ms: score.mean_reaction().map(ms),
            reaction_p50_ms: score.reaction(50).map(ms),
            reaction_p99_ms: score.reaction(99).map(ms),
            false_alarms_per_minute: score.false_alarms_per_minute(),
            unresponsive_share: score.unresponsive_share(),
            round_share: score.round_share(),
        }
    }

    pub fn heading() -> String {
        HEADING.join("\n")
    }

    pub fn line(&self) -> String {
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        let time = |ms: Option<f64>| ms.map_or("-".into(), |ms| format!("{ms:.2}"));
        format!(
            "{:<24}{:>9.2}{:>4}{:>4}{:>4}{:>8}{:>7}{:>7}{:>8}{:>7}{:>7}{:>7}{:>9}{:>9}{:>9}{:>8.2}\
             {:>8.3}{:>8.3}",
            self.t,
            self.t_mean_ms,
            self.slots,
            self.enter,
            self.leave,
            percent(self.precision),
            percent(self.time_precision),
            percent(self.request_precision),
            percent(self.recall),
            percent(self.gc_recall),
            percent(self.shared_recall),
            percent(self.request_recall),
            time(self.reaction_mean_ms),
            time(self.reaction_p50_ms),
            time(self.reaction_p99_ms),
            self.false_alarms_per_minute,
            self.unresponsive_share * 100.0,
            self.round_share * 100.0
        )
    }
}

fn name(threshold: Threshold) -> String {
    match threshold {
        Threshold::Fixed(nanos) => format!("{} ms", ms(nanos)),
        Threshold::Learned { learning, permille } => {
            format!("learned, {} x p{}", learning.factor, f64::from(permille) / 10.0)
        }
    }
}

fn ms(nanos: Nanos) -> f64 {
    nanos.0 as f64 / 1e6
}
