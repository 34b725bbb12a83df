//! Rows as crashes, rot and losses leave them: each case by name, then any of them.

use io::rng::Rng;
use proptest::prelude::*;

use super::*;
use crate::row::tests::with_parity;

mod any_row;
mod left_alone;
mod out_of_date;

const RAID5: (Redundancy, usize) = (Redundancy::Parity(1), 4);
const RAID6: (Redundancy, usize) = (Redundancy::Parity(2), 5);

/// A whole row, as any write left it.
fn whole(grid: &Grid, row: &[Known<'_>]) -> Option<Vec<Right>> {
    recent(grid, row).or_else(|| before(grid, row))
}

/// Byte of the chunk where the row's pages begin: the second of three.
const START: u64 = PAGE;
const SECTOR: u64 = 512;
const SECTORS: u64 = PAGE / SECTOR;

/// What the drive of a member has of its page after the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Old,
    New,
    /// Some sectors of each.
    Torn,
    /// Bytes that nobody wrote.
    Rotten,
    Gone,
}
use Is::{Gone, New, Old, Rotten, Torn};

/// A write of some pieces of a stripe, over one row of pages.
struct Write {
    grid: Grid,
    pieces: Vec<Piece>,
    old: Vec<Vec<u8>>,
    new: Vec<Vec<u8>>,
    /// Over the hull, of each parity member.
    partial: Vec<Vec<u8>>,
}

fn random_page(rng: &mut Rng) -> Vec<u8> {
    let mut page = vec![0; PAGE as usize];
    rng.fill(&mut page);
    page
}

impl Write {
    fn new((redundancy, width): (Redundancy, usize), pieces: Vec<Piece>, seed: u64) -> Write {
        let grid = Grid { redundancy, drives: width, width, chunk: 3 * PAGE, rows: 1 };
        let mut rng = Rng::new(seed);
        let old: Vec<Vec<u8>> = (0..grid.data()).map(|_| random_page(&mut rng)).collect();
        let (mut new, mut left) = (old.clone(), old.clone());
        for piece in &pieces {
            let (fresh, own) = (random_page(&mut rng), within(piece));
            new[piece.position][own.clone()].copy_from_slice(&fresh[own.clone()]);
            left[piece.position][own].fill(0);
        }
        let mut write = Write {
            grid,
            pieces,
            old: with_parity(&grid, old),
            new: with_parity(&grid, new),
            partial: Vec::new(),
        };
        // Beside the page there is something else.
        let (start, end) = write.hull();
        let own = within(&Piece { position: 0, start, end });
        for page in &with_parity(&grid, left)[grid.data()..] {
            let mut partial = vec![0xee; (end - start) as usize];
            let at = (START + own.start as u64).saturating_sub(start) as usize;
            if !own.is_empty() {
                partial[at..at + own.len()].copy_from_slice(&page[own.clone()]);
            }
            write.partial.push(partial);
        }
        write
    }

    /// Of whole pages.
    fn of_pages(shape: (Redundancy, usize), positions: &[usize]) -> Write {
        let all = |&position: &usize| Piece { position, start: START, end: START + PAGE };
        Write::new(shape, positions.iter().map(all).collect(), 5)
    }

    fn hull(&self) -> (u64, u64) {
        let start = self.pieces.iter().map(|piece| piece.start).min();
        let end = self.pieces.iter().map(|piece| piece.end).max();
        (start.expect("something is written"), end.expect("something is written"))
    }

    fn data(&self) -> usize {
        self.grid.data()
    }

    /// The bytes of a member's page that are being written.
    fn written(&self, member: usize) -> Range<usize> {
        let own = self.pieces.iter().find(|piece| piece.position == member);
        own.map_or(0..0, within)
    }

    fn touches(&self, member: usize) -> bool {
        let (start, end) = self.hull();
        let hull = within(&Piece { position: 0, start, end });
        let own = if member < self.data() { self.written(member) } else { hull };
        !own.is_empty()
    }

