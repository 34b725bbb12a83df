//! Each rule broken in one place of the tables of a sound pool: the audit names it, and only it.

use format::{Flbn, Patch, Place, SectorRange, StripeId, VolumeId};
use io::Buf;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};

use super::report::{AuditReport, Findings, Rule};
use super::{check_tables, map, tables::Tables};
use crate::api::{CreateSpec, OpenOptions};
use crate::pool::{Pool, create};
use crate::space::Kind;

const BLOCK: u64 = 64 << 10;

/// Tables of a small pool that has a bit of everything.
fn sample() -> Tables {
    let env = VirtEnv::new(3);
    let disks: Vec<Disk> =
        (0..6).map(|at| Disk::new(format!("disk{at}"), 40 << 20, 4096, at)).collect();
    let drives = || -> Vec<VirtDrive> {
        disks.iter().map(|disk| VirtDrive::attach(&env, disk, Latency::SSD)).collect()
    };
    let tables = env.block_on(async {
        create(&env, &drives(), &CreateSpec::new("tank")).await.expect("made");
        let opened = Pool::open(&env, drives(), OpenOptions::default()).await;
        let pool = opened.expect("opens");
        pool.volume_create("v", 16 << 20, None, None).await.expect("room");
        let volume = pool.volume("v").expect("made");
        let write = |at, len| volume.write(at, Buf::zeroed(len), false);
        // A RAID stripe, a replicated block, patches on the first, a packed block of its own.
        write(0, 5 << 16).await.expect("write");
        write(9 * BLOCK, 1 << 16).await.expect("write");
        write(BLOCK + 512, 1024).await.expect("write");
        write(BLOCK + 8192, 4096).await.expect("write");
        write(20 * BLOCK, 4096).await.expect("write");
        volume.trim(2 * BLOCK, 4096, false).await.expect("trim");
        write(30 * BLOCK, 5 << 16).await.expect("write");
        volume.trim(30 * BLOCK, 5 * BLOCK, false).await.expect("trim");
        Tables::of(&pool)
    });
    env.crash();
    tables
}

/// What is found in the sample after something was done to it.
fn findings(tamper: impl FnOnce(&mut Tables)) -> Vec<super::Finding> {
    let mut tables = sample();
    let mut found = Findings::default();
    check_tables(&tables, &mut AuditReport::default(), &mut found);
    assert!(found.conclude(AuditReport::default()).is_ok(), "the sample is sound");
    tamper(&mut tables);
    let mut found = Findings::default();
    check_tables(&tables, &mut AuditReport::default(), &mut found);
    found.conclude(AuditReport::default()).expect_err("the fault is found").findings
}

/// Exactly the rules broken, in any order, and words of the first of these.
fn expect(rules: &[Rule], words: &str, tamper: impl FnOnce(&mut Tables)) {
    let found = findings(tamper);
    let text: Vec<String> = found.iter().map(ToString::to_string).collect();
    for rule in rules {
        assert!(found.iter().any(|f| f.rule == *rule), "nothing about {rule:?}: {text:#?}");
    }
    assert!(found.iter().all(|f| rules.contains(&f.rule)), "only {rules:?}: {text:#?}");
    let first = found.iter().filter(|f| f.rule == rules[0]);
    assert!(first.into_iter().any(|f| f.text.contains(words)), "no '{words}' in {text:#?}");
}

fn first(tables: &Tables, kind: Kind) -> StripeId {
    let is = |(stripe, zone): &(StripeId, &crate::space::image::ZoneImage)| {
        zone.kinds[stripe.index as usize] == kind
    };
    tables.stripes().find(is).expect("the sample has one").0
}

fn kind_of(tables: &mut Tables, stripe: StripeId) -> &mut Kind {
    let zone = tables.space.zones[stripe.zone as usize].as_mut().expect("assigned");
    &mut zone.kinds[stripe.index as usize]
}

fn block(tables: &mut Tables, number: u64) -> &mut crate::map::image::BlockImage {
    tables.map.blocks.iter_mut().find(|block| block.block == number).expect("mapped")
}

