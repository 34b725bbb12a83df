//! Pairs of drives after a crash, written to since the last flush: a page is what was flushed or
//! written since, or fails to be read; and it fails only if a copy has rotted.

use super::*;

/// A pair of drives that tear no page.
fn whole_pair(seed: u64) -> World {
    World::on((Redundancy::Mirror, 2, 1), seed, 4096)
}

/// A page is flushed, and written over on both drives of a pair, once or several times, without a
/// flush. Then power fails, and one copy rots, which nothing tells from the new content: the
/// garbage came out if it was on the first drive. Without the rot everything is there.
#[test]
fn rot_of_what_was_not_flushed_is_no_content() {
    for (seed, times, rotten) in (80..)
        .zip([1, 2, 3, 5])
        .flat_map(|(seed, times)| [None, Some(0), Some(1)].map(|rotten| (seed, times, rotten)))
    {
        let mut world = whole_pair(seed);
        let at = world.address(7, 0, 1);
        let mut contents = Vec::new();
        for _ in 0..times {
            contents.push(world.cached(at));
        }
        world.truth[at as usize..][..PAGE as usize].copy_from_slice(&contents[times - 1]);
        for mode in [CutMode::KeepAll, CutMode::Random, CutMode::DropAll] {
            world.env.crash();
            let mut fate = Rng::new(world.rng.next_u64());
            world.disks.iter().for_each(|disk| disk.power_cut(&mut fate, mode));
            if let (Some(member), CutMode::KeepAll) = (rotten, mode) {
                world.corrupt(7, member, 1);
            }
            world.open(&[]);
            let read = world.env.block_on(world.array.read(at, PAGE));
            match read {
                Ok(read) => assert!(read[..] == contents[times - 1][..], "{seed} {rotten:?}"),
                Err(ArrayError::PageLost { .. }) => assert!(rotten.is_some(), "{seed}"),
                Err(error) => panic!("{error}"),
            }
            world.settle();
        }
        assert_eq!(world.unread().len(), usize::from(rotten.is_some()));
        world.write(at, PAGE);
        assert_eq!(world.unread(), BTreeSet::new());
    }
}

/// The same page again and again, and power fails at any write: with whatever cached writes reached
/// the drives each copy is one of them, and some checksum or the other copy tells which.
#[test]
fn a_power_cut_alone_loses_no_page_of_a_pair() {
    for seed in 100..160 {
        let mut world = whole_pair(seed);
        let at = world.address(7, 0, 1);
        let flushed = world.truth[at as usize..][..PAGE as usize].to_vec();
        let mut contents = vec![flushed];
        for _ in 0..6 {
            let limit = world.env.writes_issued() + 1 + world.rng.below(20);
            // A page or its whole stripe, which need not be looked at first.
            let news: Vec<(u64, Vec<u8>)> = (0..6)
                .map(|_| {
                    let whole = world.rng.chance(1, 2);
                    let (at, len) = if whole { (at - PAGE, CHUNK) } else { (at, PAGE) };
                    let mut bytes = vec![0; len as usize];
                    world.rng.fill(&mut bytes);
                    (at, bytes)
                })
                .collect();
            let array = world.array.clone();
            let work = async {
                for (at, bytes) in &news {
                    array.write(*at, Buf::from_slice(bytes), false).await.expect("writes");
                }
            };
            world.env.run_until(work, || world.env.writes_issued() >= limit);
            let page_of = |(start, bytes): &(u64, Vec<u8>)| {
                bytes[(at - start) as usize..][..PAGE as usize].to_vec()
            };
            contents.extend(news.iter().map(page_of));
            world.cut(&[]);
            // Else the stripe is still to be looked at when it is written again.
            if world.rng.chance(1, 2) {
                continue;
            }
            let read = world.env.block_on(world.array.read(at, PAGE));
            let read = read.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(contents.iter().any(|own| own[..] == read[..]), "seed {seed}: garbage");
            contents = vec![read.to_vec()];
        }
    }
}

/// Power fails when one drive of a pair has a page of the checksum log and the other one, which is
/// slow, not yet; then the first rots. Nothing speaks against the slow one by that: what it has is
/// what was flushed. Where the page of the log was a new one, rot was taken for the last write.
#[test]
fn a_drive_that_is_behind_by_a_page_of_the_log_is_believed() {
    // A page of the log has room for the checksums of 166 writes to a pair: one of these is the
    // first of a new one.
    for before in 0..170 {
        let mut world = whole_pair(before);
        let (at, beside) = (world.address(7, 0, 1), world.address(9, 0, 0));
        world.write(at, PAGE);
        (0..before).for_each(|_| world.write(beside, PAGE));
        let (drive, place) = world.place(7, 0, 1);
        for slow in [0..world.data, place..place + PAGE] {
            let hang = Fault::new(Effect::Hang(Some(Nanos::from_secs(1))));
            let hang = hang.on(Operation::Write).within(slow);
            world.faults[drive].arm(world.env.now(), hang).expect("it makes sense");
        }
        for (at, fua) in [(at, false), (beside, true)] {
            let array = world.array.clone();
            let new = Buf::from_slice(&[7; PAGE as usize]);
            world.env.spawn(async move { drop(array.write(at, new, fua).await) });
            world.env.block_on(world.env.sleep_until(world.env.now() + Nanos::from_millis(20)));
        }
        world.env.crash();
        world.faults[drive].release_all();
        let mut fate = Rng::new(before);
        world.disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::KeepAll));
        world.corrupt(7, 1, 1);
        world.open(&[]);
        match world.read(at, PAGE) {
            Ok(flushed) => assert!(flushed, "{before}: garbage"),
            Err(error) => panic!("{before}: {error}"),
        }
    }
}
