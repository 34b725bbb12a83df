//! Which of an experiment's drives a scheme uses, and in what groups.

use futures_util::future::LocalBoxFuture;
use io::virt::VirtEnv;
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
///
/// Boxed: each program that awaited an `async fn` would compile all schemes for it.
pub fn lay_out<'a>(
    env: &'a VirtEnv,
    scheme: Scheme,
    sizes: &'a [u64],
    variant: Variant,
) -> LocalBoxFuture<'a, Result<(Spec, usize), String>> {
    Box::pin(laid_out(env, scheme, sizes, variant))
}

async fn laid_out(
    env: &VirtEnv,
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