    fn seen(&self, member: usize, is: Is, rng: &mut Rng) -> Option<Vec<u8>> {
        let (old, new) = (&self.old[member], &self.new[member]);
        match is {
            Old => Some(old.clone()),
            New => Some(new.clone()),
            Gone => None,
            Torn => {
                let sectors = old.chunks(SECTOR as usize).zip(new.chunks(SECTOR as usize));
                let some = sectors.map(|(old, new)| if rng.chance(1, 2) { old } else { new });
                Some(some.collect::<Vec<_>>().concat())
            }
            Rotten => {
                let mut page = if rng.chance(1, 2) { old.clone() } else { new.clone() };
                page[rng.index(PAGE as usize)] ^= 1 << rng.below(8);
                Some(page)
            }
        }
    }

    fn row<'a>(&self, seen: &'a [Option<Vec<u8>>], suspects: &[bool]) -> Vec<Known<'a>> {
        let known = |(member, seen): (usize, &'a Option<Vec<u8>>)| Known {
            seen: seen.as_deref(),
            old: sum_of(&self.old[member]),
            new: sum_of(&self.new[member]),
            touched: self.touches(member),
            recorded: self.touches(member),
            suspect: suspects.get(member).copied().unwrap_or(false),
        };
        seen.iter().enumerate().map(known).collect()
    }

    /// Of a row that is in the middle, the record told.
    fn mixed(&self, row: &[Known<'_>], seen: &[Option<Vec<u8>>]) -> Option<Vec<Right>> {
        let logged = self.partial.iter().zip(&seen[self.data()..]);
        let partial: Vec<Option<&[u8]>> =
            logged.map(|(partial, seen)| seen.as_ref().map(|_| &partial[..])).collect();
        let told = Told { pieces: &self.pieces, hull: self.hull(), partial: &partial, last: true };
        mixed(&self.grid, row, START, Some(told))
    }
}

/// What of the row's pages a piece covers.
fn within(piece: &Piece) -> Range<usize> {
    let clamp = |at: u64| (at.clamp(START, START + PAGE) - START) as usize;
    clamp(piece.start)..clamp(piece.end)
}

fn all(pages: &[Vec<u8>]) -> Vec<Right> {
    pages.iter().cloned().map(Right::of).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Forward,
    Back,
    /// In the middle: what is written stays as it is, the rest is as it was.
    Middle,
    /// More is gone than parity bears.
    Nothing,
}
use Verdict::{Back, Forward, Middle, Nothing};

fn judge(name: &str, shape: (Redundancy, usize), written: &[usize], is: &[Is], right: Verdict) {
    let write = Write::of_pages(shape, written);
    let mut rng = Rng::new(9);
    let seen: Vec<Option<Vec<u8>>> =
        is.iter().enumerate().map(|(at, is)| write.seen(at, *is, &mut rng)).collect();
    let row = write.row(&seen, &[]);
    let whole = whole(&write.grid, &row);
    match right {
        Forward => assert_eq!(whole, Some(all(&write.new)), "{name}"),
        Back => assert_eq!(whole, Some(all(&write.old)), "{name}"),
        Middle => {
            assert_eq!(whole, None, "{name}");
            let pages = (0..write.data()).map(|at| match (&seen[at], write.touches(at)) {
                (Some(page), true) => page.clone(),
                _ => write.old[at].clone(),
            });
            let right = with_parity(&write.grid, pages.collect());
            assert_eq!(write.mixed(&row, &seen), Some(all(&right)), "{name}");
        }
        Nothing => assert_eq!((whole, write.mixed(&row, &seen)), (None, None), "{name}"),
    }
}

#[test]
fn rows_of_raid5() {
    let cases: &[(&str, &[usize], [Is; 4], Verdict)] = &[
        ("all is written", &[0], [New, Old, Old, New], Forward),
        ("nothing is written yet", &[0], [Old, Old, Old, Old], Back),
        ("parity is missing still", &[0], [New, Old, Old, Old], Forward),
        ("only parity is written", &[0], [Old, Old, Old, New], Forward),
        ("the last of several is not there", &[0, 1, 2], [New, New, Old, New], Forward),
        ("one of several is", &[0, 1, 2], [New, Old, Old, Old], Back),
        ("two of several are not", &[0, 1, 2], [New, Old, New, Old], Middle),
        ("what was written rotted", &[0], [Rotten, Old, Old, New], Forward),
        ("it did before anything was written", &[0, 1], [Rotten, Old, Old, Old], Back),
        ("what was not written rotted", &[0], [New, Rotten, Old, New], Forward),
        ("the same, and nothing is written", &[0], [Old, Rotten, Old, Old], Back),
        ("the same, in the middle", &[0], [New, Rotten, Old, Old], Middle),
        ("its drive is gone, in the middle", &[0], [Old, Gone, Old, New], Middle),
        ("the same, of two that are written", &[0, 2], [New, Gone, Old, Old], Middle),
        ("of two, parity is gone", &[0, 2], [New, Old, Old, Gone], Middle),
        ("parity is gone, nothing is written", &[0, 2], [Old, Old, Old, Gone], Back),
        ("a page is torn", &[0], [Torn, Old, Old, New], Forward),
        ("a page and its parity are torn", &[0], [Torn, Old, Old, Torn], Middle),
        ("both that were not written are gone", &[0], [New, Gone, Gone, New], Nothing),
        ("one is gone, one rotted", &[0], [New, Gone, Rotten, New], Nothing),
    ];
    cases.iter().for_each(|(name, written, is, right)| judge(name, RAID5, written, is, *right));
}

