//! What claims found on drives mean to somebody who wants the drives.

use std::rc::Rc;

use format::{Claim, ClaimState, Holder, Seen, Uuid};

/// Who wants drives, and what it can find out about others.
#[derive(Clone)]
pub struct Claimant {
    pub holder: Holder,
    /// Whether a process of this boot and this namespace of processes is still there.
    pub lives: Rc<dyn Fn(&Holder) -> bool>,
    /// Seconds since 1970, for people.
    pub wall_secs: Rc<dyn Fn() -> u64>,
}

impl Claimant {
    /// As it is written now.
    pub(super) fn claim(&self, state: ClaimState, session: Uuid, beat: u64) -> Claim {
        let (holder, seen_secs) = (self.holder.clone(), (self.wall_secs)());
        Claim { state, session, holder, beat, seen_secs }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody has them.
    Free,
    /// Nobody has them, but somebody was taking them away from who may not know it yet.
    Lapse,
    /// They may be had if this one shows no sign of life for a while.
    Watch(Box<Claim>),
    /// They are not to be had.
    Held(Box<Claim>),
}

impl Verdict {
    fn weight(&self) -> u8 {
        match self {
            Verdict::Free => 0,
            Verdict::Lapse => 1,
            Verdict::Watch(_) => 2,
            Verdict::Held(_) => 3,
        }
    }
}

/// Of claims on several drives the gravest counts; of equals the one that was there last.
/// `take_over`: the operator says that the other host is gone.
pub fn judge<'a>(
    found: impl IntoIterator<Item = &'a Seen>,
    who: &Claimant,
    take_over: bool,
) -> Verdict {
    let verdicts = found.into_iter().map(|seen| (one(seen, who, take_over), seen.claim.seen_secs));
    let gravest = verdicts.max_by_key(|(verdict, seen)| (verdict.weight(), *seen));
    gravest.map_or(Verdict::Free, |(verdict, _)| verdict)
}

fn one(Seen { claim, displaced }: &Seen, who: &Claimant, take_over: bool) -> Verdict {
    let (own, other) = (&who.holder, &claim.holder);
    let (held, watch) = (Verdict::Held(claim.clone().into()), Verdict::Watch(claim.clone().into()));
    if claim.state == ClaimState::Released {
        return Verdict::Free;
    }
    if other.host != own.host {
        return if take_over { watch } else { held };
    }
    if !is_near(other, own) {
        // A machine that was started again has lost all processes, but two machines can be copies
        // of each other.
        return watch;
    }
    // It is ourselves that held it before: the drives were let go, or we could not have them.
    let is_own = (other.process, other.started) == (own.process, own.started);
    if !is_own && (who.lives)(other) {
        // Its kernel's locks are ours by now: it has let the drive go, without saying so there.
        return if take_over { watch } else { held };
    }
    // It was taking them from somebody, and has shown that it waits; or it wrote over somebody who
    // is not known to be gone.
    let is_gone = |old: &Holder| is_near(old, own) && !(who.lives)(old);
    let others_may_not_know = claim.beat > 0 || displaced.as_ref().is_some_and(|old| !is_gone(old));
    let lapses = claim.state == ClaimState::Taking && others_may_not_know;
    if lapses { Verdict::Lapse } else { Verdict::Free }
}

/// Numbers of processes mean the same to both.
fn is_near(other: &Holder, own: &Holder) -> bool {
    (other.host, other.boot, other.namespace) == (own.host, own.boot, own.namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(host: u8, boot: u8, process: u32) -> Holder {
        Holder {
            host: Uuid([host; 16]),
            boot: Uuid([boot; 16]),
            process,
            namespace: 1,
            started: 100,
            name: format!("h{host}"),
        }
    }

    fn claim(holder: Holder) -> Claim {
        Claim { state: ClaimState::Held, session: Uuid([9; 16]), holder, beat: 1, seen_secs: 50 }
    }

    /// Process 7 lives, no other does.
    fn who() -> Claimant {
        let lives = Rc::new(|other: &Holder| (other.process, other.started) == (7, 100));
        Claimant { holder: holder(1, 1, 5), lives, wall_secs: Rc::new(|| 60) }
    }

    fn seen(claim: &Claim) -> Seen {
        Seen { claim: claim.clone(), displaced: None }
    }

    fn verdict(claim: &Claim, take_over: bool) -> &'static str {
        match judge([&seen(claim)], &who(), take_over) {
            Verdict::Free => "free",
            Verdict::Lapse => "lapse",
            Verdict::Watch(_) => "watch",
            Verdict::Held(_) => "held",
        }
    }

    #[test]
    fn who_has_drives_depends_on_what_can_be_known_of_it() {
        let of = |holder: Holder| {
            let claim = claim(holder);
            [verdict(&claim, false), verdict(&claim, true)]
        };
        assert_eq!(of(holder(1, 1, 7)), ["held", "watch"], "a process that lives, here");
        assert_eq!(of(holder(1, 1, 8)), ["free", "free"], "one that is gone");
        let later = Holder { started: 99, ..holder(1, 1, 7) };
        assert_eq!(of(later), ["free", "free"], "a later one has its number");
        let contained = Holder { namespace: 2, ..holder(1, 1, 7) };
        assert_eq!(of(contained), ["watch", "watch"], "in a container");
        assert_eq!(of(holder(1, 2, 7)), ["watch", "watch"], "from before a reboot");
        assert_eq!(of(holder(2, 1, 7)), ["held", "watch"], "on another host");
        assert_eq!(of(holder(1, 1, 5)), ["free", "free"], "the process that asks");
        let taking = |holder| Claim { state: ClaimState::Taking, ..claim(holder) };
        assert_eq!(verdict(&taking(holder(1, 1, 8)), false), "lapse", "it has shown beats");
        let begun = Claim { beat: 0, ..taking(holder(1, 1, 8)) };
        let over = |displaced: Option<Holder>| {
            judge([&Seen { claim: begun.clone(), displaced }], &who(), false)
        };
        assert_eq!(over(None), Verdict::Free, "there was nobody");
        assert_eq!(over(Some(holder(1, 1, 9))), Verdict::Free, "he is gone");
        assert_eq!(over(Some(holder(1, 1, 7))), Verdict::Lapse, "he lives");
        assert_eq!(over(Some(holder(2, 1, 9))), Verdict::Lapse, "who knows");
        assert_eq!(verdict(&taking(holder(1, 1, 7)), false), "held");
        let released = Claim { state: ClaimState::Released, ..claim(holder(2, 2, 7)) };
        assert_eq!(verdict(&released, false), "free");
        assert_eq!(judge([], &who(), false), Verdict::Free);
    }

    #[test]
    fn the_gravest_of_several_counts() {
        let (gone, here, elsewhere) =
            (claim(holder(1, 1, 8)), claim(holder(1, 2, 7)), claim(holder(2, 1, 7)));
        let [gone, here, elsewhere] = [&gone, &here, &elsewhere].map(seen);
        let Verdict::Held(by) = judge([&gone, &elsewhere, &here], &who(), false) else {
            panic!("another host has one of the drives");
        };
        assert_eq!(by.holder.name, "h2");
        assert!(matches!(judge([&here, &gone], &who(), false), Verdict::Watch(_)));
    }
}
