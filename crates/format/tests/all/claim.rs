//! Claims of hosts on drives.

use format::claim::HOST_NAME_MAX;
use format::{Claim, ClaimState, FormatError, PAGE, SECTOR, Seen, Uuid};

use crate::samples;

fn claim(name: &str) -> Claim {
    let mut claim = samples::claim();
    claim.holder.name = name.to_owned();
    claim
}

#[test]
fn what_is_written_is_read() {
    for name in ["", "alpha", &"x".repeat(HOST_NAME_MAX)] {
        let page = claim(name).encode();
        assert_eq!(page.len(), PAGE);
        assert_eq!(Claim::decode(&page), Ok(claim(name)));
    }
    let released = Claim { state: ClaimState::Released, ..claim("alpha") };
    assert_eq!(Claim::decode(&released.encode()), Ok(released));
}

#[test]
fn a_beat_counts_with_its_own_claim_only() {
    let own = claim("alpha");
    let beat = Claim { beat: 9, state: ClaimState::Released, ..own.clone() };
    let both = |claim: &Claim, beat: &Claim| [claim.encode(), beat.encode()].concat();
    let seen = |claim: &Claim, displaced: Option<&Claim>| {
        let displaced = displaced.map(|old| old.holder.clone());
        Ok(Some(Seen { claim: claim.clone(), displaced }))
    };
    assert_eq!(Seen::of_pages(&both(&own, &beat)), seen(&beat, None));
    let other = Claim { session: Uuid([7; 16]), ..own.clone() };
    assert_eq!(Seen::of_pages(&both(&other, &beat)), seen(&other, None), "it was let go");
    assert_eq!(Seen::of_pages(&both(&other, &own)), seen(&other, Some(&own)));
    assert_eq!(Seen::of_pages(&[own.encode(), vec![0; PAGE]].concat()), seen(&own, None));
    assert_eq!(Seen::of_pages(&[vec![0; PAGE], beat.encode()].concat()), Ok(None));
}

#[test]
fn a_long_name_is_cut_between_characters() {
    let read = Claim::decode(&claim(&"ä€".repeat(40)).encode()).unwrap();
    assert_eq!(read.holder.name, "ä€".repeat(12) + "ä");
}

#[test]
fn everything_that_is_told_lies_in_one_sector() {
    let page = claim(&"x".repeat(HOST_NAME_MAX)).encode();
    assert!(page[SECTOR..].iter().all(|byte| *byte == 0));
}

#[test]
fn damage_is_noticed_and_never_panics() {
    let page = claim("alpha").encode();
    for at in 0..200 {
        let mut damaged = page.clone();
        damaged[at] ^= 0x40;
        assert!(Claim::decode(&damaged).is_err(), "byte {at}");
    }
    assert_eq!(Claim::decode(&page[..100]), Err(FormatError::Truncated));
    assert_eq!(Claim::decode(&[0; PAGE]), Err(FormatError::BadMagic));
}
