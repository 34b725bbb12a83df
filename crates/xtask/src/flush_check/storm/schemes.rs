//! The pools that storms are let loose on.

/// A pool of a scheme: its drives, and what they can do without.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    pub name: &'static str,
    /// What `create` is told.
    pub create: &'static [&'static str],
    pub drives: usize,
    /// Any so many drives may be faulty at once (docs/schemes.md).
    pub bears: usize,
    pub writes: Writes,
}

/// What a crash may leave of what no FLUSH covers, when it meets a drive that is hurt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Old or new.
    Elsewhere,
    /// Where data lies, over several drives: what is being written when a drive is lost together
    /// with a crash may be neither old nor new.
    InPlace,
    /// Copies that differ: beside rot nothing tells which is right, and the page can't be read.
    Copies,
    /// Either, as data lies in pairs or in stripes with parity.
    Either,
}
use Writes::{Copies, Either, Elsewhere, InPlace};

impl Writes {
    pub fn tears_rows(self) -> bool {
        matches!(self, InPlace | Either)
    }

    pub fn leaves_copies(self) -> bool {
        matches!(self, Copies | Either)
    }
}

const fn pool(
    name: &'static str,
    create: &'static [&'static str],
    drives: usize,
    bears: usize,
    writes: Writes,
) -> Scheme {
    Scheme { name, create, drives, bears, writes }
}

/// Two groups, where there are groups; as few drives as the scheme is of use with.
pub const ALL: &[Scheme] = &[
    pool("fusion", &["--scheme", "fusion", "--width", "4"], 6, 1, Elsewhere),
    pool("fusion-p2", &["--scheme", "fusion", "--parity", "2", "--width", "5"], 7, 2, Elsewhere),
    pool("raid1", &["--scheme", "raid1"], 3, 2, Copies),
    pool("raid1-pair", &["--scheme", "raid1"], 2, 1, Copies),
    pool("raid10", &["--scheme", "raid10"], 4, 1, Copies),
    pool("raid4", &["--scheme", "raid4"], 4, 1, InPlace),
    pool("raid5", &["--scheme", "raid5"], 4, 1, InPlace),
    pool("raid6", &["--scheme", "raid6"], 5, 2, InPlace),
    pool("raid50", &["--scheme", "raid50"], 6, 1, InPlace),
    pool("raid60", &["--scheme", "raid60"], 8, 2, InPlace),
    pool("n-raid5", &["--scheme", "n-raid5"], 6, 1, InPlace),
    pool("tole-raid", &["--scheme", "tole-raid"], 4, 1, InPlace),
    pool("hybrid", &["--scheme", "hybrid"], 6, 1, Either),
    pool("cached-raid5", &["--scheme", "cached-raid5"], 5, 1, InPlace),
    pool("log-mirror", &["--scheme", "log-mirror"], 6, 1, InPlace),
    pool("hpda", &["--scheme", "hpda"], 5, 1, InPlace),
    pool("steering", &["--scheme", "steering"], 5, 1, InPlace),
    pool("steering-p2", &["--scheme", "steering", "--parity", "2"], 6, 2, InPlace),
    pool("alternate", &["--scheme", "alternate"], 4, 1, Elsewhere),
    pool("alternate-3", &["--scheme", "alternate", "--mirrors", "3"], 6, 2, Elsewhere),
    pool("mirror-log", &["--scheme", "mirror-log"], 6, 1, Elsewhere),
    pool("log-raid", &["--scheme", "log-raid"], 6, 1, Elsewhere),
];

/// Nothing tells these pools that bytes are wrong: the canary is spoiled here.
pub const CANARY: Scheme =
    pool("canary", &["--scheme", "raid1", "--checksums", "off"], 2, 1, Copies);

/// `all`, or one by its name.
pub fn named(name: &str) -> Result<Vec<Scheme>, String> {
    if name == "all" {
        return Ok(ALL.to_vec());
    }
    let found = ALL.iter().find(|scheme| scheme.name == name);
    found.map(|scheme| vec![*scheme]).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|scheme| scheme.name).collect();
        format!("--scheme {name}: there are all, {}", names.join(", "))
    })
}
