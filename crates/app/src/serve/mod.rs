//! `serve`: pools opened, volumes exported, requests answered, until a signal says stop.
//!
//! ```text
//! NBD client ── accept ── export::Server ── exports ── engine::Pool ── drives
//! steadyraid ── accept ── http ── control ── pools ───────┘
//! ```
//! One thread runs it all. The order matters: sockets are bound before a pool is opened,
//! because that is the cheaper thing to find impossible; and pools are closed only when no
//! request can reach them any more.

mod absent;
pub mod access;
pub mod add;
pub mod address;
pub mod alerts;
mod assemble;
mod child;
pub mod config;
mod control;
mod credit;
mod doings;
mod events;
mod exports;
pub mod faults;
mod fullness;
pub mod hole;
pub mod http;
mod limits;
pub mod log;
pub mod mem_pool;
mod metrics;
pub mod origin;
mod own_label;
pub mod rebuild_after;
mod reload;
mod replace;
pub(crate) mod room;
mod smart;
mod sockets;
pub mod spikes;
mod tls;
mod told;
pub mod wait_for_drives;
mod watch;
mod watchdog;
mod wrap;

use std::cell::Cell;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;

use classical::WriteHole;
use export::{Limits, Origin as ClientOrigin, Peer, Server, Transport};
use futures_util::future::{Either, join3, select};
use io::Env;
use io::net::Stream;
use io::signal::Signals;
use io::sync::Event;
use io::uring::UringEnv;

use self::absent::Absent;
use self::access::{Access, AccessOptions, Doorkeeper};
use self::address::{HttpAddress, NbdAddress};
use self::alerts::{Alert, Alerts, Severity};
use self::control::Control;
use self::doings::Doings;
use self::events::Followers;
use self::exports::Catalogue;
use self::http::Http;
use self::http::guard::{Guard, Token, TokenFile};
use self::limits::{ALERT_LAST_WORDS, CONTROL_CONNECTIONS_MAX, HTTP_CONNECTIONS_MAX};
use self::log::outlet::Deadline;
use self::log::{Kind, Log};
use self::mem_pool::MemPool;
use self::origin::Origin;
use self::rebuild_after::RebuildAfter;
use self::reload::Reload;
use self::sockets::Sockets;
use self::spikes::SpikeOptions;
use self::told::Told;
use self::wait_for_drives::WaitForDrives;
use self::wrap::Wrapper;
use crate::drives::name::DriveName;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::pools::Pool;
use crate::pools::held::{Held, Others};
use crate::pools::trouble::no_room;
use crate::render::view::{Health, Pool as PoolView};
use crate::size::Size;

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
    /// What is done about pools that another host has open.
    pub(crate) others: Others,
    pub rebuild_after: RebuildAfter,
    /// For drives that pools lack at the start.
    pub wait_for_drives: WaitForDrives,
    /// Who is told of events.
    pub alerts: Vec<Alert>,
    /// The log goes to syslog as well.
    pub syslog: bool,
    /// What is less than this stays out of the log.
    pub log_level: Severity,
    /// The control socket takes faults for drives.
    pub test_faults: bool,
    /// Where the file says so.
    pub origin: Origin,
}

impl Options {
    /// What the files of TLS and of the token hold. Refuses what would let strangers in at one of
    /// these addresses, and what can't be read.
    fn read_files(&self, nbd: &[NbdAddress]) -> Outcome<(Access, Option<Token>)> {
        let access = self.access.read(nbd).map_err(|failure| {
            let key = self.access.key_of(&failure.object);
            self.origin.blame(failure, &[key])
        })?;
        let of_token = |failure| self.origin.blame(failure, &["token-file"]);
        Ok((access, self.token.read().map_err(of_token)?))
    }
}

