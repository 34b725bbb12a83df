//! Drives that were doubted once.

use super::*;

/// A drive that had rotted is put right, and everything agrees: with the next crash nobody doubts
/// it any more. Else what another drive loses then would be neither old nor new, although a drive
/// that is whole has the parity (a storm of `tole-raid`).
#[test]
fn who_was_put_right_is_believed_after_the_next_crash() {
    for seed in 0..8 {
        let mut world = World::new(RAID5, 80 + seed);
        let stripe = 4 + seed;
        let (parity, at) = world.place(stripe, 3, 0);
        let (data, own) = world.place(stripe, 0, 0);
        let intents = |world: &World, disk: usize| -> Vec<u64> {
            let is_one = |at: &u64| world.disks[disk].peek(*at, 8) == b"STDYINTN";
            (0..SIZE).step_by(PAGE as usize).filter(is_one).collect()
        };
        world.env.crash();
        for page in intents(&world, parity) {
            world.disks[parity].corrupt(page, PAGE, seed);
        }
        world.open(&[]);
        world.settle();
        let doubted = |page| world.disks[data].peek(page + 56, 8);
        let newest = intents(&world, data).into_iter().max_by_key(|page| {
            let sequence = world.disks[data].peek(page + 32, 8);
            u64::from_le_bytes(sequence.try_into().expect("8 bytes"))
        });
        assert_eq!(doubted(newest.expect("there is one")), [0; 8], "all agree");
        // The record of the next write is there, and nothing else of it.
        for (disk, at) in [(parity, at), (data, own)] {
            let hang = Fault::new(Effect::Hang(Some(Nanos::from_secs(1))));
            let hang = hang.on(Operation::Write).within(at..at + PAGE);
            world.faults[disk].arm(world.env.now(), hang).expect("it makes sense");
        }
        let (array, page) = (world.array.clone(), world.address(stripe, 0, 0));
        world.env.spawn(async move {
            drop(array.write(page, Buf::from_slice(&[7; PAGE as usize]), true).await);
        });
        let soon = world.env.now() + Nanos::from_millis(100);
        world.env.block_on(world.env.sleep_until(soon));
        world.env.crash();
        let mut fate = Rng::new(seed);
        world.disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::DropAll));
        world.disks[data].corrupt(own, PAGE, seed);
        world.open(&[]);
        world.settle();
        assert_eq!(world.unread(), BTreeSet::new(), "seed {seed}");
    }
}
