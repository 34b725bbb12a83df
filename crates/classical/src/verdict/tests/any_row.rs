//! Any write, cut short anywhere, with anything rotten or gone beside: against what the verdict
//! promises.

use super::*;

pub const CASES: u32 = 2000;

#[derive(Clone, Debug)]
struct Case {
    shape: (Redundancy, usize),
    /// Sectors of the chunk that are written of each data member.
    pieces: Vec<Option<(u64, u64)>>,
    /// All of the hull is written: no partial parity was logged.
    full: bool,
    is: Vec<Is>,
    suspects: Vec<bool>,
    /// Without: nobody knows what rotted, so nothing did.
    has_sums: bool,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let shape =
        prop_oneof![Just(RAID5), Just(RAID6), Just((Redundancy::ParityDrive, 3)), Just(RAID6)];
    let whole = (SECTORS, 2 * SECTORS);
    let piece = prop_oneof![
        1 => Just(Some(whole)),
        1 => (0..3 * SECTORS, 1..2 * SECTORS)
            .prop_map(|(start, len)| Some((start, (start + len).min(3 * SECTORS)))),
        2 => Just(None),
    ];
    let is = prop_oneof![
        6 => Just(Old), 6 => Just(New), 1 => Just(Torn), 1 => Just(Rotten), 2 => Just(Gone),
    ];
    let pieces = prop::collection::vec(piece, 3);
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.8), any::<u64>());
    let suspects = prop::collection::vec(any::<bool>(), 5);
    (shape, pieces, prop::collection::vec(is, 5), suspects, flags).prop_map(
        |(shape, pieces, is, suspects, (full, has_sums, seed))| Case {
            shape,
            pieces,
            full,
            is,
            suspects,
            has_sums,
            seed,
        },
    )
}

/// A case as the drives show it.
struct Crashed {
    write: Write,
    seen: Vec<Option<Vec<u8>>>,
    /// Of a drive that rotted.
    suspects: Vec<bool>,
    rotten: Vec<bool>,
    has_sums: bool,
}

impl Crashed {
    fn of(case: &Case) -> Option<Crashed> {
        let data = Write::new(case.shape, vec![Piece { position: 0, start: 0, end: 1 }], 0).data();
        let mut pieces: Vec<Piece> = Vec::new();
        for (position, own) in case.pieces.iter().take(data).enumerate() {
            let own = if case.full { case.pieces[0] } else { *own };
            let of = |(start, end): (u64, u64)| (start * SECTOR, end * SECTOR);
            pieces.extend(own.map(of).map(|(start, end)| Piece { position, start, end }));
        }
        if pieces.is_empty() {
            return None;
        }
        let mut write = Write::new(case.shape, pieces, case.seed);
        if case.full {
            write.partial.iter_mut().for_each(Vec::clear);
        }
        let mut rng = Rng::new(case.seed);
        let is_of = |member: usize| match case.is[member] {
            Rotten if !case.has_sums => Old,
            is => is,
        };
        let width = write.grid.width;
        let seen = (0..width).map(|at| write.seen(at, is_of(at), &mut rng)).collect();
        let rotten: Vec<bool> = (0..width).map(|at| is_of(at) == Rotten).collect();
        let suspects = (0..width).map(|at| rotten[at] && case.suspects[at]).collect();
        Some(Crashed { write, seen, suspects, rotten, has_sums: case.has_sums })
    }