#[test]
fn rows_of_raid6() {
    let cases: &[(&str, &[usize], [Is; 5], Verdict)] = &[
        ("all is written", &[0], [New, Old, Old, New, New], Forward),
        ("only data is", &[0], [New, Old, Old, Old, Old], Forward),
        ("only P is", &[0], [Old, Old, Old, New, Old], Forward),
        ("nothing is, two rotted", &[0], [Old, Rotten, Rotten, Old, Old], Back),
        ("all is, two are gone", &[0], [Gone, Old, Gone, New, New], Forward),
        ("P is, the data is gone", &[0], [Gone, Old, Old, New, Old], Forward),
        ("one is gone and one rotted, nothing is", &[0], [Old, Gone, Old, Rotten, Old], Back),
        ("two of three are, and P", &[0, 1, 2], [New, New, Old, New, Old], Forward),
        ("two of three are, neither parity", &[0, 1, 2], [New, New, Old, Old, Old], Back),
        ("in the middle of two, one is gone", &[0, 1], [New, Old, Gone, New, Old], Middle),
        ("in the middle, two are gone", &[0], [New, Gone, Gone, Old, New], Middle),
        ("one rotted and one is gone", &[0], [Old, Gone, Rotten, New, Old], Middle),
        ("one and Q are gone", &[0, 1], [New, Old, Gone, Old, Gone], Middle),
        ("one and P are gone", &[0, 1], [New, Old, Gone, Gone, Old], Middle),
        ("three rotted", &[0], [New, Rotten, Rotten, Old, Gone], Nothing),
    ];
    cases.iter().for_each(|(name, written, is, right)| judge(name, RAID6, written, is, *right));
}

/// A drive lost a page that was flushed; another page was being written, and nothing of that came.
#[test]
fn what_was_flushed_follows_from_what_was_before_a_write_that_no_record_tells_of() {
    let (first, second) = (Write::of_pages(RAID5, &[0]), Write::of_pages(RAID5, &[1]));
    let grid = first.grid;
    assert_eq!(first.old, second.old);
    let mut last = second.new[..first.data()].to_vec();
    last[0] = first.new[0].clone();
    let last = with_parity(&grid, last);
    let before: Vec<u32> = [&first.old[0], &first.old[1], &first.old[2], &first.new[3]]
        .map(|page| sum_of(page))
        .to_vec();
    let seen = [&first.old[0], &first.old[1], &first.old[2], &first.new[3]];
    let known = |(page, last): (&&Vec<u8>, &Vec<u8>)| (Some((*page).clone()), sum_of(last));
    let (seen, news): (Vec<Option<Vec<u8>>>, Vec<u32>) = seen.iter().zip(&last).map(known).unzip();
    let mut row = first.row(&seen, &[]);
    for (known, new) in row.iter_mut().zip(news) {
        (known.old, known.new, known.touched, known.recorded) = (new, new, false, false);
    }
    assert!(unflushed(&grid, &row, &before) == Some(all(&first.new)));
}

