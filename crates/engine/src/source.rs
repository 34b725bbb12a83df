//! Where the bytes of a physical block can be had, in which order, and getting them: the best way
//! first, the next when that fails or is late (FusionRAID §4.3, `hedge`).

use std::rc::Rc;

use format::StripeId;
use io::{Buf, BufMut, Drive, DriveError, Env, PAGE, join_all};
use policy::hedge::Cost;
use smallvec::SmallVec;

use crate::api::RequestError;
use crate::array::Array;
use crate::geometry::{BlockAddress, Class};
use crate::hedge::{Outcome, Patience, Way, Ways};
use crate::limits::LITTLE_TO_DO;
use crate::monitor::Hedged;
use crate::shard::Shard;

/// Where the bytes of a piece can be had: the same bytes on every address, or only by
/// computing them from the rest of the stripe.
pub struct Source {
    pub class: Rc<Class>,
    pub stripe: StripeId,
    pub position: usize,
    /// Whole block addresses of all copies, the best first.
    pub copies: SmallVec<[BlockAddress; 3]>,
}

#[derive(Clone, Copy)]
enum Kind {
    Copy(BlockAddress),
    Rebuild,
}

enum Failed {
    Drive(DriveError),
    Stripe,
}

/// A block of a stripe and where it is.
type Member = (usize, BlockAddress);

impl<E: Env> Shard<E> {
    /// Pages `first..first+len` (bytes) of a block.
    pub async fn read_source(
        &self,
        source: &Source,
        first: u64,
        len: usize,
    ) -> Result<Buf, RequestError> {
        let mut rest = self.ways(source, len).into_iter();
        let monitor = &self.array.monitor;
        let mut patience = Patience::of_read(&self.env, monitor, source.copies[0].drive);
        let mut running: Ways<Way<Result<Buf, Failed>>> = SmallVec::new();
        let best = rest.next().expect("every block has at least one address");
        patience.sent(Cost::of(1, len));
        running.push(self.start(source, best, first, len));
        let mut is_bad = false;
        loop {
            match patience.first(&mut running).await {
                Outcome::Over(at, Ok(pages)) if self.is_right(source, first, &pages) => {
                    drop(running.remove(at));
                    if at > 0 {
                        self.count(|counters| counters.hedge_wins += 1);
                        patience.won();
                    }
                    self.leave_reads(running);
                    if is_bad {
                        self.mend_later(source, first, len);
                    }
                    return Ok(pages);
                }
                Outcome::Over(at, done) => {
                    drop(running.remove(at));
                    is_bad |= match done {
                        Err(Failed::Drive(error)) => error.is_refusal(),
                        Err(Failed::Stripe) => false,
                        Ok(_) => true,
                    };
                    match rest.next() {
                        Some(next) => {
                            running.push(self.start(source, next, first, len));
                        }
                        None if running.is_empty() => {
                            let salvaged = self.salvage(source, first, len).await;
                            self.mend_later(source, first, len);
                            return salvaged;
                        }
                        None => {}
                    }
                }
                Outcome::Late if rest.len() == 0 => patience.give_up(),
                Outcome::Late
                    if monitor.is_mute(source.copies[0].drive)
                        || patience.may_hedge(self.cost(source, rest.as_slice()[0], len)) =>
                {
                    self.count(|counters| counters.hedged_reads += 1);
                    let next = rest.next().expect("just counted");
                    running.push(self.start(source, next, first, len));
                }
                Outcome::Late => self.count(|counters| counters.hedges_refused += 1),
            }
        }
    }

    fn leave_reads(&self, running: Ways<Way<Result<Buf, Failed>>>) {
        for way in running {
            self.array.leftovers.leave(&self.env, async move { drop(way.await) });
        }
    }

    /// Ways to the bytes, the best first. Replicated blocks: the copies as `source` has ordered
    /// them. RAID blocks: the block itself, or the rest of its stripe if the block's drive is slow
    /// and enough of the others are not. `len`: bytes wanted.
    fn ways(&self, source: &Source, len: usize) -> SmallVec<[Kind; 3]> {
        let mut ways: SmallVec<[Kind; 3]> =
            source.copies.iter().map(|&at| Kind::Copy(at)).collect();
        if let [only] = source.copies[..] {
            ways.push(Kind::Rebuild);
            if self.array.monitor.is_shunned(only.drive) && self.may_rebuild(source, len) {
                ways.swap(0, 1);
                self.count(|counters| counters.redirected_reads += 1);
            }
        }
        ways
    }

    /// Whether going round the block's drive costs less than waiting for it: the others must be
    /// quick. Each rebuilt block costs several reads: in an overload, in which some drive is always
    /// behind, that must stay a small share.
    fn may_rebuild(&self, source: &Source, len: usize) -> bool {
        let monitor = &self.array.monitor;
        let sits_out = monitor.watch(source.copies[0].drive).borrow().sits_out();
        self.is_rebuilt_quickly(source)
            && (sits_out
                || monitor.is_mute(source.copies[0].drive)
                || self.may_bypass(self.cost(source, Kind::Rebuild, len)))
    }

