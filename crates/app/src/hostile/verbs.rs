//! What operators ask for, carried out on drives in memory: a pool is made, and grows, and has
//! volumes. Whatever they write, it is done or refused.

use std::cell::RefCell;

use clap::{CommandFactory, FromArgMatches};
use io::Geometry;
use io::mem::MemDrive;
use io::uring::{RealDrive, UringEnv};

use crate::api::route::{self, Target, Wrong};
use crate::cli::create::Wanted;
use crate::cli::{Cli, Verb, drive};
use crate::control::Request;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::pools::{self, Opening, Pool, add};
use crate::serve;
use crate::size::Size;

/// More drives, or larger ones, take too long: they are not made, and of `fusion` planned only.
const DRIVES_MAX: usize = 16;
const MADE_MAX: u64 = 96 << 20;
/// A plan of in-place arrays has their tables in memory.
const PLANNED_MAX: u64 = 1 << 40;
const ALIGN: u32 = 4096;

thread_local! {
    static COMMAND: RefCell<clap::Command> = RefCell::new(<Cli>::command());
    static ENV: UringEnv = UringEnv::new().expect("a ring");
}

/// A command line of `create` whose drives are sizes, and lines with what is asked of the pool: the
/// verbs `volume` and `drive add`, or calls of the API as `METHOD TARGET BODY`. The pool is made if
/// anything is asked of it. Whether all was taken and done.
pub fn verbs(text: &str) -> bool {
    let mut lines = text.lines();
    let Some(Verb::Create(args)) = lines.next().and_then(parse) else { return false };
    let asked: Vec<&str> = lines.collect();
    let Some(wanted) = taken(Wanted::of(&args)) else { return false };
    let Some(sizes) = sizes(args.drives()) else { return false };
    let most = if wanted.scheme().is_some() { PLANNED_MAX } else { u64::MAX };
    if sizes.len() > DRIVES_MAX || sizes.iter().any(|&size| size > most) {
        return false;
    }
    let env = ENV.with(UringEnv::clone);
    env.block_on(async {
        let named = |(at, &size): (usize, &u64)| {
            let geometry = Geometry { size, align: ALIGN, atomic: ALIGN, rotational: false };
            (format!("d{at}"), geometry)
        };
        let geometries: Vec<_> = sizes.iter().enumerate().map(named).collect();
        let plan = Box::pin(wanted.plan(&env, &geometries)).await;
        let Some(plan) = taken(plan) else { return false };
        assert!(plan.contains("usable: "), "{plan}");
        let small = sizes.iter().all(|&size| size <= MADE_MAX && size % u64::from(ALIGN) == 0);
        if asked.is_empty() || !small {
            return true;
        }
        let drives = memory("d", &sizes);
        // What is planned can be made.
        let made = Box::pin(wanted.make(&env, &drives)).await;
        made.unwrap_or_else(|failure| panic!("{failure}"));
        let opening = Opening::default();
        let opened = Box::pin(pools::open_drives(&env, drives, wanted.scheme(), opening)).await;
        let pool = opened.unwrap_or_else(|failure| panic!("{failure}"));
        let mut all = true;
        for line in asked {
            all &= Box::pin(ask(&env, &pool, line)).await;
            let _ = pool.view();
        }
        pool.close().await.unwrap_or_else(|failure| panic!("{failure}"));
        all
    })
}

/// A refusal says of what, and why, and is none with exit code 0.
fn taken<T>(outcome: Outcome<T>) -> Option<T> {
    let failure = match outcome {
        Ok(done) => return Some(done),
        Err(failure) => failure,
    };
    let Failure { object, what, .. } = &failure;
    assert!(!object.is_empty() && !what.is_empty(), "{failure:?}");
    assert!(matches!(failure.exit(), Exit::Usage | Exit::Failed), "{failure:?}");
    None
}

fn parse(line: &str) -> Option<Verb> {
    COMMAND.with_borrow_mut(|command| {
        let words = ["steadyraid"].into_iter().chain(line.split_whitespace());
        let matches = command.try_get_matches_from_mut(words);
        let verb = matches.and_then(|mut matches| <Cli>::from_arg_matches_mut(&mut matches));
        match verb {
            Ok(cli) => cli.told(),
            Err(refused) => {
                // Help is what a verb without its words is answered with.
                assert!(!refused.to_string().is_empty(), "{line}");
                None
            }
        }
    })
}

fn sizes(names: &[String]) -> Option<Vec<u64>> {
    let size = |name: &String| name.parse().ok().map(|Size(bytes)| bytes);
    names.iter().map(size).collect()
}

fn memory(name: &str, sizes: &[u64]) -> Vec<RealDrive> {
    let drive = |(at, &size)| MemDrive::new(format!("{name}{at}"), size, ALIGN).into();
    sizes.iter().enumerate().map(drive).collect()
}

/// Whether it was done.
async fn ask(env: &UringEnv, pool: &Pool, line: &str) -> bool {
    let request = match line.split_once(' ') {
        Some(("volume" | "drive", _)) => of_words(line),
        Some((method, rest)) => {
            let (target, body) = rest.split_once(' ').unwrap_or((rest, ""));
            of_call(method, target, body)
        }
        None => None,
    };
    let Some(request) = request else { return false };
    let Request::DriveAdd { new, force, array, .. } = &request else {
        return taken(pools::apply(pool, &request).await).is_some();
    };
    let Some(sizes) = sizes(new).filter(|sizes| sizes.len() <= DRIVES_MAX) else { return false };
    if sizes.iter().any(|&size| size > MADE_MAX || size % u64::from(ALIGN) != 0) {
        return false;
    }
    if taken(add::check_shape(pool, array.as_ref())).is_none() {
        return false;
    }
    let drives = memory("new", &sizes);
    let how = (array.as_ref(), *force);
    taken(serve::add::take_in(env, pool, (&drives, &drives), how).await).is_some()
}

fn of_words(line: &str) -> Option<Request> {
    match parse(line)? {
        Verb::Volume(verb) => verb.request().map(|(_, request)| request),
        Verb::Drive(drive::Verb::Add(args)) => Some(args.request(args.names().to_vec())),
        _ => None,
    }
}

fn of_call(method: &str, target: &str, body: &str) -> Option<Request> {
    match route::read(method, target, body.as_bytes()) {
        Ok(Target::Request(request)) => Some(request),
        Ok(Target::OpenApi | Target::Metrics) => None,
        Err(Wrong::Path(failure) | Wrong::Method(failure) | Wrong::Content(failure)) => {
            taken::<()>(Err(failure))?;
            None
        }
    }
}