/// Of one write the log knows the checksum of parity and not that of data, and no record tells of
/// it: all pages pass, and parity is of what the data never was.
#[test]
fn parity_that_passes_and_does_not_fit_follows_from_the_data() {
    let write = Write::of_pages(RAID5, &[0]);
    let seen = seen_of(&write, &[Old, Old, Old, New]);
    let mut row = write.row(&seen, &[]);
    for (known, page) in row.iter_mut().zip(&seen) {
        let sum = sum_of(page.as_ref().expect("it is there"));
        (known.old, known.new, known.touched, known.recorded) = (sum, sum, false, false);
    }
    assert!(super::row(&write.grid, &row, START, None) == Some(all(&write.old)));
}

/// The drive of parity lost the record, and its part of the write; of the rest some came. Then it
/// is as before, or all of it came: what is neither is nobody's guess.
#[test]
fn a_write_that_no_record_tells_of_never_was_or_is_whole() {
    let cases: &[(&[usize], [Is; 4], Verdict)] = &[
        (&[0], [Old, Old, Old, Old], Back),
        (&[0, 1, 2], [Old, Old, Old, Old], Back),
        (&[0, 1], [New, New, Old, New], Forward),
        (&[0, 1], [Old, Old, Rotten, Old], Back),
        // What is new may have been flushed, by a write before: it does not go back.
        (&[0, 1, 2], [Old, New, Old, Old], Nothing),
        (&[0, 1, 2], [Old, New, New, Old], Nothing),
        (&[0, 1, 2], [Old, Rotten, Rotten, Old], Nothing),
        (&[0, 1, 2], [Old, Rotten, Old, Gone], Nothing),
    ];
    let mut rng = Rng::new(9);
    for (written, is, right) in cases {
        let write = Write::of_pages(RAID5, written);
        let each = is.iter().enumerate().map(|(at, is)| write.seen(at, *is, &mut rng));
        let seen: Vec<Option<Vec<u8>>> = each.collect();
        let mut row = write.row(&seen, &[]);
        row.iter_mut().for_each(|known| (known.touched, known.recorded) = (false, false));
        let before: Vec<u32> = write.old.iter().map(|page| sum_of(page)).collect();
        let wanted = match right {
            Forward => Some(all(&write.new)),
            Back => Some(all(&write.old)),
            Middle | Nothing => None,
        };
        assert!(unflushed(&write.grid, &row, &before) == wanted, "{is:?} of {written:?}");
    }
}

/// The drive of the only page that is written is gone, and its parity is torn: each byte is what
/// the parity says, old or new.
#[test]
fn the_only_page_of_its_row_that_is_written_follows_from_parity() {
    let write = Write::of_pages(RAID5, &[1]);
    let mut rng = Rng::new(3);
    let is = [Old, Gone, Old, Torn];
    let seen: Vec<Option<Vec<u8>>> =
        is.iter().enumerate().map(|(at, is)| write.seen(at, *is, &mut rng)).collect();
    let row = write.row(&seen, &[]);
    assert_eq!(whole(&write.grid, &row), None);
    let right = write.mixed(&row, &seen).expect("one is gone");
    let page = right[1].page.as_ref().expect("it follows");
    for sector in 0..SECTORS as usize {
        let own = sector * SECTOR as usize..(sector + 1) * SECTOR as usize;
        let was_new = seen[3].as_ref().expect("there")[own.clone()] == write.new[3][own.clone()];
        let of = if was_new { &write.new } else { &write.old };
        assert_eq!(page[own.clone()], of[1][own], "sector {sector}");
    }
    assert_eq!(right[3].page, seen[3], "the parity is that of what it gave");
}

/// Nobody knows any checksum, and no record tells anything: data stays as it is, a page that is
/// gone is what P says, Q is made to say the same.
#[test]
fn without_checksums_and_records_data_stays_and_parity_follows() {
    let write = Write::of_pages(RAID6, &[0]);
    for (is, gone) in [([New, Old, Old, Old, New], None), ([New, Gone, Old, New, Old], Some(1))] {
        let seen: Vec<Option<Vec<u8>>> =
            (0..5).map(|at| write.seen(at, is[at], &mut Rng::new(1))).collect();
        let mut row = write.row(&seen, &[]);
        for known in &mut row {
            (known.old, known.new) = (UNKNOWN, UNKNOWN);
            (known.touched, known.recorded) = (true, false);
        }
        assert_eq!(whole(&write.grid, &row), None);
        assert_eq!(mixed(&write.grid, &row, START, None), Some(all(&write.new)), "{gone:?}");
    }
}

