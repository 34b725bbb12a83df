//! Which of an experiment's drives a scheme uses, and in what groups.

use io::Env;
use schemes::plan::plan;
use schemes::scheme::steering::Staging;
use schemes::scheme::{Scheme, Spec};

/// Drives of a group where there are enough for two: FusionRAID §5.1's 6+1.
pub const GROUP: usize = 7;
const NAME: &str = "eval";

/// What is other than a scheme proposes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Bytes of a chunk.
    pub chunk: Option<u64>,
    /// Of `steering`.
    pub staging: Option<Staging>,
}

/// Whether so many drives make groups of [`GROUP`].
pub fn is_grouped(drives: usize) -> bool {
    drives >= 2 * GROUP
}

/// How a scheme is made of drives of these sizes, and how many of them it uses, the first ones. Of
/// 29 drives four groups of 6+1 and a spare (FusionRAID §5.1), if the scheme has groups; then
/// `raid5` is RAID50 and `raid6` RAID60. Otherwise as the scheme proposes, with as few spares as it
/// takes.
pub async fn lay_out<E: Env>(
    env: &E,
    scheme: Scheme,
    sizes: &[u64],
    variant: Variant,
) -> Result<(Spec, usize), String> {
    let drives = sizes.len();
    let scheme = match scheme {
        Scheme::Raid5 if is_grouped(drives) => Scheme::Raid50,
        Scheme::Raid6 if is_grouped(drives) => Scheme::Raid60,
        other => other,
    };
    // Mirrors are pairs, however many there are.
    let by_seven = is_grouped(drives) && scheme.has_groups() && scheme != Scheme::Raid10;
    let grouped = [drives, drives.saturating_sub(1)].map(|used| (used, Some(GROUP)));
    let grouped = grouped.into_iter().filter(|_| by_seven);
    let any = (1..=drives).rev().map(|used| (used, None));
    let mut refusal = None;
    for (used, width) in grouped.chain(any) {
        let usual = Spec::new(NAME, scheme);
        let chunk = variant.chunk.unwrap_or(usual.chunk);
        let staging = variant.staging.filter(|_| scheme == Scheme::Steering).or(usual.staging);
        let spec = Spec { width, chunk, staging, ..usual };
        match plan(env, &sizes[..used], &spec).await {
            Ok(_) => return Ok((spec, used)),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    let why = refusal.map_or_else(|| "no drives".to_owned(), |error| error.to_string());
    Err(format!("{} of {drives} drives: {why}", scheme.name()))
}

#[cfg(test)]
mod tests {
    use io::virt::VirtEnv;

    use super::*;

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
}