    /// A way that is taken from the start is never given back: there is no first one beside it.
    fn may_bypass(&self, cost: Cost) -> bool {
        let monitor = &self.array.monitor;
        let spent = monitor.spend_early(Hedged::Reads, cost);
        spent.inspect(|&spent| monitor.settle(Hedged::Reads, spent, false)).is_some()
    }

    fn is_rebuilt_quickly(&self, source: &Source) -> bool {
        let slow = |at: &BlockAddress| {
            let monitor = &self.array.monitor;
            !self.array.is_active(at.drive)
                || monitor.is_shunned(at.drive)
                || self.array.is_awaited(at.drive, at.offset, PAGE)
        };
        let others = self.members(source);
        others.iter().filter(|(_, at)| slow(at)).count() < source.class.parity()
    }

    /// A block computed from the rest of its stripe. `None` if more is lost than parity bears, or
    /// if it is not sure to be right: then it is looked at page by page.
    pub async fn rebuilt_block(
        &self,
        class: &Rc<Class>,
        stripe: StripeId,
        position: usize,
    ) -> Option<Buf> {
        let source = Source { class: class.clone(), stripe, position, copies: SmallVec::new() };
        let mut others = self.members(&source);
        let awaited = |at: &BlockAddress| self.array.is_awaited(at.drive, at.offset, PAGE);
        others.sort_by_key(|(_, at)| (awaited(at), self.array.rank(at.drive)));
        let len = self.geometry.block_size as usize;
        let block = rebuild(&self.array, class, position, &others, 0, len).await.ok()?;
        (self.is_told(&source) && self.is_right(&source, 0, &block)).then_some(block)
    }

    /// Sums tell whether the whole of a block is right. Parity has none, nor has a page that
    /// nothing was written to: what is computed of these is as right as what it is computed from.
    fn is_told(&self, source: &Source) -> bool {
        let Source { class, stripe, position, .. } = source;
        let state = self.state.borrow();
        !state.sums.is_enabled() || state.sums.has_block(class, *stripe, *position)
    }

    /// The other blocks of the stripe.
    fn members(&self, source: &Source) -> SmallVec<[Member; 8]> {
        let Source { class, stripe, position, .. } = source;
        let others = (0..class.width()).filter(|at| at != position);
        let space = &self.state.borrow().space;
        others.map(|at| (at, space.address(class, *stripe, at))).collect()
    }

    /// What a way costs those who wait for the drives it reads from: an operation for each that is
    /// busy, and one at least. A drive with little to do answers before anybody misses it.
    fn cost(&self, source: &Source, kind: Kind, len: usize) -> Cost {
        let Kind::Rebuild = kind else { return Cost::of(1, len) };
        let is_busy = |at: &BlockAddress| self.array.member(at.drive).outstanding() > LITTLE_TO_DO;
        let others = self.members(source);
        let busy = others.iter().filter(|(_, at)| is_busy(at)).count();
        // The busiest are left out, as far as there are more than it takes.
        Cost::of(busy.saturating_sub(others.len() - source.class.data()).max(1), len)
    }

    fn start(
        &self,
        source: &Source,
        kind: Kind,
        first: u64,
        len: usize,
    ) -> Way<Result<Buf, Failed>> {
        let array = self.array.clone();
        match kind {
            Kind::Copy(at) => Box::pin(async move {
                let pages = array.read(at.drive, at.offset + first, len).await;
                pages.map_err(Failed::Drive)
            }),
            Kind::Rebuild => {
                self.count(|counters| counters.reconstructed_reads += 1);
                let (class, position) = (source.class.clone(), source.position);
                let mut members = self.members(source);
                members.sort_by_key(|(_, at)| array.rank(at.drive));
                Box::pin(
                    async move { rebuild(&array, &class, position, &members, first, len).await },
                )
            }
        }
    }
}

/// Computes pages of a block from the rest of its stripe: from the best `k` of the others, and
/// from all of them if one of those can't be read.
async fn rebuild<D: Drive>(
    array: &Array<D>,
    class: &Class,
    position: usize,
    members: &[Member],
    first: u64,
    len: usize,
) -> Result<Buf, Failed> {
    let mut blocks: Vec<Option<Buf>> = vec![None; class.width()];
    let (best, spare) = members.split_at(class.data());
    for some in [best, spare] {
        let read = |&(at, address): &Member| async move {
            (at, array.read(address.drive, address.offset + first, len).await.ok())
        };
        for (at, pages) in join_all(some.iter().map(read)).await {
            blocks[at] = pages;
        }
        let views: Vec<Option<&[u8]>> = blocks.iter().map(|block| block.as_deref()).collect();
        let mut out = BufMut::with_len(len);
        let wanted = &mut [(position, &mut out[..])];
        if layout::parity::reconstruct(class.shape, &views, wanted).is_ok() {
            return Ok(out.freeze());
        }
    }
    Err(Failed::Stripe)
}
