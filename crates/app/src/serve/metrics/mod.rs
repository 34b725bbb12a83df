//! Everything countable, as OpenMetrics text. docs/metrics.md lists the names, and a test here
//! sees to it that it has all of them.
//!
//! Names say what is counted, labels whose: `pool`, then `drive` (its number) or `volume`.

mod drives;
mod family;
mod plain;
mod pools;
mod server;
mod volumes;

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use self::family::Writer;
pub use self::plain::{OPENMETRICS, PLAIN, is_openmetrics, plain};
use super::doings::Doings;
use super::smart::Report;
use crate::render::view::Pool;

/// What there is to be told.
pub struct Facts {
    pub pools: Vec<Pool>,
    /// Of drives, by name.
    pub smart: BTreeMap<String, Report>,
    pub doings: Rc<Doings>,
}

/// All of it. The registry wants a value of its own, that can be sent to other threads.
pub fn text(facts: Facts) -> String {
    let mut registry = Registry::default();
    let server = server::Facts::of(&facts.doings);
    let (pools, unopened) = facts.pools.into_iter().partition(Pool::is_open);
    registry.register_collector(Box::new(All { pools, unopened, smart: facts.smart, server }));
    let mut said = String::new();
    match text::encode(&mut said, &registry) {
        Ok(()) => said,
        Err(error) => unreachable!("a String takes all that is written to it: {error}"),
    }
}

#[derive(Debug)]
struct All {
    pools: Vec<Pool>,
    /// Of which nothing is known but that they have failed.
    unopened: Vec<Pool>,
    smart: BTreeMap<String, Report>,
    server: server::Facts,
}

impl Collector for All {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut to = Writer::new(encoder);
        pools::write(&self.pools, &self.unopened, &mut to)?;
        drives::write(&self.pools, &self.smart, &mut to)?;
        volumes::write(&self.pools, &mut to)?;
        server::write(&self.server, &mut to)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn nothing() -> String {
        let (pools, smart) = (Vec::new(), BTreeMap::new());
        text(Facts { pools, smart, doings: Rc::new(Doings::of_test()) })
    }

    /// Names of families and their types, counters with the end that samples have.
    fn written() -> BTreeMap<String, String> {
        let said = plain(&nothing());
        let types = said.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let pair = |line: &str| line.split_once(' ').map(|(name, kind)| (name.into(), kind.into()));
        types.filter_map(pair).collect()
    }

    /// Rows of docs/metrics.md: `| name | type | ...`.
    fn documented() -> BTreeMap<String, String> {
        let text = include_str!("../../../../../docs/metrics.md");
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
        let pair = |row: &str| {
            let (name, rest) = row.split_once("` | ").expect("a row has a name and a type");
            (name.to_owned(), rest.split(' ').next().unwrap_or_default().to_owned())
        };
        rows.map(pair).collect()
    }

    #[test]
    fn every_family_is_documented_and_nothing_else() {
        let (written, documented) = (written(), documented());
        assert!(written.len() > 40, "{written:?}");
        for (name, kind) in &written {
            assert_eq!(documented.get(name), Some(kind), "{name} in docs/metrics.md");
        }
        let gone: Vec<&String> =
            documented.keys().filter(|name| !written.contains_key(*name)).collect();
        assert!(gone.is_empty(), "in docs/metrics.md, and written nowhere: {gone:?}");
    }

    /// A name that is gone makes an alert that never fires.
    #[test]
    fn rules_and_dashboard_ask_for_what_there_is() {
        let written = written();
        let asked = [
            include_str!("../../../../../packaging/prometheus/alerts.yml"),
            include_str!("../../../../../packaging/grafana/steadyraid.json"),
        ];
        for text in asked {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let names: Vec<&str> = words.filter(|word| word.starts_with("steadyraid_")).collect();
            assert!(names.len() > 5, "{names:?}");
            for name in names {
                let family = name.strip_suffix("_bucket").unwrap_or(name);
                assert!(written.contains_key(family), "{name} is asked for, and not written");
            }
        }
    }

    /// All other rules ask for what a server tells, and one that is gone tells nothing.
    #[test]
    fn a_rule_fires_for_a_server_that_is_gone() {
        let rules = include_str!("../../../../../packaging/prometheus/alerts.yml");
        let up = rules
            .lines()
            .find_map(|line| line.trim().strip_prefix("expr: up{job=\""))
            .expect("a rule");
        let (job, rest) = up.split_once('"').expect("a job");
        assert_eq!(rest, "} == 0");
        let documented = include_str!("../../../../../docs/metrics.md");
        assert!(documented.contains(&format!("job_name: {job}\n")), "{job} in docs/metrics.md");
    }

    #[test]
    fn nothing_served_is_a_document_all_the_same() {
        let said = nothing();
        assert!(said.ends_with("# EOF\n") && said.contains("steadyraid_pool_state"), "{said}");
    }
}
