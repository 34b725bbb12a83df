//! What happened in a world, told so that a person can follow one page through it.
//!
//! Recorded on replay only. Requests are kept with the sectors they touch: of the many, the
//! story of a failure tells those that touched the page that is wrong, and counts the others.

use std::collections::VecDeque;
use std::fmt::Write;

use io::Nanos;

use crate::failure::Spot;

/// Events kept: the end of the story is what matters, and a world has some ten thousands.
const EVENTS_MAX: usize = 1 << 17;
/// Lines of a story that is told.
const LINES_MAX: usize = 100;
const PAGE_SECTORS: u64 = 8;

/// Sectors of a volume that a request touches.
#[derive(Clone, Debug)]
pub struct Extent {
    pub volume: String,
    pub first: u64,
    pub count: u64,
}

struct Event {
    at: Nanos,
    what: String,
    /// `None`: it concerns everybody.
    touches: Option<Extent>,
}

#[derive(Default)]
pub struct Story {
    recording: bool,
    events: VecDeque<Event>,
    forgotten: u64,
}

impl Extent {
    /// True if it touches the page of the spot.
    fn touches(&self, spot: &Spot) -> bool {
        let page = spot.sector / PAGE_SECTORS * PAGE_SECTORS;
        let before = self.first + self.count <= page;
        self.volume == spot.volume && !before && self.first < page + PAGE_SECTORS
    }
}

impl Story {
    pub fn record(&mut self) {
        self.recording = true;
    }

    pub fn is_recording(&self) -> bool {
        self.recording
    }

    pub fn tell(&mut self, at: Nanos, what: String, touches: Option<Extent>) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
            self.forgotten += 1;
        }
        self.events.push_back(Event { at, what, touches });
    }

    /// All of it, for comparing runs.
    pub fn whole(&self) -> String {
        let mut text = String::new();
        for event in &self.events {
            line(&mut text, event);
        }
        text
    }

    /// What matters for the page at `spot`; without a spot, what concerns everybody.
    pub fn about(&self, spot: Option<&Spot>) -> String {
        let matters = |event: &Event| match (&event.touches, spot) {
            (None, _) => true,
            (Some(extent), Some(spot)) => extent.touches(spot),
            (Some(_), None) => false,
        };
        // Without a page to follow, the last requests are as good as any.
        let tail = self.events.len().saturating_sub(if spot.is_some() { 0 } else { 12 });
        let chosen: Vec<usize> = (0..self.events.len())
            .filter(|&at| matters(&self.events[at]) || spot.is_none() && at >= tail)
            .collect();
        let told = &chosen[chosen.len().saturating_sub(LINES_MAX)..];
        let mut text = String::new();
        let mut next =
            told.first().map_or(0, |&first| if chosen.len() > told.len() { first } else { 0 });
        let before = self.forgotten as usize + next;
        if before > 0 {
            let _ = writeln!(text, "{:>14}   {before} events before", "...");
        }
        for &at in told {
            if at > next {
                let _ = writeln!(text, "{:>14}   {} events elsewhere", "...", at - next);
            }
            line(&mut text, &self.events[at]);
            next = at + 1;
        }
        if self.events.len() > next {
            let rest = self.events.len() - next;
            let _ = writeln!(text, "{:>14}   {rest} events elsewhere", "...");
        }
        text
    }
}

fn line(text: &mut String, event: &Event) {
    let (micros, nanos) = (event.at.0 / 1000, event.at.0 % 1000);
    let _ = writeln!(text, "{micros:>8}.{nanos:03} us {}", event.what);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(story: &mut Story, at: u64, volume: &str, first: u64, count: u64) {
        let extent = Extent { volume: volume.into(), first, count };
        story.tell(Nanos(at), format!("write {volume} {first}+{count}"), Some(extent));
    }

    #[test]
    fn a_story_follows_a_page_and_counts_the_rest() {
        let mut story = Story::default();
        story.tell(Nanos(1), "the pool is opened".into(), None);
        request(&mut story, 2, "a", 0, 8);
        request(&mut story, 3, "a", 16, 1);
        request(&mut story, 4, "b", 8, 8);
        request(&mut story, 5, "a", 15, 1);
        story.tell(Nanos(6), "the power goes".into(), None);
        let spot = Spot { volume: "a".into(), sector: 9 };
        let told = story.about(Some(&spot));
        let lines: Vec<&str> = told.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "0.001 us the pool is opened",
                "...   3 events elsewhere",
                "0.005 us write a 15+1",
                "0.006 us the power goes"
            ]
        );
        assert_eq!(story.whole().lines().count(), 6);
    }

    #[test]
    fn a_long_story_tells_its_end() {
        let mut story = Story::default();
        for at in 0..1000 {
            story.tell(Nanos(at), format!("event {at}"), None);
        }
        let told = story.about(None);
        assert!(told.lines().next().is_some_and(|line| line.contains("900 events before")));
        assert!(told.ends_with("event 999\n"));
    }
}
