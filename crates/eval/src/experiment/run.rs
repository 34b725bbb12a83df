//! Runs cells on as many threads as asked for, and says how far it is.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::folder::{Concluded, Done, Folder, FolderError, Made, Results};
use super::queue::Queue;
use super::{Cell, Experiment, LoadSeed, Scale};

/// The cells of these experiments, each once, the dearest first.
pub fn plan(experiments: &[&Experiment], scale: Scale) -> Vec<Cell> {
    let mut cells: BTreeMap<String, Cell> = BTreeMap::new();
    for experiment in experiments {
        for cell in (experiment.cells)(scale) {
            let (name, parameters) = (cell.name.clone(), cell.parameters.clone());
            let first = cells.entry(cell.name.clone()).or_insert(cell);
            assert_eq!(first.parameters, parameters, "two cells are called {name}");
        }
    }
    let mut cells: Vec<Cell> = cells.into_values().collect();
    cells.sort_by(|one, other| other.cost.total_cmp(&one.cost));
    cells
}

/// Seconds of a core that cells take together, about.
pub fn cost(cells: &[Cell]) -> f64 {
    cells.iter().map(|cell| cell.cost).sum()
}

#[expect(clippy::disallowed_methods, reason = "how long a run takes, for who waits for it")]
fn now() -> Instant {
    Instant::now()
}

/// Seconds that this thread was on a core: others beside it on the machine make a cell last
/// longer, not cost more. None where the system doesn't tell.
fn on_a_core() -> Option<f64> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos: u64 = told.split(' ').next()?.parse().ok()?;
    Some(nanos as f64 / 1e9)
}

/// Runs one cell; what goes wrong in it is said in what it returns.
pub fn one(cell: &Cell, made: &Made, seed: LoadSeed) -> Done {
    let (began, was) = (now(), on_a_core());
    let worked = catch_unwind(AssertUnwindSafe(|| (cell.work)(seed)));
    let worked = worked.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("it panicked: {}", text.unwrap_or("without a word")))
    });
    let (figures, error) = match worked {
        Ok(figures) => (Some(figures), None),
        Err(error) => (None, Some(error)),
    };
    let lasted = began.elapsed().as_secs_f64();
    let taken = on_a_core().zip(was).map_or(lasted, |(now, was)| now - was);
    Done {
        cell: cell.name.clone(),
        made: made.clone(),
        parameters: cell.parameters.clone(),
        seconds: (taken * 1e3).round() / 1e3,
        figures,
        error,
    }
}

/// Runs what the folder does not have yet. Returns how many cells could not be run.
pub fn all(
    cells: &[Cell],
    folder: &Folder,
    jobs: usize,
    fresh: bool,
) -> Result<usize, FolderError> {
    let made = Made::here();
    let wanted = |cell: &&Cell| fresh || folder.found(cell, &made).is_none();
    let jobs = jobs.max(1);
    let queue = Queue::new(cells.iter().filter(wanted), jobs);
    let progress = Progress::new(cells.len(), &queue, jobs);
    let (queue, failed) = (Mutex::new(queue), Mutex::new(Ok(0)));
    thread::scope(|scope| {
        for thread in 0..jobs {
            let (queue, failed) = (&queue, &failed);
            let (progress, made) = (&progress, &made);
            scope.spawn(move || {
                loop {
                    let next = queue.lock().expect("no panic inside").take(thread);
                    let Some(cell) = next else { break };
                    let done = one(cell, made, LoadSeed::REPORTED);
                    progress.tell(cell, &done);
                    let written = folder.write(&done);
                    let mut failed = failed.lock().expect("no panic inside");
                    match (&mut *failed, written) {
                        (Ok(count), Ok(())) => *count += usize::from(done.error.is_some()),
                        (_, Err(error)) => {
                            *failed = Err(error);
                            queue.lock().expect("no panic inside").clear();
                        }
                        (Err(_), Ok(())) => {}
                    }
                }
            });
        }
    });
    progress.end();
    failed.into_inner().expect("no panic inside")
}

/// What follows from the cells that are there.
pub fn conclude(
    experiments: &[&Experiment],
    scale: Scale,
    folder: &Folder,
    command: String,
) -> Result<Results, FolderError> {
    let mut concluded = Vec::new();
    for experiment in experiments {
        let cells = (experiment.cells)(scale);
        let (found, missing) = folder.gather(&cells)?;
        concluded.push(Concluded {
            name: experiment.name.to_owned(),
            title: experiment.title.to_owned(),
            source: experiment.source.to_owned(),
            drives: drives(&cells),
            missing,
            conclusion: (experiment.conclude)(scale, &found),
        });
    }
    Ok(Results { made: Made::here(), scale, command, experiments: concluded })
}

/// What the drives of these cells knew of what is free, for the heading of their tables.
fn drives(cells: &[Cell]) -> String {
    let told = |of: bool| {
        let of = Some(of.into());
        cells.iter().filter(|cell| cell.parameters.get("told") == of.as_ref()).count()
    };
    match (told(true), told(false)) {
        (0, 0) => String::new(),
        (_, 0) => "Drives know what is free, and are settled.".to_owned(),
        (0, _) => "Drives were never told what is free (untold), and are settled.".to_owned(),
        (told, untold) => format!(
            "Drives are settled. {untold} of {} runs are on drives that were never told what is \
             free (untold); drives of the others, called told, clean or new, know it.",
            told + untold
        ),
    }
}

/// How far it is: a bar on a terminal, otherwise a line for each cell.
struct Progress {
    bar: ProgressBar,
    /// By what cells cost, so that the estimate does not wait for the long ones; milliseconds.
    state: Mutex<(f64, usize)>,
    all: usize,
    cost: f64,
    began: Instant,
}

impl Progress {
    fn new(cells: usize, queue: &Queue, jobs: usize) -> Progress {
        let cost = queue.cost();
        let (all, there) = (queue.count(), cells - queue.count());
        let about = HumanDuration(Duration::from_secs_f64(cost / jobs as f64));
        let there = if there > 0 { format!(", {there} are there already") } else { String::new() };
        eprintln!("{all} cells to run on {jobs} threads, about {about}{there}");
        let bar = ProgressBar::new((cost * 1e3) as u64);
        let style = "{bar:40} {percent:>3} % {elapsed} gone, {msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("a template"));
        let state = Mutex::new((0.0, 0));
        Progress { bar, state, all, cost, began: now() }
    }

    fn tell(&self, cell: &Cell, done: &Done) {
        let mut state = self.state.lock().expect("no panic inside");
        state.0 += cell.cost;
        state.1 += 1;
        let gone = self.began.elapsed().as_secs_f64();
        let left = gone * (self.cost / state.0 - 1.0).max(0.0);
        let left = HumanDuration(Duration::from_secs_f64(left));
        let how = done.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        let line = format!("{:>4}/{} {} {:.1} s{how}", state.1, self.all, cell.name, done.seconds);
        if self.bar.is_hidden() {
            eprintln!("{line}, about {left} left");
        } else {
            self.bar.println(line);
        }
        self.bar.set_position((state.0 * 1e3) as u64);
        self.bar.set_message(format!("about {left} left"));
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}
