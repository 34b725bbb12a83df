//! Which drives a scheme uses, in what groups, and who takes part where.

use eval::array::System;
use eval::array::layout::{Variant, lay_out};
use eval::papers::ours::homes::Home;
use eval::papers::ours::rows;
use io::virt::VirtEnv;
use schemes::scheme::Scheme;

fn laid_out(scheme: Scheme, drives: usize) -> (&'static str, usize, Option<usize>) {
    let env = VirtEnv::new(1);
    let sizes = vec![1 << 30; drives];
    let (spec, used) =
        env.block_on(lay_out(&env, scheme, &sizes, Variant::default())).expect("a layout");
    (spec.scheme.name(), used, spec.width)
}

/// FusionRAID §5.1: a pool of 30, here with one drive less.
#[test]
fn twenty_nine_drives_are_four_groups_of_seven_and_a_spare() {
    assert_eq!(laid_out(Scheme::Raid5, 29), ("raid50", 28, Some(7)));
    for scheme in [Scheme::Raid50, Scheme::NRaid5, Scheme::ToleRaid, Scheme::Steering] {
        assert_eq!(laid_out(scheme, 29), (scheme.name(), 28, Some(7)));
    }
    assert_eq!(laid_out(Scheme::Raid10, 29), ("raid10", 28, None));
}

#[test]
fn eight_drives_are_one_group_or_what_the_scheme_proposes() {
    assert_eq!(laid_out(Scheme::Raid5, 8), ("raid5", 8, None));
    for scheme in Scheme::ALL {
        let (_, used, width) = laid_out(scheme, 8);
        assert_eq!((used, width), (8, None), "{}", scheme.name());
    }
    assert_eq!(laid_out(Scheme::Raid50, 9).1, 8, "one is left over");
}

#[test]
fn too_few_drives_are_refused() {
    let env = VirtEnv::new(1);
    let two = lay_out(&env, Scheme::Raid5, &[1 << 30; 2], Variant::default());
    assert!(env.block_on(two).is_err());
}

#[test]
fn whoever_has_no_row_has_a_line() {
    for home in Home::ALL {
        let (rows, notes) = rows::rows(home);
        for system in System::all() {
            let name = system.to_string();
            let told = notes.iter().any(|note| note.starts_with(&format!("{name}: ")));
            let takes_part = rows.iter().any(|row| row.system == system);
            assert!(takes_part != told, "{home:?}: {name}, {notes:?}");
        }
        assert!(rows.len() > 12, "{home:?}: {} rows", rows.len());
    }
}
