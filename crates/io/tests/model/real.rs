//! Wrapped drives: exact in virtual time, never early in real time.

use futures_util::future::{join, join_all};
use io::mem::MemDrive;
use io::modelled::SizeMismatch;
use io::uring::UringEnv;
use io::virt::VirtEnv;
use io::{Buf, Drive, DriveErrorKind, Durability, Env, Modelled, Nanos};

use crate::toy::{SIZE, TIME, Toy};

type Wrapped<E> = Modelled<E, MemDrive>;

fn wrap<E: Env>(env: &E) -> Wrapped<E> {
    let (model, _) = Toy::with_period(Some(Nanos::from_millis(3)));
    Modelled::new(env, "model:toy", MemDrive::new("mem:0", SIZE, 4096), model).unwrap()
}

fn page(fill: u8) -> Buf {
    Buf::from_slice(&[fill; 4096])
}

/// Ten writes beside each other, one flush, one read.
async fn work<E: Env>(drive: &Wrapped<E>) {
    let write = |at: u64| drive.write(at * 4096, page(at as u8), Durability::Cached);
    assert!(join_all((0..10).map(write)).await.iter().all(Result::is_ok));
    drive.flush().await.unwrap();
    assert_eq!(&*drive.read(9 * 4096, 4096).await.unwrap(), &[9; 4096]);
}

#[test]
fn in_virtual_time_it_is_exact() {
    let env = VirtEnv::new(1);
    let drive = wrap(&env);
    env.block_on(work(&drive));
    assert_eq!(env.now(), Nanos(12 * TIME.0));
    let lateness = drive.lateness();
    assert_eq!((lateness.operations, lateness.max), (12, Nanos::ZERO));
    assert_eq!(drive.counters().completed, 12);
    assert_eq!((drive.name().as_str(), drive.geometry().align), ("model:toy", 4096));
    assert!(drive.geometry().rotational);
    env.crash();
}

#[test]
fn in_real_time_nothing_is_early_and_lateness_is_known() {
    let env = UringEnv::new().unwrap();
    let drive = wrap(&env);
    let start = env.now();
    env.block_on(work(&drive));
    let took = env.now().saturating_sub(start);
    assert!(took >= Nanos(12 * TIME.0), "{took:?}");
    let lateness = drive.lateness();
    assert_eq!(lateness.operations, 12);
    assert!(lateness.max > Nanos::ZERO && lateness.mean() <= lateness.max, "{lateness:?}");
    assert!(lateness.sum.0 <= 12 * took.0);
    env.drop_tasks();
}

#[test]
fn the_task_that_keeps_time_ends_with_the_drive() {
    let env = VirtEnv::new(1);
    let drive = wrap(&env);
    env.block_on(work(&drive));
    assert_eq!(env.tasks(), 1);
    drop(drive);
    env.block_on(env.sleep_until(env.now() + Nanos(1)));
    assert_eq!(env.tasks(), 0);
}

#[test]
fn a_slow_host_delays_answers_but_not_the_model() {
    let env = VirtEnv::new(1);
    let slow = Modelled::new(&env, "slow", wrap(&env), Toy::make().0).unwrap();
    env.block_on(async {
        // The outer model is done after 100 and 200 us, the inner one after 100 and 200: a third
        // operation makes the inner one busy.
        let inner_first = wrap(&env);
        let outer = Modelled::new(&env, "outer", inner_first.clone(), Toy::make().0).unwrap();
        let (busy, late) =
            join(inner_first.read(0, 4096), outer.write(0, page(1), Durability::Durable)).await;
        busy.unwrap();
        late.unwrap();
        assert_eq!(outer.lateness().max, TIME, "answered when both were done");
        let before = env.now();
        outer.read(0, 4096).await.unwrap();
        assert_eq!(env.now(), before + TIME, "the model was not held up");
    });
    assert_eq!(slow.lateness().operations, 0);
    env.crash();
}

#[test]
fn mistakes_are_refused() {
    let env = VirtEnv::new(1);
    let small = MemDrive::new("mem:0", SIZE / 2, 4096);
    let error = Modelled::new(&env, "m", small, Toy::make().0).unwrap_err();
    assert_eq!(error, SizeMismatch { actual: SIZE / 2, modelled: SIZE });
    let drive = wrap(&env);
    let error = env.block_on(drive.read(512, 4096)).unwrap_err();
    assert_eq!(error.kind, DriveErrorKind::OutOfRange);
    assert_eq!((env.now(), drive.counters().submitted), (Nanos::ZERO, 0));
    assert!(env.block_on(drive.read(0, 0)).unwrap().is_empty());
    env.crash();
}