#[test]
fn entries_that_point_astray() {
    expect(&[Rule::Entries, Rule::Live, Rule::Space], "is not a data block of any zone", |t| {
        let last = Flbn(Flbn::MAX.0 - 5);
        block(t, 9).base = Some(Place { flbn: last, replicated: true, sector: 0 });
    });
    expect(&[Rule::Entries], "volume v block 9 sectors 0+128", |t| {
        let base = block(t, 9).base.as_mut().expect("whole");
        base.replicated = false;
    });
    expect(&[Rule::Entries], "it is beyond the end of the volume", |t| {
        t.volumes.get_mut(&VolumeId(1)).expect("the only one").size = 20 * BLOCK;
    });
    expect(&[Rule::Entries, Rule::Space], "is Free", |t| {
        let stripe = first(t, Kind::Raid);
        *kind_of(t, stripe) = Kind::Free;
    });
    expect(&[Rule::Entries], "mapped blocks of chunk 0 of volume v", |t| {
        t.map.chunks[0].mapped += 1;
    });
}

#[test]
fn sectors_that_belong_to_two() {
    expect(&[Rule::Sharing, Rule::Live], "block 0 sectors 0+128 and", |t| {
        let base = block(t, 0).base;
        block(t, 9).base = base;
    });
    // Next to one another is what packed blocks are for.
    let tables = sample();
    let uses = map::check(&tables, &mut Findings::default());
    assert!(uses.values().any(|users| users.len() > 1), "pages of several blocks in one");
}

#[test]
fn patch_lists_out_of_order() {
    let patches = |t: &mut Tables, change: &dyn Fn(&mut Vec<Patch>)| {
        let list = block(t, 1).patches.as_mut().expect("patched");
        assert_eq!(list.len(), 2);
        change(list);
    };
    expect(&[Rule::Patches], "volume v block 1: patch 16+8 comes before 1+2", |t| {
        patches(t, &|list| list.swap(0, 1));
    });
    expect(&[Rule::Patches, Rule::Live], "is not inside the block", |t| {
        patches(t, &|list| list[1].range = SectorRange { start: 124, len: 8 });
    });
    expect(&[Rule::Patches, Rule::Live, Rule::Space], "a base that is not there", |t| {
        let patched = block(t, 2);
        patched.base = None;
    });
    expect(&[Rule::Memory], "patches: ", |t| t.map.patches += 1);
    expect(
        &[Rule::Patches, Rule::Memory, Rule::Live, Rule::Space, Rule::Entries],
        "not there",
        |t| {
            let at = t.map.blocks.iter().position(|block| block.patches.is_some());
            let lost = t.map.blocks.remove(at.expect("patched"));
            t.map.astray.push((lost.volume, lost.block));
        },
    );
}

#[test]
fn sums_that_are_off() {
    expect(&[Rule::Live], "live sectors are noted, the map has", |t| {
        let stripe = first(t, Kind::Raid);
        let zone = t.space.zones[stripe.zone as usize].as_mut().expect("assigned");
        zone.live[stripe.index as usize] += 8;
    });
    expect(&[Rule::Live], "live sectors of c0", |t| t.space.classes[0].live_sectors -= 1);
    expect(&[Rule::Space], "free stripes of c0", |t| t.space.classes[0].free += 1);
    expect(&[Rule::Space], "status: free bytes", |t| t.status.free += BLOCK);
    expect(&[Rule::Space], "status: bytes used", |t| t.status.used -= 512);
    expect(&[Rule::Space], "blocks in limbo", |t| t.space.blocks.2 += 6);
    expect(&[Rule::Space], "are promised to writes", |t| t.space.promised = 8);
    expect(&[Rule::Memory], "the map: ", |t| {
        t.memory.map_bytes = 100;
        t.map.memory.0 = 100;
    });
    expect(&[Rule::Memory], "map chunks", |t| t.map.chunk_count = 9);
}