#[test]
fn what_is_lost_stays_lost_and_parity_counts_on_zeroes_where_it_did() {
    let write = Write::of_pages(RAID5, &[0]);
    let mut data = write.new[..3].to_vec();
    data[2].fill(0);
    let rest = with_parity(&write.grid, data);
    let seen: Vec<Option<Vec<u8>>> = [Some(0), Some(1), None, Some(3)]
        .map(|at: Option<usize>| at.map(|at| rest[at].clone()))
        .to_vec();
    for how in [VOID, LOST] {
        let mut row = write.row(&seen, &[]);
        (row[2].old, row[2].new) = (how, how);
        row[3].new = sum_of(&rest[3]);
        let mut right = all(&rest);
        right[2] = Right { page: None, sum: how };
        let found = whole(&write.grid, &row);
        assert_eq!(found, Some(right.clone()), "{how}");
        // Page 1 rotted: it follows where the parity counts on zeroes.
        row[1].seen = None;
        let found = whole(&write.grid, &row);
        assert_eq!(found, Some(right).filter(|_| how == VOID), "{how}");
    }
}

#[test]
fn pages_without_redundancy_are_what_is_there() {
    let write = Write::of_pages((Redundancy::Parity(0), 3), &[0]);
    let seen: Vec<Option<Vec<u8>>> = [New, Gone, Rotten]
        .iter()
        .enumerate()
        .map(|(at, is)| write.seen(at, *is, &mut Rng::new(2)))
        .collect();
    let mut row = write.row(&seen, &[]);
    row[2].touched = true;
    let right = mixed(&write.grid, &row, START, None).expect("always");
    let pages = [0, 1, 2].map(|at: usize| right[at].page.clone());
    assert!(pages[..] == seen[..], "newer than its checksum, perhaps");
    assert_eq!(right[1].sum, LOST);
    row[2].touched = false;
    let right = mixed(&write.grid, &row, START, None).expect("always");
    assert!(right[2] == Right { page: None, sum: LOST }, "it was not being written: it rotted");
    row[0].new = LOST;
    let right = mixed(&write.grid, &row, START, None).expect("always");
    assert_eq!(right[0], Right { page: None, sum: LOST });
}

fn seen_of(write: &Write, is: &[Is]) -> Vec<Option<Vec<u8>>> {
    is.iter().enumerate().map(|(at, is)| write.seen(at, *is, &mut Rng::new(4))).collect()
}

/// Rot in what was being written made wrong bytes of a page beside it, which its checksum tells.
#[test]
fn what_does_not_follow_is_lost_rather_than_wrong() {
    let piece = Piece { position: 0, start: START, end: START + SECTOR };
    let write = Write::new(RAID5, vec![piece], 5);
    let mut seen = seen_of(&write, &[New, Gone, Old, Old]);
    seen[0].as_mut().expect("there")[4000] ^= 1;
    let row = write.row(&seen, &[]);
    assert_eq!(whole(&write.grid, &row), None);
    let right = write.mixed(&row, &seen).expect("one is gone");
    assert_eq!(right[1], Right { page: None, sum: LOST });
}

/// Two are gone, and one drive of parity can't give its record: what is on the drives counts.
#[test]
fn half_a_record_tells_nothing() {
    let write = Write::of_pages(RAID6, &[0]);
    let seen = seen_of(&write, &[New, Gone, Gone, New, New]);
    let partial = [Some(&write.partial[0][..]), None];
    let told = Told { pieces: &write.pieces, hull: write.hull(), partial: &partial, last: true };
    let right = mixed(&write.grid, &write.row(&seen, &[]), START, Some(told));
    assert_eq!(right, Some(all(&write.new)));
}

#[test]
fn rows_that_nobody_vouches_for_are_whole_if_their_parity_fits() {
    let write = Write::of_pages(RAID5, &[0]);
    for (is, fits) in [([New, Old, Old, New], true), ([New, Old, Old, Old], false)] {
        let seen = seen_of(&write, &is);
        let mut row = write.row(&seen, &[]);
        for known in &mut row {
            (known.old, known.new, known.touched) = (UNKNOWN, UNKNOWN, false);
        }
        assert_eq!(whole(&write.grid, &row), Some(all(&write.new)).filter(|_| fits));
    }
}

