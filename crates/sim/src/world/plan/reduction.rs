//! A world with less in it, written as options of a command: what the shrinker finds and what
//! replays it are the same.

use std::fmt;

use clap::{Args, ValueEnum};

use super::{Mix, Plan};

/// What a world can do without. Of requests the last kind stays, or nothing would be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Part {
    /// Faults of drives, other than being pulled out.
    Troubles,
    /// Drives that fail or are pulled out.
    Victims,
    /// Deaths while the pool is opened.
    DeathsInOpening,
    /// Deaths: every session ends well.
    Deaths,
    Deletes,
    Prefill,
    /// Models of drives.
    Models,
    /// Limits of volumes.
    Limits,
    /// Volumes that grow.
    Growth,
    /// Read-only openings.
    Looks,
    Small,
    Page,
    Block,
    Stripe,
    Sequential,
    Reads,
    Trims,
    Zeroes,
    Flushes,
    Fua,
    Hot,
    Think,
}

/// What is left of a plan.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// Only these sessions, by number
    #[arg(long, value_delimiter = ',')]
    pub sessions: Option<Vec<u64>>,
    /// So many clients
    #[arg(long)]
    pub clients: Option<usize>,
    /// So many requests of each client in a session
    #[arg(long)]
    pub requests: Option<usize>,
    /// Only these troubles, by number
    #[arg(long, value_delimiter = ',')]
    pub troubles: Option<Vec<usize>>,
    /// Nothing of this kind
    #[arg(long, value_delimiter = ',')]
    pub without: Vec<Part>,
    /// Another schedule of the same events
    #[arg(long, default_value_t = 0)]
    pub salt: u64,
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no part is hidden").get_name())
    }
}

impl fmt::Display for Reduction {
    /// As options of `replay`, each after a space.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(sessions) = &self.sessions {
            write!(f, " --sessions {}", list(sessions))?;
        }
        if let Some(clients) = self.clients {
            write!(f, " --clients {clients}")?;
        }
        if let Some(requests) = self.requests {
            write!(f, " --requests {requests}")?;
        }
        if let Some(troubles) = &self.troubles {
            write!(f, " --troubles {}", list(troubles))?;
        }
        if !self.without.is_empty() {
            write!(f, " --without {}", list(&self.without))?;
        }
        if self.salt != 0 {
            write!(f, " --salt {}", self.salt)?;
        }
        Ok(())
    }
}

impl Reduction {
    /// The plan of the seed, reduced.
    pub fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::from_seed(seed);
        if let Some(sessions) = &self.sessions {
            plan.sessions.retain(|session| sessions.contains(session));
        }
        plan.clients = self.clients.unwrap_or(plan.clients).max(1);
        plan.requests = self.requests.unwrap_or(plan.requests);
        if let Some(troubles) = &self.troubles {
            plan.troubles.retain(|trouble| troubles.contains(&trouble.number));
        }
        self.without.iter().for_each(|part| remove(&mut plan, *part));
        plan.salt = self.salt;
        plan
    }
}

fn remove(plan: &mut Plan, part: Part) {
    match part {
        Part::Troubles => plan.troubles.clear(),
        Part::Victims => {
            plan.victims.clear();
            plan.troubles.retain(|trouble| !trouble.costs_redundancy());
        }
        Part::DeathsInOpening => plan.deaths_in_opening = false,
        Part::Deaths => plan.deaths = false,
        Part::Deletes => plan.deletes = false,
        Part::Prefill => plan.prefill = false,
        Part::Models => plan.modelled = false,
        Part::Limits => plan.tails.limited = false,
        Part::Growth => plan.tails.grows = false,
        Part::Looks => plan.tails.looks = false,
        _ if plan.mix.is_only(part) => {}
        _ => *share(&mut plan.mix, part).expect("every other part is a share") = 0,
    }
}

/// The share of requests that a part stands for.
fn share(mix: &mut Mix, part: Part) -> Option<&mut u64> {
    Some(match part {
        Part::Small => &mut mix.small,
        Part::Page => &mut mix.page,
        Part::Block => &mut mix.block,
        Part::Stripe => &mut mix.stripe,
        Part::Sequential => &mut mix.sequential,
        Part::Reads => &mut mix.read,
        Part::Trims => &mut mix.trim,
        Part::Zeroes => &mut mix.zeroes,
        Part::Flushes => &mut mix.flush,
        Part::Fua => &mut mix.fua,
        Part::Hot => &mut mix.hot,
        Part::Think => &mut mix.think_micros,
        _ => return None,
    })
}

impl Mix {
    /// True if nothing else is asked.
    fn is_only(&self, part: Part) -> bool {
        let mut without = self.clone();
        share(&mut without, part).is_some_and(|share| std::mem::take(share) > 0)
            && without.sum() == 0
    }
}

impl Plan {
    /// True if there is anything of the kind that can be left out.
    pub fn has(&self, part: Part) -> bool {
        match part {
            Part::Troubles => !self.troubles.is_empty(),
            Part::Victims => !self.victims.is_empty(),
            Part::DeathsInOpening => self.deaths_in_opening,
            Part::Deaths => self.deaths,
            Part::Deletes => self.deletes,
            Part::Prefill => self.prefill,
            Part::Models => self.modelled,
            Part::Limits => self.tails.limited,
            Part::Growth => self.tails.grows,
            Part::Looks => self.tails.looks,
            _ if self.mix.is_only(part) => false,
            _ => share(&mut self.mix.clone(), part).is_some_and(|share| *share > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        reduction: Reduction,
    }

    #[test]
    fn what_is_printed_is_what_is_understood() {
        let reduction = Reduction {
            sessions: Some(vec![2, 4]),
            clients: Some(1),
            requests: Some(37),
            troubles: Some(vec![3]),
            without: vec![Part::DeathsInOpening, Part::Trims],
            salt: 9,
        };
        for reduction in [reduction, Reduction::default()] {
            let text = format!("sim{reduction}");
            let words = Words::parse_from(text.split(' '));
            assert_eq!(words.reduction, reduction, "{text}");
        }
    }

    #[test]
    fn a_reduced_plan_has_less_of_what_was_named_and_all_of_the_rest() {
        let seed = (10_000..).find(|&seed| Plan::from_seed(seed).sessions.len() == 4);
        let seed = seed.expect("there are such worlds");
        let whole = Plan::from_seed(seed);
        let sessions = Some(vec![2, 3]);
        let without = vec![Part::Reads, Part::Victims];
        let plan = Reduction { sessions, without, ..Reduction::default() }.plan(seed);
        assert_eq!((plan.sessions, plan.mix.read), (vec![2, 3], 0));
        assert!(plan.victims.is_empty());
        assert_eq!((plan.requests, plan.mix.page), (whole.requests, whole.mix.page));
    }
}
