//! Records as one line for humans; `inspect` prints them.

use crate::record::Record;
use std::fmt;

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Record::Write { volume, block, range, place, crc } => {
                write!(f, "write {volume} block {block} sectors {range} at {place} crc {crc:08x}")
            }
            Record::Stripe { stripe, blocks, crcs } => {
                write!(f, "stripe {stripe} {}+{} [", blocks.len(), crcs.len() - blocks.len())?;
                for (at, owner) in blocks.iter().enumerate() {
                    let gap = if at == 0 { "" } else { " " };
                    match owner {
                        Some((volume, block)) => write!(f, "{gap}{volume}:{block}")?,
                        None => write!(f, "{gap}-")?,
                    }
                }
                f.write_str("]")
            }
            Record::Tuple { stripes, slots } => {
                f.write_str("tuple")?;
                stripes.iter().try_for_each(|stripe| write!(f, " {stripe}"))?;
                write!(f, " slots {}", slots.len())
            }
            Record::Convert { stripe } => write!(f, "convert {stripe}"),
            Record::Relocate { volume, block, range, from, to } => {
                write!(f, "relocate {volume} block {block} sectors {range} from {from} to {to}")
            }
            Record::Unmap { volume, block, range } => {
                write!(f, "unmap {volume} block {block} sectors {range}")
            }
            Record::UnmapBlocks { volume, first, count } => {
                write!(f, "unmap {volume} blocks {first}+{count}")
            }
            Record::Zone { zone, class: Some(class), round: 0 } => {
                write!(f, "zone {zone} to {class}")
            }
            Record::Zone { zone, class: Some(class), round } => {
                write!(f, "zone {zone} to {class} on drives of rounds up to {round}")
            }
            Record::Zone { zone, class: None, .. } => write!(f, "zone {zone} returned"),
            Record::Class { id, width, parity, layout_kind, layout_digest } => {
                let data = width.saturating_sub(u16::from(*parity));
                write!(f, "class {id} {data}+{parity} layout {layout_kind} {layout_digest:08x}")
            }
            Record::VolumeCreate { id, name, size, class } => {
                write!(f, "volume {id} '{name}' created, {size} bytes, {class}")
            }
            Record::VolumeResize { id, size } => write!(f, "volume {id} resized to {size} bytes"),
            Record::VolumeDelete { id } => write!(f, "volume {id} deleted"),
            Record::Setting { key, value } => write!(f, "setting {key} = {value}"),
            Record::VolumeLimits { id, iops, bytes_per_sec } => {
                write!(f, "volume {id} limited to {iops} op/s, {bytes_per_sec} B/s (0: no limit)")
            }
            Record::Sums { flbn, first, sums } => {
                write!(f, "sums of {flbn} pages {first}+{}", sums.len())
            }
            Record::Substitutes { stripe, places } => {
                write!(f, "substitutes of {stripe}:")?;
                let show = |(at, place): &(u8, crate::Flbn)| write!(f, " position {at} at {place}");
                if places.is_empty() {
                    f.write_str(" none")
                } else {
                    places.iter().try_for_each(show)
                }
            }
        }
    }
}
