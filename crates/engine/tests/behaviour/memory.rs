//! What the maps of a large pool take, on drives that forget the data itself.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use engine::CreateSpec;
use io::virt::VirtEnv;
use io::{Buf, BufMut, Drive, DriveError, Durability, Env, Geometry, Nanos};

use crate::common::{MIB, World, make_pool};

const SIZE: u64 = 2100 * MIB;
/// Labels, journal and metadata lie before it or in the last megabytes.
const KEPT: u64 = 100 * MIB;

/// Keeps the pages of both ends; the rest reads as zeroes, which is all that is written there.
#[derive(Clone, Default)]
struct EndsOnly {
    pages: Rc<RefCell<BTreeMap<u64, Buf>>>,
}

impl Drive for EndsOnly {
    fn geometry(&self) -> Geometry {
        Geometry { size: SIZE, align: 4096, atomic: 4096, rotational: false }
    }

    fn name(&self) -> String {
        "ends".into()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        let mut bytes = BufMut::zeroed(len);
        for (number, chunk) in bytes.chunks_mut(4096).enumerate() {
            if let Some(page) = self.pages.borrow().get(&(offset / 4096 + number as u64)) {
                chunk.copy_from_slice(page);
            }
        }
        Ok(bytes.freeze())
    }

    async fn write(&self, offset: u64, data: Buf, _: Durability) -> Result<(), DriveError> {
        if offset < KEPT || offset + 4 * MIB > SIZE {
            for at in (0..data.len()).step_by(4096) {
                let page = Buf::from_slice(&data[at..at + 4096]);
                self.pages.borrow_mut().insert((offset + at as u64) / 4096, page);
            }
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), DriveError> {
        Ok(())
    }

    async fn discard(&self, _: u64, _: u64) -> Result<(), DriveError> {
        Ok(())
    }
}

#[derive(Clone)]
struct ForgetfulEnv(VirtEnv);

impl Env for ForgetfulEnv {
    type Drive = EndsOnly;
    type Root = Self;

    fn root(&self) -> Self {
        self.clone()
    }

    fn now(&self) -> Nanos {
        self.0.now()
    }

    fn recent(&self) -> Nanos {
        self.0.recent()
    }

    fn sleep_until(&self, deadline: Nanos) -> impl Future<Output = ()> + 'static {
        self.0.sleep_until(deadline)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.spawn(task);
    }

    fn random(&self) -> u64 {
        self.0.random()
    }
}

struct Forgetful {
    env: ForgetfulEnv,
    drives: Vec<EndsOnly>,
}

impl World for Forgetful {
    type Env = ForgetfulEnv;

    fn env(&self) -> &ForgetfulEnv {
        &self.env
    }

    fn kill(&self) {
        self.env.0.crash();
    }

    fn drives(&self) -> Vec<EndsOnly> {
        self.drives.clone()
    }
}

/// At most 0.01 % of the data is memory, where data is written in stripes of 6+1.
#[test]
fn maps_take_a_ten_thousandth_of_the_data() {
    let env = ForgetfulEnv(VirtEnv::new(23));
    let world = Forgetful { env, drives: (0..7).map(|_| EndsOnly::default()).collect() };
    let executor = world.env.0.clone();
    executor.block_on(async {
        let pool = make_pool(&world, &CreateSpec::new("tank")).await;
        let size = 8 << 30;
        pool.volume_create("v", size, None, None).await.expect("room");
        let volume = pool.volume("v").expect("made");
        let stripe = 6 * 65536;
        let zeroes = Buf::zeroed(stripe);
        for offset in (0..100_800 * 65536).step_by(stripe) {
            volume.write(offset, zeroes.clone(), false).await.expect("write");
        }
        let mapped = pool.volumes()[0].mapped_bytes;
        assert_eq!(mapped, 100_800 * 65536);
        let memory = pool.memory();
        assert_eq!((memory.patches, memory.patch_bytes), (0, 0));
        let bytes = memory.map_bytes + memory.space_bytes + memory.tuple_bytes;
        let part = bytes as f64 / mapped as f64;
        assert!(part <= 0.0001, "{bytes} bytes for {mapped}: {:.4} %", part * 100.0);
        assert!(memory.map_bytes >= mapped / 65536 * 5, "a report that leaves nothing out");
    });
    world.kill();
}