/// Of a page that was lost before, the parity counts on zeroes: it is not missing.
#[test]
fn in_the_middle_of_a_write_zeroes_stand_for_what_was_lost_before() {
    let write = Write::of_pages(RAID5, &[0]);
    let mut data = write.new[..3].to_vec();
    data[2].fill(0);
    let rest = with_parity(&write.grid, data);
    let seen =
        [Some(0), None, None, Some(3)].map(|at: Option<usize>| at.map(|at| rest[at].clone()));
    let mut row = write.row(&seen, &[]);
    (row[2].old, row[2].new, row[3].new) = (VOID, VOID, sum_of(&rest[3]));
    let mut right = all(&rest);
    right[2] = Right { page: None, sum: VOID };
    assert_eq!(mixed(&write.grid, &row, START, None), Some(right));
}

// ---- mirrors

/// Copies that hold one of these, by number: the sums of `may_be` are of pages of that number.
fn agreed(copies: &[(Option<u8>, &[u8], bool)]) -> Option<u8> {
    agreed_if(copies, false)
}

fn agreed_if(copies: &[(Option<u8>, &[u8], bool)], tears: bool) -> Option<u8> {
    let page = |byte: u8| vec![byte; PAGE as usize];
    let pages: Vec<Option<Vec<u8>>> = copies.iter().map(|(seen, ..)| seen.map(page)).collect();
    let sum = |byte: &u8| match byte {
        0 => UNKNOWN,
        1 => LOST,
        byte => sum_of(&page(*byte)),
    };
    let each = copies.iter().zip(&pages).map(|((_, may_be, suspect), seen)| Copy {
        seen: seen.as_deref(),
        may_be: may_be.iter().map(sum).collect(),
        suspect: *suspect,
    });
    let right = super::copies(&each.collect::<Vec<_>>(), tears);
    let byte = right.page.as_ref().map(|page| page[0]);
    assert_eq!(right.sum, byte.map_or(LOST, |byte| sum(&byte)));
    byte
}

#[test]
fn copies_of_a_mirror_of_three() {
    // 8: before the write, 9: after it, 7: nobody wrote it.
    let (both, one, nobody): (&[u8], &[u8], &[u8]) = (&[9, 8], &[9], &[0]);
    let plain = |seen: [Option<u8>; 3], may_be| agreed(&seen.map(|seen| (seen, may_be, false)));
    assert_eq!(plain([Some(9), Some(9), Some(9)], both), Some(9), "all is written");
    assert_eq!(plain([Some(8), Some(8), Some(9)], both), Some(9), "on one drive");
    assert_eq!(plain([Some(8), Some(8), Some(8)], both), Some(8), "on none");
    assert_eq!(plain([Some(7), Some(6), Some(8)], both), Some(8), "two rotted");
    assert_eq!(plain([Some(7), Some(7), Some(8)], both), Some(7), "one did not write 9, nor 7");
    assert_eq!(plain([Some(7), Some(7), Some(9)], both), Some(9), "7 was not flushed");
    assert_eq!(plain([None, Some(7), Some(9)], one), Some(9), "one rotted, one is gone");
    assert_eq!(plain([None, None, Some(8)], both), Some(8), "two are gone");
    assert_eq!(plain([None, None, Some(8)], one), Some(8), "written since, perhaps");
    assert_eq!(plain([Some(8), Some(7), Some(7)], one), Some(7), "what most say");
    assert_eq!(plain([Some(6), Some(8), Some(7)], nobody), Some(6), "the first, of as many");
    assert_eq!(plain([None; 3], both), None, "all are gone");
    assert_eq!(plain([Some(8), Some(8), Some(8)], &[1]), None, "it is lost");
    let lost_before = plain([Some(8), Some(9), Some(8)], &[9, 1]);
    assert_eq!(lost_before, Some(9), "it was lost, and is written again");
    let suspects = [(Some(7), one, true), (Some(7), one, true), (Some(6), one, false)];
    assert_eq!(agreed(&suspects), Some(6), "rather that of a drive which nothing speaks against");
    let ages: [(Option<u8>, &[u8], bool); 3] =
        [(Some(8), &[8], false), (Some(8), &[9, 8], false), (Some(7), &[9, 8], false)];
    assert_eq!(agreed(&ages), Some(8), "a copy that was not being written");
}

