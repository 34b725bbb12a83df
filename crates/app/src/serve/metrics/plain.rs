//! The same in the older text format of Prometheus, for programs that read no OpenMetrics.

use std::collections::BTreeSet;

pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One of the types of content that a client names as those it reads.
pub fn is_openmetrics(accepted: &str) -> bool {
    let mut parts = accepted.split(';').map(str::trim);
    parts.next() == Some("application/openmetrics-text")
        && !parts.any(|part| part == "q=0" || part == "q=0.0")
}

fn counter(line: &str) -> Option<&str> {
    line.strip_prefix("# TYPE ")?.strip_suffix(" counter")
}

/// There, counters have their ending in the name of the family too, and there is no end mark.
pub fn plain(openmetrics: &str) -> String {
    let counters: BTreeSet<&str> = openmetrics.lines().filter_map(counter).collect();
    let mut said = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines().filter(|line| *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what), Some(name), Some(rest)) if counters.contains(name) => {
                said += &format!("# {what} {name}_total {rest}");
            }
            _ => said += line,
        }
        said.push('\n');
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_called_what_their_samples_are() {
        let text = "# HELP a How many.\n# TYPE a counter\na_total{b=\"# TYPE a counter\"} 1\n\
                    # HELP c Now.\n# TYPE c gauge\nc 2\n# EOF\n";
        let expected = "# HELP a_total How many.\n# TYPE a_total counter\n\
                        a_total{b=\"# TYPE a counter\"} 1\n# HELP c Now.\n# TYPE c gauge\nc 2\n";
        assert_eq!(plain(text), expected);
    }

    #[test]
    fn who_reads_openmetrics_says_so() {
        for accepted in ["application/openmetrics-text;version=1.0.0;q=0.6", OPENMETRICS] {
            assert!(is_openmetrics(accepted), "{accepted}");
        }
        for accepted in ["", "*/*;q=0.1", "text/plain", "application/openmetrics-text;q=0"] {
            assert!(!is_openmetrics(accepted), "{accepted}");
        }
    }
}
