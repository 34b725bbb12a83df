//! The tables of rebuilds, as text and as Markdown.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::{Outcome, Speed};

/// Everything that was printed.
#[derive(Default)]
pub struct Page {
    markdown: String,
    /// Seconds of the first row of LDM's table, and its response time.
    base: Option<f64>,
}

fn millis(nanos: f64) -> String {
    let millis = nanos / 1e6;
    let places =
        if millis < 1.0 { 3 } else { usize::from(millis < 100.0) + usize::from(millis < 10.0) };
    format!("{millis:.places$}")
}

fn quantile(latencies: &Histogram<u64>, quantile: f64) -> String {
    match latencies.is_empty() {
        true => "-".to_owned(),
        false => millis(latencies.value_at_quantile(quantile) as f64),
    }
}

fn seconds(outcome: &Outcome) -> f64 {
    outcome.took.0 as f64 / 1e9
}

/// How fast a system goes, for people.
fn pace(outcome: &Outcome) -> String {
    match (outcome.case.system.spikes(), outcome.case.speed) {
        (Some(_), _) => "own".to_owned(),
        (None, Speed::Product) => "product".to_owned(),
        (None, Speed::AtMost(bytes)) => format!("md {}", bytes / 1_000_000),
    }
}

impl Page {
    fn print(&mut self, line: &str) {
        println!("{line}");
        let _ = writeln!(self.markdown, "{line}");
    }

    fn table(&mut self, title: &str, heading: &str) {
        println!("\n{title}\n{heading}");
        let end = if self.markdown.is_empty() { "" } else { "```\n\n" };
        let _ = write!(self.markdown, "{end}**{title}**\n\n```\n{heading}\n");
    }

    pub fn markdown(&self) -> String {
        format!("{}```\n", self.markdown)
    }

    pub fn begin(&mut self, title: &str) {
        let heading = format!(
            "{:<8} {:<8} {:<5} {:>8} {:>8} {:>7} {:>7} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} \
             {:>6} {:>6}",
            "system",
            "pace",
            "load",
            "restored",
            "seconds",
            "MB/s",
            "1 TB h",
            "before",
            "p99",
            "during",
            "p99",
            "after",
            "p99",
            "p99 x",
            "read",
            "written"
        );
        self.table(title, &heading);
    }

    pub fn add(&mut self, outcome: &Outcome, drive_bytes: u64) {
        let phases = outcome.phases.each_ref().map(|tally| tally.all());
        let p50_p99 = |at: usize| {
            let all = &phases[at];
            format!("{:>8} {:>7}", quantile(all, 0.5), quantile(all, 0.99))
        };
        let p99 = |at: usize| phases[at].value_at_quantile(0.99) as f64;
        let ratio = match phases[0].is_empty() {
            true => "-".to_owned(),
            false => format!("{:.2}", p99(1) / p99(0).max(1.0)),
        };
        let (read, written) = outcome.balance();
        let hours = seconds(outcome) * 1e12 / drive_bytes as f64 / 3600.0;
        let line = format!(
            "{:<8} {:<8} {:<5} {:>8} {:>8.2} {:>7.1} {:>7.2} {} {} {} {:>7} {:>6.3} {:>6.3}{}",
            outcome.case.system,
            pace(outcome),
            if outcome.case.demand.rate == 0 { "none" } else { "busy" },
            outcome.restored >> 20,
            seconds(outcome),
            outcome.rate() / 1e6,
            hours,
            p50_p99(0),
            p50_p99(1),
            p50_p99(2),
            ratio,
            read,
            written,
            remarks(outcome)
        );
        self.print(&line);
    }

    pub fn begin_steering(&mut self, title: &str) {
        let heading = format!(
            "{:<15} {:<38} {:>11} {:>11} {:>9} {:>10} {:>8}",
            "system", "drives", "mean before", "mean during", "change", "published", "MB/s"
        );
        self.table(title, &heading);
    }

    pub fn add_steering(&mut self, outcome: &Outcome, published: &str) {
        let [before, during, _] = outcome.phases.each_ref().map(|tally| tally.all().mean());
        let line = format!(
            "{:<15} {:<38} {:>11} {:>11} {:>9} {:>10} {:>8.1}{}",
            outcome.case.system,
            outcome.shape,
            millis(before),
            millis(during),
            format!("{:+.1} %", (during / before - 1.0) * 100.0),
            published,
            outcome.rate() / 1e6,
            remarks(outcome)
        );
        self.print(&line);
    }

    pub fn begin_ldm(&mut self, title: &str) {
        let heading = format!(
            "{:<9} {:<11} {:<38} {:>8} {:>8} {:>11} {:>11} {:>6}",
            "published",
            "system",
            "drives",
            "seconds",
            "MB/s",
            "mean before",
            "mean during",
            "time x"
        );
        self.table(title, &heading);
    }

    pub fn add_ldm(&mut self, published: &str, outcome: &Outcome) {
        let [before, during, _] = outcome.phases.each_ref().map(|tally| tally.all().mean());
        let base = *self.base.get_or_insert(seconds(outcome));
        let line = format!(
            "{:<9} {:<11} {:<38} {:>8.2} {:>8.1} {:>11} {:>11} {:>6.2}{}",
            published,
            outcome.case.system,
            outcome.shape,
            seconds(outcome),
            outcome.rate() / 1e6,
            millis(before),
            millis(during),
            seconds(outcome) / base,
            remarks(outcome)
        );
        self.print(&line);
    }
}

/// What should not have been.
fn remarks(outcome: &Outcome) -> String {
    let failed: u64 = outcome.phases.iter().map(|tally| tally.failed).sum();
    let mut text = match (outcome.is_over, outcome.keeps_up) {
        (true, _) => String::new(),
        (false, true) => "  not over".to_owned(),
        (false, false) => "  requests come faster than they are answered".to_owned(),
    };
    if failed > 0 {
        let _ = write!(text, "  {failed} failed");
    }
    if let Some(trouble) = &outcome.trouble {
        let _ = write!(text, "  {trouble}");
    }
    text
}