#[test]
fn tables_beyond_their_bounds() {
    let found = findings(|t| {
        t.memory.patch_budget_bytes = 0;
        let list = block(t, 1).patches.as_mut().expect("patched");
        list.resize(200_000, list[0]);
    });
    let text: Vec<String> = found.iter().map(ToString::to_string).collect();
    let words = ["bytes of patches: 2000020, at most", "patches of volume v block 1: 200000"];
    for words in words {
        assert!(text.iter().any(|line| line.contains(words)), "no '{words}' in {text:#?}");
    }
    expect(&[Rule::Memory], "map chunks: 1, at most 0", |t| t.meta.chunks_max = 0);
    expect(&[Rule::Checkpoint], "of the metadata area is used or free 2 times", |t| {
        let slot = t.meta.free[0];
        t.meta.free.push(slot);
    });
}

#[test]
fn stripes_in_two_states() {
    let zone = |t: &mut Tables, change: &dyn Fn(&mut crate::space::image::ZoneImage)| {
        change(t.space.zones.iter_mut().flatten().next().expect("assigned"));
    };
    expect(&[Rule::Space], "is Free and 2 times in the list of free stripes", |t| {
        zone(t, &|zone| zone.free.push(zone.free[0]));
    });
    expect(&[Rule::Space], "is Free and 0 times in the list of free stripes", |t| {
        zone(t, &|zone| zone.free.truncate(zone.free.len() - 1));
    });
    expect(&[Rule::Space], "is Limbo and 0 times in the queue of limbo", |t| {
        assert!(!t.space.limbo.is_empty(), "the stripe that was trimmed");
        t.space.limbo.clear();
    });
    expect(&[Rule::Space], "assigned 0 times, listed as unassigned 0 times", |t| {
        t.space.unassigned.pop();
    });
    expect(&[Rule::Space], "zones of c0 with free stripes", |t| {
        t.space.classes[0].zones_with_free.push(7);
    });
}

#[test]
fn tuples_that_do_not_match() {
    let tuple = |t: &mut Tables, change: &dyn Fn(&mut crate::space::image::TupleState)| {
        change(&mut t.space.tuples[0].1);
    };
    expect(&[Rule::Tuples], "blocks of its stripe 1 are not matched one to one", |t| {
        tuple(t, &|tuple| tuple.slots[0] = tuple.slots[1]);
    });
    expect(&[Rule::Tuples], "on one drive", |t| {
        // Turned around until some slot has both copies on one drive.
        let (key, class) = (t.space.tuples[0].0, t.classes.values().next().expect("one").clone());
        let other = t.space.tuples[0].1.stripes[1];
        let data = class.data();
        let clash = (0..data).flat_map(|a| (0..data).map(move |b| (a, b)));
        let mut clash = clash.filter(|&(a, b)| class.drive(key, a) == class.drive(other, b));
        let (slot, position) = clash.next().expect("two stripes of 6 drives have common ones");
        tuple(t, &|tuple| {
            let at = tuple.slots.iter().position(|s| usize::from(s[0]) == position);
            tuple.slots.swap(slot, at.expect("matched"));
        });
    });
    expect(&[Rule::Entries], "pages of slot", |t| {
        tuple(t, &|tuple| tuple.filled.iter_mut().for_each(|pages| *pages = 0));
    });
    expect(&[Rule::Tuples], "a slot has 17 pages written, a block has 16", |t| {
        tuple(t, &|tuple| tuple.filled[0] = 17);
    });
    expect(&[Rule::Tuples], "spare slots: ", |t| tuple(t, &|tuple| tuple.unhanded += 1));
    expect(&[Rule::Tuples], "packed slots: ", |t| tuple(t, &|tuple| tuple.packing += 1));
    expect(&[Rule::Tuples], "writes are on their way to it", |t| {
        tuple(t, &|tuple| tuple.inflight += 1);
    });
    expect(&[Rule::Tuples], "the order of access lacks", |t| t.space.lru.clear());
    expect(&[Rule::Tuples], "it has 1 stripes, not p+1", |t| {
        tuple(t, &|tuple| tuple.stripes.truncate(1));
    });
}

#[test]
fn live_pages_without_sums() {
    expect(&[Rule::Sums], "is live and has no sum", |t| {
        let stripe = first(t, Kind::Raid);
        let class = t.zone(stripe).expect("assigned").1.clone();
        t.sums.forget(&class, stripe);
    });
}
