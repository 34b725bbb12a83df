//! What clones of a part have in common: its drive, which may be let go, or exchanged for another
//! that it was copied onto.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use io::gate::{Gate, Inside, Shut};
use io::twin::{OnItsWay, Twin, Writers};
use io::{AnyDrive, Drive};

pub(super) struct Slot {
    /// `None`: it was let go.
    drive: RefCell<Option<AnyDrive>>,
    /// Of the drive, or of the last one there was.
    name: RefCell<Rc<str>>,
    writers: Writers,
    /// Reads and flushes are inside.
    asked: Gate,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name.borrow())
    }
}

impl Slot {
    pub fn new(drive: AnyDrive) -> Rc<Slot> {
        let name = RefCell::new(drive.name().into());
        let (drive, asked) = (RefCell::new(Some(drive)), Gate::default());
        Rc::new(Slot { drive, name, writers: Writers::default(), asked })
    }

    pub fn drive(&self) -> Option<AnyDrive> {
        self.drive.borrow().clone()
    }

    pub fn begins_at(&self) -> u64 {
        self.drive.borrow().as_ref().map_or(0, AnyDrive::begins_at)
    }

    /// Of a part of another the other's, whatever has its place by now.
    pub fn name(&self) -> String {
        let drive = self.drive.borrow();
        drive.as_ref().map_or_else(|| self.name.borrow().to_string(), AnyDrive::name)
    }

    pub fn let_go(&self) {
        let name = self.name();
        self.name.replace(name.into());
        self.drive.borrow_mut().take();
    }

    pub fn is_let_go(&self) -> bool {
        self.drive.borrow().is_none()
    }

    pub fn set_twin(&self, twin: Option<Rc<Twin>>) {
        self.writers.set_twin(twin);
    }

    /// Waits until writes are over that began before it had its twin.
    pub async fn settle(&self) {
        self.writers.settle().await;
    }

    /// Waits while writes are held back; over when what is returned is dropped.
    pub async fn writing(&self, range: Range<u64>) -> OnItsWay {
        self.writers.write(range.start, range.end - range.start).await
    }

    /// The same of what writes nothing.
    pub async fn asking(&self) -> Inside {
        self.asked.enter().await
    }

    /// Holds back what writes nothing, and waits until all of that is over.
    pub async fn shut(&self) -> Shut {
        self.asked.shut().await
    }

    pub fn exchange(&self, drive: AnyDrive) {
        self.drive.replace(Some(drive));
    }
}
