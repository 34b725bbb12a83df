//! What clients' requests wait for: a line of the last minute, and a table.

use super::latency::span;
use super::table::Columns;
use super::view::{Wait, Waited};

/// Shares of less than this are left out of the line: what is looked for is what takes time.
const SHARE_PERMILLE_MIN: u16 = 10;

/// The largest share first; nothing if no request waited in the last minute, or for drives only.
pub fn line(waits: &[Wait]) -> Option<String> {
    let told = |wait: &&Wait| wait.last_minute.share_permille >= SHARE_PERMILLE_MIN;
    let mut told: Vec<&Wait> = waits.iter().filter(told).collect();
    told.sort_by_key(|wait| std::cmp::Reverse(wait.last_minute.nanos));
    let text = |wait: &&Wait| {
        let Waited { count, max_nanos, .. } = wait.last_minute;
        let (share, longest) = (share(&wait.last_minute), span(max_nanos));
        format!("{} {share} ({count}, longest {longest})", wait.cause)
    };
    let texts: Vec<String> = told.iter().map(text).collect();
    let more_than_drives = told.iter().any(|wait| wait.cause != "drives");
    more_than_drives.then(|| format!("in the last minute for {}", texts.join(", ")))
}

/// Causes that nothing waited for since the pool was opened have no line.
pub fn table(waits: &[Wait]) -> String {
    let heading = ["CLIENTS WAIT FOR", "MINUTE", "COUNT", "MAX", "ALL", "COUNT", "P99", "MAX"];
    let mut columns = Columns::new(&heading, &[1, 2, 3, 4, 5, 6, 7]);
    let mut empty = true;
    for wait in waits.iter().filter(|wait| wait.since_opening.count > 0) {
        let (minute, all) = (&wait.last_minute, &wait.since_opening);
        columns.row(vec![
            wait.cause.clone(),
            share(minute),
            minute.count.to_string(),
            span(minute.max_nanos),
            share(all),
            all.count.to_string(),
            span(wait.latency.p99_nanos),
            span(all.max_nanos),
        ]);
        empty = false;
    }
    if empty { String::new() } else { columns.render(2) }
}

/// Of the time of all waits.
fn share(waited: &Waited) -> String {
    match (waited.count, waited.share_permille) {
        (0, _) => "-".to_owned(),
        (_, permille) => format!("{}.{} %", permille / 10, permille % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(cause: &str, count: u64, share_permille: u16) -> Wait {
        let nanos = u64::from(share_permille) * 1_000_000;
        let waited = Waited { count, nanos, max_nanos: nanos / 2, share_permille };
        Wait { cause: cause.to_owned(), last_minute: waited, ..Wait::default() }
    }

    #[test]
    fn the_line_tells_what_takes_time_and_is_not_there_without() {
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[wait("limits", 0, 0), wait("drives", 0, 0)]), None);
        assert_eq!(line(&[wait("lock", 7, 9), wait("drives", 20, 991)]), None);
        let waits = [wait("lock", 7, 9), wait("journal", 3, 191), wait("drives", 20, 800)];
        let expected = "in the last minute for drives 80.0 % (20, longest 400 ms), \
                        journal 19.1 % (3, longest 95.5 ms)";
        assert_eq!(line(&waits).as_deref(), Some(expected));
    }

    #[test]
    fn the_table_keeps_what_was_before_the_last_minute() {
        let before = Waited { count: 2, nanos: 9_000, max_nanos: 5_000, share_permille: 1000 };
        let waits = [Wait { since_opening: before, ..wait("space", 0, 0) }, wait("lock", 0, 0)];
        let table = table(&waits);
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1..], [["space", "-", "0", "-", "100.0", "%", "2", "-", "5.00", "us"]]);
        assert_eq!(super::table(&waits[1..]), "");
    }
}
