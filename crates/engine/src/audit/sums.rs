//! Sums: every live page has one, and every copy of it reads so.

use std::collections::BTreeSet;

use format::StripeId;
use io::PAGE;

use super::map::{Use, Uses};
use super::report::{Findings, Rule};
use super::tables::Tables;
use crate::geometry::{BlockAddress, Class};
use crate::sums::Sums;

/// Without the drives.
pub fn check(tables: &Tables, uses: &Uses, findings: &mut Findings) {
    if !tables.sums.is_enabled() {
        return;
    }
    for (flbn, users) in uses {
        let Some((stripe, position, class)) = tables.locate(*flbn) else { continue };
        for page in pages(users) {
            let known = tables.sums.get(class, stripe, position, page) != 0;
            findings.check(known, Rule::Sums, || {
                let name = tables.stripe_name(stripe);
                format!("page {page} of block {position} of {name} is live and has no sum")
            });
        }
    }
    let memory = (tables.memory.sum_bytes, tables.sums.memory());
    findings.check(memory.0 == memory.1, Rule::Memory, || {
        format!("status says {} bytes of sums, not {}", memory.0, memory.1)
    });
}

fn pages(users: &[Use]) -> BTreeSet<usize> {
    let pages = |user: &Use| usize::from(user.sector) / 8..(user.end() as usize).div_ceil(8);
    users.iter().flat_map(pages).collect()
}

/// What was read of a page of a data block.
pub fn check_page(
    tables: &Tables,
    sums: &Sums,
    class: &Class,
    (stripe, position, page): (StripeId, usize, usize),
    (at, bytes): (BlockAddress, &[u8]),
    findings: &mut Findings,
) {
    let sum = sums.get(class, stripe, position, page);
    let crc = crc32c::crc32c(bytes);
    findings.check(sum == 0 || sum == crc.max(1), Rule::Sums, || {
        let (name, byte) = (tables.stripe_name(stripe), at.offset + (page * PAGE) as u64);
        let drive = at.drive;
        format!(
            "page {page} of block {position} of {name} (drive {drive}, byte {byte}): its CRC is \
             {crc:08x}, its sum {sum:08x}"
        )
    });
}
