//! Hosts and processes on one virtual world: a process can be stopped between any two steps of its
//! tasks, go on, or be killed; what its kernel took of drives' operations goes on without it.

pub mod path;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use format::{Holder, Uuid};
use io::virt::{VirtDrive, VirtEnv};
use io::{Env, Nanos};
use members::host::Claimant;

/// A machine.
#[derive(Clone)]
pub struct Host {
    inner: Rc<Machine>,
}

struct Machine {
    number: u8,
    /// Thousandths of the world's speed at which its clock runs.
    speed: u64,
    boot: Cell<u8>,
    next_process: Cell<u32>,
    living: RefCell<BTreeSet<u32>>,
    processes: RefCell<Vec<Process>>,
}

impl Host {
    pub fn new(number: u8, speed: u64) -> Host {
        let inner = Machine {
            number,
            speed,
            boot: Cell::new(1),
            next_process: Cell::new(1),
            living: RefCell::default(),
            processes: RefCell::default(),
        };
        Host { inner: Rc::new(inner) }
    }

    pub fn start(&self) -> Process {
        let number = self.inner.next_process.get();
        self.inner.next_process.set(number + 1);
        self.inner.living.borrow_mut().insert(number);
        let state = Running { host: self.clone(), number, ..Running::of(self.clone()) };
        let process = Process { state: Rc::new(state) };
        self.inner.processes.borrow_mut().push(process.clone());
        process
    }

    /// Kills all processes, and starts the machine again.
    pub fn reboot(&self) {
        self.inner.processes.take().iter().for_each(Process::kill);
        self.inner.boot.set(self.inner.boot.get() + 1);
    }
}

#[derive(Clone)]
pub struct Process {
    state: Rc<Running>,
}

struct Running {
    host: Host,
    number: u32,
    boot: u8,
    stopped: Cell<bool>,
    /// Before it is stopped.
    steps_left: Cell<Option<u64>>,
    killed: Cell<bool>,
    /// Tasks that were to run while it was stopped.
    waiting: RefCell<Vec<Waker>>,
}

impl Running {
    fn of(host: Host) -> Running {
        Running {
            boot: host.inner.boot.get(),
            host,
            number: 0,
            stopped: Cell::new(false),
            steps_left: Cell::new(None),
            killed: Cell::new(false),
            waiting: RefCell::default(),
        }
    }
}

impl Process {
    /// After so many steps of its tasks.
    pub fn stop_after(&self, steps: u64) {
        self.state.steps_left.set(Some(steps));
    }

    pub fn go_on(&self) {
        self.state.steps_left.set(None);
        self.state.stopped.set(false);
        self.state.waiting.take().into_iter().for_each(Waker::wake);
    }

    pub fn kill(&self) {
        self.state.killed.set(true);
        self.state.host.inner.living.borrow_mut().remove(&self.state.number);
    }

    pub fn claimant(&self) -> Claimant {
        let Running { host, number, boot, .. } = &*self.state;
        let machine = host.inner.clone();
        let holder = Holder {
            host: Uuid([machine.number; 16]),
            boot: Uuid([*boot; 16]),
            process: *number,
            namespace: 1,
            started: u64::from(*number),
            name: format!("host{}", machine.number),
        };
        let lives = move |holder: &Holder| machine.living.borrow().contains(&holder.process);
        Claimant { holder, lives: Rc::new(lives), wall_secs: Rc::new(|| 0) }
    }
}

/// The world as one process sees it.
#[derive(Clone)]
pub struct HostEnv {
    world: VirtEnv,
    process: Process,
}

impl HostEnv {
    pub fn new(world: &VirtEnv, process: &Process) -> HostEnv {
        HostEnv { world: world.clone(), process: process.clone() }
    }

    fn speed(&self) -> u64 {
        self.process.state.host.inner.speed
    }
}

impl Env for HostEnv {
    type Drive = VirtDrive;
    type Root = Self;

    fn root(&self) -> Self {
        self.clone()
    }

    fn now(&self) -> Nanos {
        Nanos(self.world.now().0 / 1_000 * self.speed())
    }

    fn recent(&self) -> Nanos {
        self.now()
    }

    fn sleep_until(&self, deadline: Nanos) -> impl Future<Output = ()> + 'static {
        let speed = self.speed();
        self.world.sleep_until(Nanos(deadline.0.div_ceil(speed) * 1_000))
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let task = Box::pin(task);
        self.world.spawn(Step { process: self.process.clone(), task });
    }

    fn random(&self) -> u64 {
        self.world.random()
    }
}

/// A task that takes no step while its process is stopped, and none once it is killed.
struct Step {
    process: Process,
    task: Pin<Box<dyn Future<Output = ()>>>,
}

impl Future for Step {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let state = &self.process.state;
        if state.killed.get() {
            return Poll::Ready(());
        }
        let left = state.steps_left.get();
        state.steps_left.set(left.map(|left| left.saturating_sub(1)));
        if left == Some(0) {
            state.stopped.set(true);
        }
        if state.stopped.get() {
            state.waiting.borrow_mut().push(context.waker().clone());
            return Poll::Pending;
        }
        self.task.as_mut().poll(context)
    }
}