/// `reread` has the options as they are now, after SIGHUP; without it that signal ends the server.
pub(crate) async fn run(
    env: &UringEnv,
    options: Options,
    reread: Option<impl Fn() -> Outcome<Options>>,
) -> Outcome<Exit> {
    // Before the log, which has threads.
    let signals = Signals::new(env).map_err(|error| Failure::new("signals", error))?;
    let log = Log::start(options.syslog, options.log_level)?;
    let exit = serve(env, options, reread, &signals, &log).await;
    log.drain();
    exit
}

async fn serve(
    env: &UringEnv,
    options: Options,
    reread: Option<impl Fn() -> Outcome<Options>>,
    signals: &Signals,
    log: &Log,
) -> Outcome<Exit> {
    let doings = Rc::new(Doings::begin(env, log.clone()));
    let (access, token) = options.read_files(&options.nbd)?;
    let door = Doorkeeper::new(access);
    let sockets = Sockets::bind(env, &options).await?;
    let alerts = Rc::new(Alerts::start(&options.alerts, &options.origin, log)?);
    let wrapper = Wrapper::new(env, options.test_faults, log);
    let told = Told::by(signals);
    let opened = told.unless_to_stop(assemble::pools(env, &options, &wrapper, log)).await;
    let Some(assembled) = opened.transpose()? else { return Ok(ended(log)) };

    let catalogue = Catalogue::default();
    let server = Server::new(env.clone(), catalogue.clone(), Limits::default());
    let stop = Stop::default();
    let followers = Followers::new(env.clone(), stop.clone());
    let guard = Rc::new(Guard::anybody(token, env.now()));
    let reload = Reload {
        env: env.clone(),
        absent: Absent::new(env, &catalogue, assembled.here.clone()),
        options,
        door: door.clone(),
        guard: guard.clone(),
        log: log.clone(),
        alerts: alerts.clone(),
        catalogue: catalogue.clone(),
        followers: followers.clone(),
        wrapper: wrapper.clone(),
        doings: doings.clone(),
    };
    if !reload.begin(assembled) {
        return Ok(Exit::Failed);
    }
    sockets.announce(log);
    let (served, wrapped) = (catalogue.clone(), wrapper.clone());
    doings.count_connections_of(&server);
    let control = Control::new(env.clone(), served, wrapped, followers, doings.clone());
    let (task, clients) = (env.clone(), server.clone());
    let http = |guard, max| Http::new(env.clone(), control.clone(), guard, max);
    sockets.listen(
        env,
        (&stop, log),
        move |stream| serve_client(&task, (&clients, &doings), &door, stream),
        &http(Rc::new(Guard::owner()), CONTROL_CONNECTIONS_MAX),
        &http(guard, HTTP_CONNECTIONS_MAX),
    );
    ready(env, log);
    let watched = watch::watch(env, &catalogue, &wrapper, &stop);

    reload.until_told_to_stop(&told, &control, reread).await;
    let alerts_until = Deadline::after(ALERT_LAST_WORDS);
    hurry(&stop, &catalogue, &server, log);
    let wind_up = async {
        room::unless_out(&catalogue, join3(server.stopped(), control.idle(), watched)).await;
        close(&catalogue, log).await
    };
    let Some(exit) = told.unless_to_stop(wind_up).await else {
        log.fail(Kind::Server, &hurried());
        return Ok(Exit::Failed);
    };
    alerts.end(&alerts_until);
    wrapper.report().lines().for_each(|line| log.say(line));
    ended(log);
    Ok(exit)
}

/// Before a pool was open there is nothing to close: drives are as a crash leaves them.
fn ended(log: &Log) -> Exit {
    log.say("stopped");
    Exit::Ok
}

fn ready(env: &UringEnv, log: &Log) {
    log.ready();
    env.spawn(log::keep_alive(env.clone(), log.clone()));
}

fn hurried() -> Failure {
    Failure::new("serve", "stopped by a second signal, pools not closed")
        .hint("nothing that was flushed is lost; the next start takes longer")
}