/// 7 and 6: one is what was written last, which no checksum on the drives tells, and the other has
/// rotted.
#[test]
fn copies_that_differ_and_nobody_vouches_for_are_lost() {
    let both: &[u8] = &[9, 8];
    let pair = |one: (u8, bool), other: (u8, bool), tears| {
        let copy = |(page, suspect)| (Some(page), both, suspect);
        agreed_if(&[copy(one), copy(other)], tears)
    };
    assert_eq!(pair((7, false), (6, false), false), None, "nothing tells which");
    assert_eq!(pair((7, false), (6, false), true), Some(7), "a power cut may have torn one");
    assert_eq!(pair((7, false), (7, false), false), Some(7), "no rot makes two the same");
    assert_eq!(pair((7, true), (6, false), false), Some(6), "one is of a rotten drive");
    assert_eq!(pair((7, true), (6, true), false), None, "both are");
    assert_eq!(
        agreed(&[(None, both, false), (Some(6), both, false)]),
        Some(6),
        "there is no other"
    );
    let three = |pages: [u8; 3], may_be| agreed(&pages.map(|page| (Some(page), may_be, false)));
    assert_eq!(three([7, 6, 6], both), Some(6));
    assert_eq!(three([7, 6, 5], both), None);
    assert_eq!(three([7, 6, 5], &[1, 8]), None, "it was lost");
    assert_eq!(three([7, 6, 5], &[9, 0]), Some(7), "nothing was known of it, so nothing flushed");
    assert_eq!(three([7, 6, 5], &[9, 1]), None, "it was lost before");
}

/// 8 was flushed once, and 9 after it; the next write is what the other drive has.
#[test]
fn an_image_of_before_the_last_flush_does_not_win() {
    let both: &[u8] = &[9, 8];
    for tears in [false, true] {
        let image = |other, suspect| {
            agreed_if(&[(Some(8), both, suspect), (Some(other), both, false)], tears)
        };
        assert_eq!(image(7, true), Some(7));
        assert_eq!(image(9, true), Some(9));
        assert_eq!(image(7, false), Some(8), "it is no image: the last writes have not got there");
    }
    let of_now = [(Some(9), both, true), (Some(7), both, false)];
    assert_eq!(agreed(&of_now), Some(9), "whatever is flushed is no newer");
    let rotten = [(Some(8), both, true), (Some(7), both, false), (Some(6), both, false)];
    assert_eq!(agreed(&rotten), None, "two drives are hurt");
    assert_eq!(agreed(&[(Some(8), both, true), (None, both, false)]), Some(8), "there is no other");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(any_row::CASES))]

    /// While a copy is there that any checksum vouches for, the newest such is taken: of drives
    /// that rotted or are out of date only if it is the newest of all, or nobody else is there. But
    /// two that are the same, and no checksum tells of, are newer.
    #[test]
    fn the_newest_copy_that_is_vouched_for_counts(
        seen in prop::collection::vec(prop::option::of(4..9_u8), 1..4),
        mut may_be in prop::collection::vec(4..9_u8, 1..4),
        suspects in any::<[bool; 3]>(),
        tears in any::<bool>(),
    ) {
        may_be.dedup();
        let copies: Vec<_> = seen.iter().zip(suspects).map(|(seen, suspect)| {
            (*seen, &may_be[..], suspect)
        }).collect();
        let trusted: Vec<u8> = copies.iter().filter(|own| !own.2).filter_map(|own| own.0).collect();
        let counts = |(age, byte): &(usize, &u8)| {
            let any = *age == 0 || trusted.is_empty();
            trusted.contains(byte) || any && seen.contains(&Some(**byte))
        };
        let same = |byte: &&u8| {
            !may_be.contains(byte) && trusted.iter().filter(|other| other == byte).count() > 1
        };
        let newer = trusted.iter().find(same).filter(|_| !seen.contains(&Some(may_be[0])));
        let newest = may_be.iter().enumerate().find(counts).map(|(_, byte)| *byte);
        let newest = newer.copied().or(newest);
        let right = agreed_if(&copies, tears);
        match (newest, right) {
            (Some(newest), _) => prop_assert_eq!(right, Some(newest)),
            (None, Some(_)) => prop_assert!(seen.contains(&right)),
            (None, None) => prop_assert!(!tears || seen.iter().all(Option::is_none)),
        }
    }
}
