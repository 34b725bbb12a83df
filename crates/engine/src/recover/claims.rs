//! What replay makes of sums: they count when the record that they are for does.

use format::{Flbn, Place, Record, SectorRange, VolumeId};
use io::Drive;

use super::{Recovered, Recovery, Verdict};
use crate::map::{Piece, Pieces};

/// Sums of records that are about to come: flbn, first page, sums.
#[derive(Default)]
pub struct Claims(Vec<(Flbn, u16, Vec<u32>)>);

impl<D: Drive> Recovery<'_, D> {
    /// Before the record is applied to the maps.
    pub(super) fn apply_claims(
        &self,
        out: &mut Recovered,
        record: &Record,
        verdict: Verdict,
        claims: &mut Claims,
    ) {
        if !out.sums.is_enabled() {
            return;
        }
        let trusted = verdict == Verdict::Trusted;
        match record {
            // A stripe has no more data blocks; nobody writes sums of more.
            Record::Sums { flbn, first, sums } if claims.0.len() < format::record::MAX_WIDTH => {
                claims.0.push((*flbn, *first, sums.clone()));
            }
            Record::Write { volume, block, range, place, crc } => {
                let pending = std::mem::take(&mut claims.0);
                if trusted && out.volumes.contains_key(volume) {
                    self.forget_superseded(out, *volume, *block, *range);
                    self.claim_write(out, *place, *range, *crc, &pending);
                }
            }
            Record::Stripe { stripe, blocks, .. } => {
                let pending = std::mem::take(&mut claims.0);
                let Some(class) = out.space.class_of_zone(stripe.zone).filter(|_| trusted) else {
                    return;
                };
                let class = class.clone();
                let whole = SectorRange { start: 0, len: self.geometry.block_sectors() };
                for (volume, block) in blocks.iter().flatten() {
                    self.forget_superseded(out, *volume, *block, whole);
                }
                out.sums.forget(&class, *stripe);
                for (flbn, first, sums) in pending {
                    if self.geometry.stripe_of(&class, flbn).0 == *stripe {
                        out.sums.set_at(&class, flbn, usize::from(first), &sums);
                    }
                }
            }
            Record::Tuple { stripes, .. } => {
                for stripe in stripes {
                    if let Some(class) = out.space.class_of_zone(stripe.zone) {
                        out.sums.forget(class, *stripe);
                    }
                }
            }
            Record::Zone { zone, class: None, .. } => out.sums.forget_zone(*zone),
            _ => {}
        }
    }

    fn claim_write(
        &self,
        out: &mut Recovered,
        place: Place,
        range: SectorRange,
        crc: u32,
        pending: &[(Flbn, u16, Vec<u32>)],
    ) {
        let zone = self.geometry.zone_of(place.flbn);
        let Some(class) = out.space.class_of_zone(zone) else { return };
        let (first, pages) = (place.sector / 8, place.pages(range.len) as usize);
        if pages == 1 {
            return out.sums.set_at(class, place.flbn, first.into(), &[crc.max(1)]);
        }
        let own = |claim: &&(Flbn, u16, Vec<u32>)| {
            claim.0 == place.flbn && claim.1 == first && claim.2.len() == pages
        };
        if let Some((flbn, first, sums)) = pending.iter().find(own) {
            out.sums.set_at(class, *flbn, usize::from(*first), sums);
        }
    }

    /// What the same sectors were written to before holds nothing that counts. It may never have
    /// got there: an attempt that was late is in the journal, and known to be settled when that of
    /// another attempt is. Only pages that nobody else has a part of: compaction packs parts of
    /// pages together.
    fn forget_superseded(
        &self,
        out: &mut Recovered,
        volume: VolumeId,
        block: u64,
        range: SectorRange,
    ) {
        if !out.volumes.contains_key(&volume) {
            return;
        }
        let mut pieces = Pieces::new();
        out.map.lookup(volume, block, range, &mut pieces);
        let [Piece { place: Some(place), .. }] = pieces[..] else { return };
        let zone = self.geometry.zone_of(place.flbn);
        let Some(class) = out.space.class_of_zone(zone).cloned() else { return };
        let (first, pages) = (usize::from(place.sector / 8), place.pages(range.len) as usize);
        // As sectors lie in pages of the block, so they lie in those of a write's place: other
        // sectors of these may still be there.
        let whole = range.len == self.geometry.block_sectors();
        let (before, after) = (range.start % 8, range.end().next_multiple_of(8) - range.end());
        let ends = [(range.start - before, before), (range.end() as u16, after as u16)];
        for (start, len) in ends.into_iter().filter(|end| end.1 > 0) {
            out.map.lookup(volume, block, SectorRange { start, len }, &mut pieces);
        }
        let stays = |piece: &Piece| {
            let there = piece.place.filter(|there| there.flbn == place.flbn);
            there.is_some_and(|there| {
                let from = usize::from(there.sector / 8);
                from < first + pages && from + there.pages(piece.range.len) as usize > first
            })
        };
        if (place.replicated || whole) && !pieces[1..].iter().any(stays) {
            out.sums.forget_pages(&class, place.flbn, first, pages);
        }
    }
}