    fn row(&self) -> Vec<Known<'_>> {
        let mut row = self.write.row(&self.seen, &self.suspects);
        if !self.has_sums {
            row.iter_mut().for_each(|known| (known.old, known.new) = (UNKNOWN, UNKNOWN));
        }
        row
    }

    fn is(&self, member: usize, page: &[Vec<u8>]) -> bool {
        self.seen[member].as_ref() == Some(&page[member])
    }

    /// What is gone, or wrong without being written; of suspects, also what is neither old nor new.
    fn missing(&self, suspects: bool) -> Vec<usize> {
        let write = &self.write;
        let is_missing = |at: &usize| {
            let wrong = !self.is(*at, &write.old) && !self.is(*at, &write.new);
            let counts = !write.touches(*at) || suspects && self.suspects[*at];
            self.seen[*at].is_none() || self.has_sums && wrong && counts
        };
        (0..write.grid.width).filter(is_missing).collect()
    }

    /// All of the row after the write, or before it, as soon as no more differs than parity bears.
    fn check_whole(&self, right: Option<&[Right]>) {
        let (write, width) = (&self.write, self.write.grid.width);
        let bears = |pages: &[Vec<u8>]| {
            (0..width).filter(|at| !self.is(*at, pages)).count() <= write.grid.parity()
        };
        let expected = match (bears(&write.new), bears(&write.old)) {
            (true, _) => Some(all(&write.new)),
            (_, true) => Some(all(&write.old)),
            _ => None,
        };
        assert_eq!(right, expected.as_deref());
    }

    /// What was not being written is what it was, or lost.
    fn check_untouched(&self, right: &[Right]) {
        for (at, own) in right.iter().enumerate().take(self.write.data()) {
            if let (false, Some(page)) = (self.write.touches(at), &own.page) {
                assert!(*page == self.write.old[at], "page {at} was not being written");
            }
        }
    }

    /// Rot in what is being written looks like what is being written: what follows from its other
    /// bytes is wrong, or lost where a checksum tells.
    fn is_blind(&self, missing: &[usize]) -> bool {
        let mut counted = (0..self.rotten.len()).filter(|at| !missing.contains(at));
        !missing.is_empty() && counted.any(|at| self.rotten[at] && self.write.touches(at))
    }

    fn check_mixed(&self, right: &[Right]) {
        let (write, parity) = (&self.write, self.write.grid.parity());
        let strict = self.missing(true);
        let missing = if strict.len() > parity { self.missing(false) } else { strict };
        assert!(missing.len() <= parity);
        if self.is_blind(&missing) {
            return;
        }
        let page = |at: usize| right[at].page.as_ref().expect("it follows");
        for (at, told) in right.iter().enumerate().take(write.data()) {
            let written = write.written(at);
            assert_eq!(told.sum, sum_of(page(at)));
            if !missing.contains(&at) {
                assert!(Some(page(at)) == self.seen[at].as_ref(), "page {at} stays as it is");
                continue;
            }
            for byte in 0..PAGE as usize {
                let (own, old) = (page(at)[byte], write.old[at][byte]);
                let others =
                    (0..write.data()).filter(|other| write.written(*other).contains(&byte));
                match (written.contains(&byte), others.count()) {
                    (false, _) => assert_eq!(own, old, "byte {byte} of {at} was not written"),
                    (true, 1) => {
                        assert!(own == old || own == write.new[at][byte], "byte {byte} of {at}");
                    }
                    _ => {}
                }
            }
        }
        let data = (0..write.data()).map(|at| page(at).clone()).collect();
        let all = with_parity(&write.grid, data);
        for (at, wanted) in all.iter().enumerate().skip(write.data()) {
            assert!(page(at) == wanted, "parity {at} is that of the data");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    /// A row is whole as it was before or after the write, never a mixture, as soon as that
    /// follows; in the middle what is written stays, and bytes beside it are what they were, as
    /// long as no more is missing than parity bears. Whatever is missing, a page that was not
    /// being written never gets bytes that it did not have.
    #[test]
    fn no_verdict_breaks_its_promise(case in cases()) {
        let Some(crashed) = Crashed::of(&case) else { return Ok(()) };
        let row = crashed.row();
        let grid = &crashed.write.grid;
        let whole = whole(grid, &row);
        if crashed.has_sums {
            crashed.check_whole(whole.as_deref());
        }
        if let Some(right) = whole {
            crashed.check_untouched(&right);
            return Ok(());
        }
        let mixed = crashed.write.mixed(&row, &crashed.seen);
        prop_assert_eq!(mixed.is_some(), crashed.missing(false).len() <= grid.parity());
        match mixed {
            Some(right) => {
                crashed.check_untouched(&right);
                crashed.check_mixed(&right);
            }
            None => crashed.check_untouched(&given_up(&row)),
        }
    }

    /// More is gone than parity bears: what is there and right stays.
    #[test]
    fn what_is_given_up_is_what_is_not_there(case in cases()) {
        let Some(crashed) = Crashed::of(&case).filter(|own| own.has_sums) else { return Ok(()) };
        let right = given_up(&crashed.row());
        let missing = crashed.missing(false);
        for (at, Right { page, sum }) in right.iter().enumerate() {
            let stays = crashed.seen[at].as_ref().filter(|_| !missing.contains(&at));
            prop_assert_eq!(page.as_ref(), stays);
            prop_assert_eq!(*sum, page.as_ref().map_or(LOST, |page| sum_of(page)));
        }
    }
}
