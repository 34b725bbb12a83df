//! Which drives are slow just now: FusionRAID's straggler windows (§4.3) over the operations of
//! each drive, as the garbage-collection signal of schemes that steer round it.

use std::cell::RefCell;
use std::rc::Rc;

use io::{Env, Nanos};
use policy::spike::{Slot, SpikeConfig, SpikeDetector};

/// What counts as slow. FusionRAID's t and y (§5.1); two stragglers rather than its one or more,
/// because a steered drive is left alone for at least a window.
pub const CONFIG: SpikeConfig = SpikeConfig { window: 2_000_000, slots: 10, enter: 2, leave: 0 };
/// Drives are judged so often: a slot of the window.
pub const EVERY: Nanos = Nanos(CONFIG.window / CONFIG.slots as u64);

/// The watch over one drive; clones name the same.
#[derive(Clone)]
pub struct Watch {
    clock: Rc<dyn Fn() -> Nanos>,
    detector: Rc<RefCell<SpikeDetector>>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

impl Watch {
    pub fn new<E: Env>(env: &E) -> Watch {
        let (own, now) = (env.clone(), env.now().0);
        let detector = Rc::new(RefCell::new(SpikeDetector::new(CONFIG, now)));
        Watch { clock: Rc::new(move || own.now()), detector }
    }

    pub fn dispatch(&self) -> Slot {
        self.detector.borrow_mut().dispatch((self.clock)().0)
    }

    pub fn complete(&self, slot: Slot) {
        self.detector.borrow_mut().complete((self.clock)().0, slot);
    }

    pub fn is_slow(&self) -> bool {
        let mut detector = self.detector.borrow_mut();
        detector.advance((self.clock)().0);
        detector.is_unresponsive()
    }
}

#[cfg(test)]
mod tests {
    use io::virt::VirtEnv;

    use super::*;

    #[test]
    fn a_drive_with_stragglers_is_slow_until_they_are_answered() {
        let env = VirtEnv::new(1);
        let watch = Watch::new(&env);
        let wait = |nanos| env.block_on(env.sleep_until(env.now() + Nanos(nanos)));
        let slots = [watch.dispatch(), watch.dispatch()];
        assert!(!watch.is_slow());
        wait(CONFIG.window / 2);
        assert!(!watch.is_slow(), "they may be answered yet");
        wait(CONFIG.window);
        assert!(watch.is_slow());
        watch.complete(slots[0]);
        assert!(watch.is_slow(), "one is still out");
        watch.complete(slots[1]);
        assert!(!watch.is_slow());
    }
}
