//! `serve`: pools opened, volumes exported, requests answered, until a signal says stop.
//!
//! ```text
//! NBD client ── accept ── export::Server ── exports ── engine::Pool ── drives
//! steadyraid ── accept ── http ── control ── pools ───────┘
//! ```
//! One thread runs it all. The order matters: sockets are bound before a pool is opened,
//! because that is the cheaper thing to find impossible; and pools are closed only when no
//! request can reach them any more.

pub mod access;
mod add;
pub mod address;
pub mod alerts;
mod assemble;
pub mod config;
mod control;
mod events;
mod exports;
pub mod faults;
pub mod hole;
pub mod http;
pub mod mem_pool;
mod metrics;
mod notify;
pub mod rebuild_after;
mod reload;
mod replace;
mod sink;
pub mod spikes;
mod tls;
mod wrap;

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;

use classical::WriteHole;
use export::{Limits, Server};
use futures_util::future::{Either, select};
use io::net::{Address, Listener, NetError, Stream};
use io::signal::{Signal, Signals};
use io::sync::Event;
use io::uring::UringEnv;
use io::{Env, Nanos};

use self::access::{AccessOptions, Doorkeeper};
use self::address::{HttpAddress, NbdAddress};
use self::alerts::{Alert, Alerts, Severity};
use self::control::Control;
use self::events::Followers;
use self::exports::Catalogue;
use self::http::Http;
use self::http::guard::{Guard, TokenFile};
use self::mem_pool::MemPool;
use self::rebuild_after::RebuildAfter;
use self::reload::Reload;
use self::sink::Sink;
use self::spikes::SpikeOptions;
use self::wrap::Wrapper;
use crate::drives::name::DriveName;
use crate::drives::{PATIENCE, RETRY};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::pools::Pool;
use crate::render::print;
use crate::render::view::{Health, Pool as PoolView};
use crate::size::Size;

/// Pause after a failed accept. It fails for lack of descriptors or memory: trying again at
/// once would only burn the processor that others need to finish.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);

/// Control connections at once. People and scripts ask one thing at a time.
const CONTROL_CONNECTIONS_MAX: usize = 16;
/// HTTP connections over TCP at once. A browser has up to six.
const HTTP_CONNECTIONS_MAX: usize = 32;

/// What is to be served, and where.
#[derive(Clone)]
pub struct Options {
    pub drives: Vec<DriveName>,
    pub mem_pools: Vec<MemPool>,
    pub nbd: Vec<NbdAddress>,
    /// Who may come over TCP.
    pub access: AccessOptions,
    pub control: PathBuf,
    /// The API and metrics over TCP.
    pub http: Option<HttpAddress>,
    /// Who shows it may change things over TCP.
    pub token: TokenFile,
    pub spikes: SpikeOptions,
    /// Of schemes that write in place.
    pub write_hole: WriteHole,
    pub rebuild_after: RebuildAfter,
    /// Who is told of events.
    pub alerts: Vec<Alert>,
    /// The log goes to syslog as well.
    pub syslog: bool,
    /// What is less than this stays out of the log.
    pub log_level: Severity,
    /// The control socket takes faults for drives.
    pub test_faults: bool,
}

