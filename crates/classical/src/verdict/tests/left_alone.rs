//! Pages of which some bytes were being written: the others are what they were, whatever rotted.

use super::*;

#[derive(Clone, Debug)]
struct Case {
    shape: (Redundancy, usize),
    /// Sectors of the page that are written of each data member.
    pieces: Vec<Option<(u64, u64)>>,
    is: Vec<Is>,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let shape = prop_oneof![Just(RAID5), Just(RAID6)];
    let piece = prop::option::weighted(0.8, (0..SECTORS, 1..SECTORS));
    let is = prop_oneof![3 => Just(Old), 3 => Just(New), 6 => Just(Torn), 4 => Just(Rotten)];
    let (pieces, is) = (prop::collection::vec(piece, 3), prop::collection::vec(is, 5));
    (shape, pieces, is, any::<u64>()).prop_map(|(shape, pieces, is, seed)| Case {
        shape,
        pieces,
        is,
        seed,
    })
}

impl Case {
    /// Its pieces reach from the beginning of the page to its end: a record tells of it as a whole.
    fn write(&self) -> Option<Write> {
        let of = |(position, own): (usize, &Option<(u64, u64)>)| {
            let (start, len) = (*own)?;
            let end = (start + len).min(SECTORS);
            Some(Piece { position, start: START + start * SECTOR, end: START + end * SECTOR })
        };
        let mut pieces: Vec<Piece> = self.pieces.iter().enumerate().filter_map(of).collect();
        pieces.iter_mut().min_by_key(|piece| piece.start)?.start = START;
        pieces.iter_mut().max_by_key(|piece| piece.end)?.end = START + PAGE;
        Some(Write::new(self.shape, pieces, self.seed))
    }
}

/// How many of these members were left alone in a sector.
fn alone(write: &Write, among: &[usize], sector: usize) -> usize {
    let byte = sector * SECTOR as usize;
    among.iter().filter(|at| !write.written(**at).contains(&byte)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(any_row::CASES))]

    /// As long as each page of which that rotted shows it: in a sector where no more of those that
    /// are neither old nor new were left alone than parity bears.
    #[test]
    fn what_was_left_alone_is_what_it_was(case in cases()) {
        let Some(write) = case.write() else { return Ok(()) };
        let (data, parity) = (write.data(), write.grid.parity());
        let is = |at: usize| match case.is[at] {
            Torn | Rotten if at >= data => New,
            _ if !write.touches(at) => Old,
            is => is,
        };
        let mut rng = Rng::new(case.seed);
        let mut seen: Vec<Option<Vec<u8>>> =
            (0..write.grid.width).map(|at| write.seen(at, is(at), &mut rng)).collect();
        for (at, page) in seen.iter_mut().enumerate() {
            if let Some(page) = page.as_mut().filter(|_| is(at) == Rotten && rng.chance(3, 4)) {
                rng.fill(page);
            }
        }
        let hurt: Vec<usize> = (0..data).filter(|&at| matches!(is(at), Torn | Rotten)).collect();
        let rotten: Vec<usize> = hurt.iter().copied().filter(|&at| is(at) == Rotten).collect();
        let wrong = |at: usize, sector: usize| {
            let own = sector * SECTOR as usize..(sector + 1) * SECTOR as usize;
            let old = &write.old[at][own.clone()];
            let is_wrong = seen[at].as_ref().is_some_and(|page| page[own] != *old);
            is_wrong && alone(&write, &[at], sector) == 1
        };
        let shows = |at: &usize| {
            let mut wrong = (0..SECTORS as usize).filter(|sector| wrong(*at, *sector)).peekable();
            wrong.peek().is_none() || wrong.any(|sector| alone(&write, &hurt, sector) <= parity)
        };
        if rotten.len() > parity || !rotten.iter().all(shows) {
            return Ok(());
        }
        let partial: Vec<Option<&[u8]>> = write.partial.iter().map(|own| Some(&own[..])).collect();
        let (pieces, hull) = (&write.pieces[..], write.hull());
        let told = Told { pieces, hull, partial: &partial, last: true };
        let right = row(&write.grid, &write.row(&seen, &[]), START, Some(told)).expect("enough");
        for (at, right) in right.iter().enumerate().take(data) {
            let page = right.page.as_ref().expect("it is there");
            for byte in (0..PAGE as usize).filter(|byte| !write.written(at).contains(byte)) {
                prop_assert_eq!(page[byte], write.old[at][byte], "byte {} of {}", byte, at);
            }
        }
    }
}