/// Requests that have arrived are carried out, those that limits hold back too.
fn hurry(stop: &Stop, catalogue: &Catalogue, server: &Server<UringEnv, Catalogue>, log: &Log) {
    log.notify("STOPPING=1");
    stop.now();
    catalogue.pools().iter().for_each(Pool::hurry);
    server.shut_down();
}

/// Checkpoints every pool and marks it clean.
async fn close(catalogue: &Catalogue, log: &Log) -> Exit {
    let mut exit = Exit::Ok;
    for held in catalogue.held() {
        if let Err(failure) = close_one(&held).await {
            log.fail(Kind::Server, &failure);
            exit = exit.worst(Exit::Failed);
        }
    }
    exit
}

/// Without room for what has to be written a pool can't be closed. It is left as a crash leaves it.
async fn close_one(held: &Held) -> Outcome<()> {
    let Some(room) = &held.room else { return held.close().await };
    match select(pin!(held.close()), pin!(room.runs_out())).await {
        Either::Left((closed, _)) => closed,
        Either::Right((short, _)) => {
            let what = format!("not closed: {}", no_room(&short));
            Err(Failure::new(format!("pool {}", held.pool.name()), what)
                .hint("nothing that was flushed is lost; the next start takes longer"))
        }
    }
}

fn serve_client(
    env: &UringEnv,
    (server, doings): (&Server<UringEnv, Catalogue>, &Rc<Doings>),
    door: &Doorkeeper,
    stream: Stream,
) {
    // Somebody on this machine, let in by the mode of the socket, needs no encryption.
    let (who, tls, peer) = match stream.peer() {
        Ok(None) => {
            let origin = stream.peer_process().map_or(ClientOrigin::Unknown, ClientOrigin::Process);
            ("NBD client".to_owned(), None, Peer { transport: Transport::Unix, origin })
        }
        Ok(Some(peer)) => match door.admit(peer) {
            Some(tls) => {
                let origin = ClientOrigin::Address(peer.ip());
                (format!("NBD client {peer}"), tls, Peer { transport: Transport::Tcp, origin })
            }
            None => {
                doings.nbd_client_refused();
                let what = "refused: in none of the networks allowed";
                let text = format_args!("NBD client {peer}: {what}");
                return doings.log.warn(Kind::Refused, text);
            }
        },
        // It left before it came, so to speak.
        Err(error) => return doings.log.warn(Kind::Client, format_args!("NBD client: {error}")),
    };
    let (server, doings) = (server.clone(), doings.clone());
    doings.nbd_client_came();
    env.spawn_apart(async move {
        let served = server.serve_peer(stream, tls, peer).await;
        doings.nbd_client_left(&served);
        if let Err(error) = served {
            doings.log.warn(Kind::Client, format_args!("{who}: {error}"));
        }
    });
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

/// One line for the pool and each of its exports, which are one message: a pool may have more
/// exports than the log takes messages. Trouble goes to standard error as well.
fn announce_pool(pool: &Pool, log: &Log) {
    let view = pool.view();
    let usable = Size(view.space.usable);
    let spares = view.drives.iter().filter(|drive| drive.state == "spare").count();
    let (state, drives) = (view.state.name(), view.drives.len() - spares);
    let spares = if spares > 0 { format!("{spares} spares, ") } else { String::new() };
    let mut text = format!("pool {}: {state}, {drives} drives, {spares}{usable} usable", view.name);
    if view.state != Health::Online {
        say_loudly(&view, log);
    }
    for listing in exports::of_pool(pool) {
        text += &format!("\nexport {}: {}", listing.name, listing.description);
    }
    log.say(text);
}

fn say_loudly(pool: &PoolView, log: &Log) {
    let state = pool.state.name().to_uppercase();
    let reason = pool.reason.as_deref().unwrap_or("for an unknown reason");
    let text = format!("pool {}: {state}: {reason}", pool.name);
    let hint = pool.action.as_ref().map(|action| format!("\nhint: {action}"));
    log.warn(Kind::Server, text + &hint.unwrap_or_default());
}
