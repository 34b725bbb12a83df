//! Lost pages that somebody still reads. A scrub finds stripes bad, and of what is written over in
//! part the old pages stay there until the stripe is emptied: only the map says whose they are.

use std::collections::{BTreeMap, BTreeSet};

use format::{Place, StripeId, VolumeId};
use io::{Env, PAGE};

use crate::compact::Move;
use crate::shard::Shard;

/// Volumes that are named where lost pages are told of.
const VOLUMES_TOLD: usize = 8;

/// A page of a block, or of a slot of a tuple, that nothing gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostPage {
    pub stripe: StripeId,
    pub position: usize,
    pub page: usize,
}

/// What becomes of lost pages that a scrub found.
#[derive(Default)]
pub struct Whose {
    /// Pages that no volume has anything in any more.
    pub superseded: u64,
    /// Of which volumes the others are, and where.
    pub told: String,
}

/// Of one volume.
struct Own {
    pages: BTreeSet<LostPage>,
    /// The first byte of it that can't be read.
    first: u64,
}

impl<E: Env> Shard<E> {
    /// Which volumes have something in these pages: after one scan of the map.
    pub async fn whose(&self, lost: &BTreeSet<LostPage>) -> Whose {
        let stripes: BTreeSet<StripeId> = lost.iter().map(|page| page.stripe).collect();
        let stripes: Vec<StripeId> = stripes.into_iter().collect();
        if stripes.is_empty() {
            return Whose::default();
        }
        let mut volumes: BTreeMap<VolumeId, Own> = BTreeMap::new();
        for piece in self.pieces_in(&stripes).await {
            for (page, byte) in self.lost_in(&piece, lost) {
                let none = || Own { pages: BTreeSet::new(), first: byte };
                let own = volumes.entry(piece.volume).or_insert_with(none);
                own.pages.insert(page);
                own.first = own.first.min(byte);
            }
        }
        let owned: BTreeSet<LostPage> =
            volumes.values().flat_map(|own| own.pages.iter().copied()).collect();
        let superseded = (lost.len() - owned.len()) as u64;
        Whose { superseded, told: self.volumes_told(&volumes) }
    }

    /// Lost pages that a piece has something in, and the first byte of it there, in the volume.
    fn lost_in(&self, piece: &Move, lost: &BTreeSet<LostPage>) -> Vec<(LostPage, u64)> {
        let Place { flbn, sector, .. } = piece.from;
        let (stripe, position) = {
            let state = self.state.borrow();
            let Some(class) = state.space.class_of_zone(self.geometry.zone_of(flbn)) else {
                return Vec::new();
            };
            self.geometry.stripe_of(class, flbn)
        };
        let per_page = PAGE as u64 / format::SECTOR as u64;
        let (from, len) = (u64::from(sector), u64::from(piece.range.len));
        let block = piece.block * u64::from(self.geometry.block_sectors());
        let at = |page: u64| LostPage { stripe, position, page: page as usize };
        let inside = lost.range(at(from / per_page)..at((from + len).div_ceil(per_page)));
        inside
            .map(|page| {
                let skipped = (page.page as u64 * per_page).saturating_sub(from);
                let sector = block + u64::from(piece.range.start) + skipped;
                (*page, sector * format::SECTOR as u64)
            })
            .collect()
    }

    fn volumes_told(&self, volumes: &BTreeMap<VolumeId, Own>) -> String {
        let state = self.state.borrow();
        let told = volumes.iter().take(VOLUMES_TOLD).map(|(volume, own)| {
            let name = state.volumes.get(volume).map_or("?", |record| &record.name);
            let Own { pages, first } = own;
            format!("{} pages of volume {name}, the first at its byte {first}", pages.len())
        });
        let mut told: Vec<String> = told.collect();
        if volumes.len() > VOLUMES_TOLD {
            told.push(format!("and of {} more volumes", volumes.len() - VOLUMES_TOLD));
        }
        told.join("; ")
    }
}
