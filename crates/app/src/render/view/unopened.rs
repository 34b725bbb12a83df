//! What is known of a pool that could not be opened: what the labels of its drives say.

use format::{Member, MemberState};

use super::{
    Backlog, Capacity, Counters, Drive, DriveCounters, Handling, Health, Memory,
    OperationLatencies, Pool, Rebalance, Rebuild, Recovery, Scrub, Space, Spikes,
};
use crate::drives::scan::Group;
use crate::error::Failure;

impl Pool {
    /// A pool that was open until then.
    pub fn given_up(self, why: &Failure) -> Pool {
        let (reason, action) = (Some(why.what.clone()), why.hint.clone());
        Pool { state: Health::Failed, reason, action, ..self }
    }

    /// What labels don't say is 0 or empty.
    pub fn unopened(group: &Group, why: &Failure) -> Pool {
        let label = group.first();
        let fusion = if group.wants_detection() { "fusion" } else { "fusion-nd" };
        let hint = why.hint.as_ref().map_or_else(String::new, |hint| format!("{hint}; then "));
        Pool {
            name: group.name.clone(),
            uuid: group.pool.to_string(),
            state: Health::Failed,
            reason: Some(format!("it could not be opened: {}", why.what)),
            action: Some(format!("{hint}reload or restart the server, which tries again")),
            scheme: group.scheme().map_or(fusion, |scheme| scheme.name()).to_owned(),
            block_size: label.block_size,
            parity: 0,
            width: 0,
            layout: String::new(),
            conversion: String::new(),
            replicated_percent: 0,
            journal_fill_percent: 0,
            redundancy_margin: 0,
            surviving_copies: None,
            hedge_budget: None,
            hedge_budget_bytes: None,
            write_hedge_budget: None,
            write_hedge_budget_bytes: None,
            loaded: None,
            read_only: false,
            space: Space::default(),
            capacity: Capacity::Enough,
            drives: (0..).zip(group.members()).map(|of| drive(group, of)).collect(),
            volumes: Vec::new(),
            counters: Counters::default(),
            waits: Vec::new(),
            memory: Memory::default(),
            recovery: Recovery::default(),
            spike_handling: Handling::default(),
            backlog: Backlog::default(),
            resync_stripes: 0,
            marks: 0,
            checksums: false,
            scrub: Scrub { state: "never".to_owned(), ..Scrub::default() },
            lost_pages: 0,
            rebalance: Rebalance { state: "idle".to_owned(), ..Rebalance::default() },
            rebuild: Rebuild::default(),
            scheme_counters: Vec::new(),
        }
    }
}

fn drive(group: &Group, (index, member): (u16, &Member)) -> Drive {
    let found = group.found(member.drive);
    let state = match (member.state, found) {
        (MemberState::Vacated, _) => "vacated",
        (MemberState::Failed, _) => "failed",
        (MemberState::Missing, _) | (_, None) => "missing",
        (MemberState::Active | MemberState::Leaving, Some(_)) => "active",
        (MemberState::Restoring, Some(_)) => "restoring",
    };
    Drive {
        index,
        uuid: member.drive.to_string(),
        name: found.map_or_else(String::new, |name| name.path().display().to_string()),
        state: state.to_owned(),
        size: member.size,
        counters: DriveCounters::default(),
        takes_discards: None,
        health: String::new(),
        slow: None,
        decided: String::new(),
        spikes: Spikes::default(),
        latency: OperationLatencies::default(),
        under_way: 0,
        restoring: None,
        replacing: None,
    }
}
