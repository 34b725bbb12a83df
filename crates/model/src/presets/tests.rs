//! Presets are named, sized and seeded as they promise. Their figures: `sim`, `tests/drives.rs`.

use io::drive::Durability;
use io::env::Nanos;
use io::model::{Command, Completion, Tag};

use super::Preset;
use crate::ssd::Fill;

#[test]
fn names_are_read_as_written() {
    for preset in Preset::ALL {
        assert_eq!(preset.to_string().parse(), Ok(preset));
    }
    let unknown = "floppy".parse::<Preset>().unwrap_err();
    assert!(unknown.contains("'floppy'") && unknown.contains("dc-sata"), "{unknown}");
}

#[test]
fn a_drive_has_just_the_size_asked_for() {
    for preset in Preset::ALL {
        let (least, _) = preset.sizes();
        for size in [least, preset.default_size(), preset.default_size() + (7 << 20)] {
            let model = preset.build(size, Fill::Fresh, 1).unwrap();
            assert_eq!(model.geometry().size, size, "{preset}");
            assert_eq!(model.geometry().rotational, preset == Preset::Hdd10k);
        }
    }
}

#[test]
fn sizes_that_do_not_work_are_refused_with_those_that_do() {
    for preset in Preset::ALL {
        let (least, most) = preset.sizes();
        for size in [0, least - 1, least + 1, most + 1, u64::MAX] {
            let error = preset.build(size, Fill::Fresh, 1).err().expect("refused");
            assert!(error.contains(preset.name()) && error.contains("choose"), "{error}");
        }
    }
}

/// Completions of a few thousand scattered writes and reads.
fn trace(preset: Preset, fill: Fill, seed: u64) -> Vec<Completion> {
    let mut model = preset.build(preset.sizes().0.max(64 << 20), fill, seed).unwrap();
    let mut done = Vec::new();
    for index in 0..5_000u64 {
        let now = Nanos::from_micros(index * 40);
        let offset = index * 7_919 % 16_000 * 4096;
        model.advance(now, &mut done);
        let command = match index % 3 {
            0 => Command::Read { offset, len: 4096 },
            _ => Command::Write { offset, len: 4096, durability: Durability::Cached },
        };
        model.submit(now, Tag(index), command);
    }
    while let Some(next) = model.next_event().filter(|_| model.in_flight() > 0) {
        model.advance(next, &mut done);
    }
    assert_eq!(done.len(), 5_000);
    done
}

#[test]
fn the_seed_makes_the_drive() {
    for preset in Preset::ALL {
        assert_eq!(trace(preset, Fill::Fresh, 1), trace(preset, Fill::Fresh, 1), "{preset}");
    }
    for preset in [Preset::ConsumerSata, Preset::Hdd10k] {
        assert_ne!(trace(preset, Fill::Fresh, 1), trace(preset, Fill::Fresh, 2), "{preset}");
    }
    let aged = |seed| trace(Preset::DcSata, Fill::Aged, seed);
    assert_eq!(aged(1), aged(1));
    assert_ne!(aged(1), aged(2));
}
