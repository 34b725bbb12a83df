//! Loads shaped like the traces of FusionRAID Table 4: their rate, share of writes and average
//! size of a write, in bursts. Sizes are drawn from a few that give the average; the sizes of
//! reads are not published.

use super::load::{Arrivals, Sizes, Stream};

const KIB: u64 = 1 << 10;

/// One of the paper's traces.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    pub name: &'static str,
    /// Requests a second, and how many of a hundred are writes.
    iops: u64,
    write_percent: u64,
    /// KiB of a write, and how many of a hundred have that size.
    write_kib: &'static [(u64, u64)],
    read_kib: u64,
}

/// The mix of FusionRAID §5.3.
pub const MIX: [Trace; 4] = [
    // 29.6 KB a write.
    Trace {
        name: "TPC-C",
        iops: 5764,
        write_percent: 75,
        write_kib: &[(16, 73), (64, 27)],
        read_kib: 16,
    },
    // 500.4 KB.
    Trace {
        name: "YCSB-A",
        iops: 1353,
        write_percent: 64,
        write_kib: &[(512, 95), (32, 5)],
        read_kib: 64,
    },
    // 80.1 KB.
    Trace {
        name: "TF",
        iops: 65,
        write_percent: 69,
        write_kib: &[(16, 22), (64, 40), (128, 38)],
        read_kib: 128,
    },
    // 23.8 KB.
    Trace {
        name: "VD",
        iops: 811,
        write_percent: 42,
        write_kib: &[(4, 40), (16, 25), (32, 15), (64, 20)],
        read_kib: 32,
    },
];

/// The load of FusionRAID Figure 13 (d): 13.1 KB a write.
pub const EXCHANGE: Trace = Trace {
    name: "Exchange",
    iops: 846,
    write_percent: 70,
    write_kib: &[(4, 31), (8, 31), (16, 25), (32, 10), (64, 3)],
    read_kib: 16,
};

impl Trace {
    /// The same, so many times as fast.
    pub fn times(self, times: u64) -> Trace {
        Trace { iops: self.iops * times, ..self }
    }

    /// Bytes of an average write.
    pub fn write_bytes(&self) -> f64 {
        let sum: u64 = self.write_kib.iter().map(|(kib, percent)| kib * percent).sum();
        sum as f64 * KIB as f64 / 100.0
    }

    /// The trace on a part of an array.
    pub fn stream(&self, first: u64, span: u64, seed: u64) -> Stream {
        let scale = |&(kib, percent): &(u64, u64)| (kib * KIB, percent);
        Stream {
            arrivals: Arrivals::Bursty,
            rate: self.iops,
            read_percent: 100 - self.write_percent,
            reads: Sizes::one(self.read_kib * KIB),
            writes: Sizes(self.write_kib.iter().map(scale).collect()),
            first,
            span,
            seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_have_the_published_average() {
        let published = [29.6, 500.4, 80.1, 23.8, 13.1];
        for (trace, kilobytes) in MIX.iter().chain([&EXCHANGE]).zip(published) {
            let off = trace.write_bytes() / 1e3 / kilobytes - 1.0;
            assert!(off.abs() < 0.01, "{}: {:.1} % off", trace.name, off * 100.0);
            let percent: u64 = trace.write_kib.iter().map(|(_, percent)| percent).sum();
            assert_eq!(percent, 100, "{}", trace.name);
        }
    }
}