/// `reread` has the options as they are now, after SIGHUP; without it that signal ends the server.
pub async fn run(
    env: &UringEnv,
    options: Options,
    reread: Option<impl Fn() -> Outcome<Options>>,
) -> Outcome<Exit> {
    let signals = Signals::new(env).map_err(|error| Failure::new("signals", error))?;
    let door = Doorkeeper::new(options.access.read(&options.nbd)?);
    let mut nbd = Vec::new();
    for address in &options.nbd {
        nbd.push(bind(env, &address.0).await?);
    }
    let control_socket = bind(env, &Address::Unix(options.control.clone())).await?;
    let token = options.token.read()?;
    let http_socket = match &options.http {
        None => None,
        Some(HttpAddress(address)) => Some(bind(env, &Address::Tcp(*address)).await?),
    };
    let sink = Rc::new(RefCell::new(Sink::new(options.syslog, options.log_level)?));
    let alerts = Rc::new(Alerts::start(&options.alerts)?);
    let wrapper = Wrapper::new(env, options.test_faults);
    let pools = assemble::pools(env, &options, &wrapper).await?;
    let Some(pools) = pools else { return Ok(Exit::Failed) };

    let catalogue = Catalogue::new(pools);
    let server = Server::new(env.clone(), catalogue.clone(), Limits::default());
    let stop = Stop::default();
    let followers = Followers::new(env.clone(), stop.clone());
    announce(&catalogue, &nbd, &control_socket, http_socket.as_ref());
    let guard = Rc::new(Guard::anybody(token, env.now()));
    let mut reload = Reload {
        env: env.clone(),
        options,
        door: door.clone(),
        guard: guard.clone(),
        sink,
        alerts: alerts.clone(),
        catalogue: catalogue.clone(),
        followers: followers.clone(),
        wrapper: wrapper.clone(),
    };
    catalogue.pools().iter().for_each(|pool| reload.follow(pool));
    let control = Control::new(env.clone(), catalogue.clone(), wrapper.clone(), followers);
    for listener in nbd {
        let (task, server, door) = (env.clone(), server.clone(), door.clone());
        let take = move |stream| serve_client(&task, &server, &door, stream);
        env.spawn(accept(env.clone(), listener, stop.clone(), take));
    }
    let talk =
        Http::new(env.clone(), control.clone(), Rc::new(Guard::owner()), CONTROL_CONNECTIONS_MAX);
    env.spawn(accept(env.clone(), control_socket, stop.clone(), move |stream| talk.take(stream)));
    if let Some(socket) = http_socket {
        let talk = Http::new(env.clone(), control.clone(), guard, HTTP_CONNECTIONS_MAX);
        env.spawn(accept(env.clone(), socket, stop.clone(), move |stream| talk.take(stream)));
    }
    print("ready\n");
    notify::send("READY=1");
    env.spawn(notify::keep_alive(env.clone()));

    while signals.next().await == Signal::Hangup
        && let Some(reread) = &reread
    {
        reload.again(reread).await;
    }
    notify::send("STOPPING=1");
    stop.now();
    server.shut_down();
    let wind_up = async {
        server.stopped().await;
        control.idle().await;
        close(&catalogue).await
    };
    match select(pin!(wind_up), pin!(told_twice(&signals))).await {
        Either::Left((exit, _)) => {
            alerts.end();
            print(&wrapper.report());
            print("stopped\n");
            Ok(exit)
        }
        Either::Right(_) => {
            Err(Failure::new("serve", "stopped by a second signal, pools not closed")
                .hint("nothing that was flushed is lost; the next start takes longer"))
        }
    }
}

/// Whoever wants the configuration read again doesn't want us to hurry.
async fn told_twice(signals: &Signals) {
    while signals.next().await == Signal::Hangup {}
}

/// Checkpoints every pool and marks it clean.
async fn close(catalogue: &Catalogue) -> Exit {
    let mut exit = Exit::Ok;
    for pool in catalogue.pools() {
        if let Err(failure) = pool.close().await {
            eprintln!("{failure}");
            exit = exit.worst(Exit::Failed);
        }
    }
    exit
}

/// Listens; waits for the last breath of a server that did.
async fn bind(env: &UringEnv, address: &Address) -> Outcome<Listener> {
    let deadline = env.now() + PATIENCE;
    loop {
        match Listener::bind(env, address) {
            Err(NetError::InUse { .. }) if env.now() < deadline => {
                env.sleep_until(env.now() + RETRY).await;
            }
            result => return result.map_err(refused),
        }
    }
}

