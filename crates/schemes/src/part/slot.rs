//! What clones of a part have in common: its drive, which may be let go, or exchanged for another
//! that it was copied onto.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use io::Drive;
use io::gate::{Gate, Inside, Shut};
use io::twin::{Twin, Writing};

#[derive(Debug)]
pub(super) struct Slot<D> {
    /// `None`: it was let go.
    drive: RefCell<Option<D>>,
    /// Of the drive, or of the last one there was.
    name: RefCell<Rc<str>>,
    twin: RefCell<Option<Copied>>,
}

/// The drive is copied onto another.
#[derive(Clone)]
struct Copied {
    twin: Rc<Twin>,
    /// Reads and flushes are inside.
    asked: Gate,
}

impl std::fmt::Debug for Copied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} bytes to be copied of all", self.twin.left())
    }
}

impl<D: Drive> Slot<D> {
    pub fn new(drive: D) -> Rc<Slot<D>> {
        let name = RefCell::new(drive.name().into());
        Rc::new(Slot { drive: RefCell::new(Some(drive)), name, twin: RefCell::default() })
    }

    pub fn drive(&self) -> Option<D> {
        self.drive.borrow().clone()
    }

    pub fn begins_at(&self) -> u64 {
        self.drive.borrow().as_ref().map_or(0, D::begins_at)
    }

    /// Of a part of another the other's, whatever has its place by now.
    pub fn name(&self) -> String {
        let drive = self.drive.borrow();
        drive.as_ref().map_or_else(|| self.name.borrow().to_string(), D::name)
    }

    pub fn let_go(&self) {
        let name = self.name();
        self.name.replace(name.into());
        self.drive.borrow_mut().take();
    }

    pub fn is_let_go(&self) -> bool {
        self.drive.borrow().is_none()
    }

    /// From now on what is written is due to be copied again; `None`: nothing is any more.
    pub fn set_twin(&self, twin: Option<Rc<Twin>>) {
        self.twin.replace(twin.map(|twin| Copied { twin, asked: Gate::default() }));
    }

    /// Waits while writes are held back; over when what is returned is dropped.
    pub async fn writing(&self, range: Range<u64>) -> Option<Writing> {
        let copied = self.twin.borrow().clone();
        Some(copied?.twin.write(range.start, range.end - range.start).await)
    }

    /// The same of what writes nothing.
    pub async fn asking(&self) -> Option<Inside> {
        let copied = self.twin.borrow().clone();
        Some(copied?.asked.enter().await)
    }

    /// Holds back what writes nothing, and waits until all of that is over.
    pub async fn shut(&self) -> Option<Shut> {
        let copied = self.twin.borrow().clone();
        Some(copied?.asked.shut().await)
    }

    pub fn exchange(&self, drive: D) {
        self.drive.replace(Some(drive));
    }
}
