//! Arrays on drives that are known to hold zeroes need no first synchronization.

use io::Buf;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use schemes::any::AnyStore;
use schemes::part::{Part, on_parts};
use schemes::scheme::{OpenOptions, Scheme, Spec};
use schemes::store::Store;

const MIB: u64 = 1 << 20;
/// All schemes but `raid0` have something to agree about; eight drives suit all of them.
const DRIVES: u64 = 8;

/// Stripes that are owed after a pool was made, and what contradicts itself.
async fn made(env: &VirtEnv, scheme: Scheme, zeroed: bool) -> (u64, Vec<String>) {
    let part = |at: u64| {
        let disk = Disk::new(format!("d{at}"), 160 * MIB, 4096, at);
        let part = Part::whole(VirtDrive::attach(env, &disk, Latency::SSD));
        if zeroed { part.zeroed() } else { part }
    };
    let drives: Vec<_> = (0..DRIVES).map(part).collect();
    let inside = on_parts(env);
    Spec::new("tank", scheme).create(&inside, &drives).await.expect("it is made");
    let opened = AnyStore::open(&inside, drives, OpenOptions::default()).await;
    let store = opened.expect("it opens");
    let owed = store.owed();
    store.write(MIB + 512, Buf::from_slice(&[7; 70 << 10]), false).await.expect("written");
    store.flush().await.expect("flushed");
    (owed, store.audit(0, 4 * MIB).await)
}

#[test]
fn nothing_is_owed_on_drives_known_to_hold_zeroes() {
    for scheme in Scheme::ALL {
        let env = VirtEnv::new(1);
        let (owed, wrong) = env.block_on(made(&env, scheme, true));
        assert_eq!((owed, wrong), (0, Vec::new()), "{}", scheme.name());
    }
}

/// Whatever the others hold must be found out first.
#[test]
fn something_is_owed_on_other_drives() {
    for scheme in Scheme::ALL {
        let env = VirtEnv::new(1);
        // Replicas without parity, and logs, are made equal by no one before they are written;
        // without redundancy nothing can differ.
        if !matches!(scheme, Scheme::Alternate | Scheme::MirrorLog | Scheme::Raid0) {
            let (owed, _) = env.block_on(made(&env, scheme, false));
            assert!(owed > 0, "{}", scheme.name());
        }
    }
}