fn refused(error: NetError) -> Failure {
    match error {
        NetError::InUse { address } => Failure::new(address, "another process listens there").hint(
            "if that is a server of yours, use or stop it; or choose with --nbd and --control",
        ),
        NetError::NotASocket { path } => Failure::new(path.display(), "exists and is not a socket")
            .hint("choose another path for the socket"),
        NetError::PathTooLong { path, max } => Failure::usage(
            path.display(),
            format!("is longer than the {max} bytes a socket path may have"),
        ),
        NetError::NobodyThere { address } => Failure::new(address, "nobody listens there"),
        NetError::Os { address, action, source } => {
            Failure::new(address, format!("can't {action} it: {source}"))
        }
    }
}

fn serve_client(
    env: &UringEnv,
    server: &Server<UringEnv, Catalogue>,
    door: &Doorkeeper,
    stream: Stream,
) {
    // Somebody on this machine, let in by the mode of the socket, needs no encryption.
    let (who, tls) = match stream.peer() {
        Ok(None) => ("NBD client".to_owned(), None),
        Ok(Some(peer)) => match door.admit(peer) {
            Some(tls) => (format!("NBD client {peer}"), tls),
            None => {
                let what = "refused: in none of the networks allowed";
                return eprintln!("warning: NBD client {peer}: {what}");
            }
        },
        // It left before it came, so to speak.
        Err(error) => return eprintln!("warning: NBD client: {error}"),
    };
    let server = server.clone();
    env.spawn(async move {
        if let Err(error) = server.serve_with(stream, tls).await {
            eprintln!("warning: {who}: {error}");
        }
    });
}

/// Hands every connection to `take` until told to stop; the socket goes with the listener.
async fn accept(env: UringEnv, listener: Listener, stop: Stop, take: impl Fn(Stream)) {
    loop {
        match select(pin!(listener.accept()), pin!(stop.told())).await {
            Either::Left((Ok(stream), _)) => take(stream),
            Either::Left((Err(error), _)) => {
                eprintln!("warning: {}: can't accept a connection: {error}", listener.address());
                env.sleep_until(env.now() + ACCEPT_PAUSE).await;
            }
            Either::Right(_) => return,
        }
    }
}

/// Tells the accepting tasks, and those who wait for events, that it is over.
#[derive(Clone, Default)]
struct Stop {
    told: Rc<Cell<bool>>,
    event: Event,
}

impl Stop {
    fn now(&self) {
        self.told.set(true);
        self.event.notify_all();
    }

    fn is_told(&self) -> bool {
        self.told.get()
    }

    async fn told(&self) {
        while !self.is_told() {
            self.event.wait().await;
        }
    }
}

/// One line for each pool, export and address. Trouble goes to standard error as well.
fn announce(catalogue: &Catalogue, nbd: &[Listener], control: &Listener, http: Option<&Listener>) {
    catalogue.pools().iter().for_each(announce_pool);
    for listener in nbd {
        print(&format!("nbd {}\n", NbdAddress(listener.address().clone())));
    }
    print(&format!("control {}\n", control.address()));
    if let Some(http) = http {
        print(&format!("http {}\n", http.address()));
    }
}

fn announce_pool(pool: &Pool) {
    let view = pool.view();
    let usable = Size(view.space.usable);
    let spares = view.drives.iter().filter(|drive| drive.state == "spare").count();
    let (state, drives) = (view.state.name(), view.drives.len() - spares);
    let spares = if spares > 0 { format!("{spares} spares, ") } else { String::new() };
    print(&format!("pool {}: {state}, {drives} drives, {spares}{usable} usable\n", view.name));
    if view.state != Health::Online {
        say_loudly(&view);
    }
    for listing in exports::of_pool(&view) {
        print(&format!("export {}: {}\n", listing.name, listing.description));
    }
}

fn say_loudly(pool: &PoolView) {
    let state = pool.state.name().to_uppercase();
    let reason = pool.reason.as_deref().unwrap_or("for an unknown reason");
    eprintln!("warning: pool {}: {state}: {reason}", pool.name);
    if let Some(action) = &pool.action {
        eprintln!("hint: {action}");
    }
}
