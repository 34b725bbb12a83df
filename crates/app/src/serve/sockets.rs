//! Where clients come in: bound before a pool is opened, listened at when all are.

use std::pin::pin;

use futures_util::future::{Either, select};
use io::net::{Address, Listener, NetError, Stream};
use io::uring::UringEnv;
use io::{Env, Nanos};

use super::address::{HttpAddress, NbdAddress};
use super::http::Http;
use super::log::{Kind, Log};
use super::{Options, Stop};
use crate::drives::{PATIENCE, RETRY};
use crate::error::{Failure, Outcome};

/// Pause after a failed accept. It fails for lack of descriptors or memory: trying again at
/// once would only burn the processor that others need to finish.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);

pub struct Sockets {
    nbd: Vec<Listener>,
    control: Listener,
    http: Option<Listener>,
}

impl Sockets {
    pub async fn bind(env: &UringEnv, options: &Options) -> Outcome<Sockets> {
        let mut nbd = Vec::new();
        for address in &options.nbd {
            nbd.push(bind(env, &address.0).await?);
        }
        let control = bind(env, &Address::Unix(options.control.clone())).await?;
        let http = match &options.http {
            None => None,
            Some(HttpAddress(address)) => Some(bind(env, &Address::Tcp(*address)).await?),
        };
        Ok(Sockets { nbd, control, http })
    }

    /// One line for each address.
    pub fn announce(&self, log: &Log) {
        for listener in &self.nbd {
            log.say(format_args!("nbd {}", NbdAddress(listener.address().clone())));
        }
        log.say(format_args!("control {}", self.control.address()));
        if let Some(http) = &self.http {
            log.say(format_args!("http {}", http.address()));
        }
    }

    /// Hands over those who come, until it is time to stop.
    pub fn listen(
        self,
        env: &UringEnv,
        (stop, log): (&Stop, &Log),
        nbd: impl Fn(Stream) + Clone + 'static,
        control: &Http,
        http: &Http,
    ) {
        for listener in self.nbd {
            let told = (stop.clone(), log.clone());
            env.spawn(accept(env.clone(), listener, told, nbd.clone()));
        }
        let others = [(Some(self.control), control), (self.http, http)];
        for (listener, server) in others {
            let server = server.clone();
            if let Some(listener) = listener {
                let take = move |stream| server.take(stream);
                let told = (stop.clone(), log.clone());
                env.spawn(accept(env.clone(), listener, told, take));
            }
        }
    }
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

/// Hands every connection to `take` until told to stop; the socket goes with the listener.
async fn accept(
    env: UringEnv,
    listener: Listener,
    (stop, log): (Stop, Log),
    take: impl Fn(Stream),
) {
    loop {
        match select(pin!(listener.accept()), pin!(stop.told())).await {
            Either::Left((Ok(stream), _)) => take(stream),
            Either::Left((Err(error), _)) => {
                let address = listener.address();
                let text = format_args!("{address}: can't accept a connection: {error}");
                log.warn(Kind::Accept, text);
                env.sleep_until(env.now() + ACCEPT_PAUSE).await;
            }
            Either::Right(_) => return,
        }
    }
}
