//! Serves memory over NBD on a Unix socket: `nbd_ram <socket> [size in MiB]`.
//!
//! The protocol server by itself, to measure it and to try clients on it.

use export::ram::{RamExports, RamVolume};
use export::{Limits, Server};
use io::Env;
use io::net::{Address, Listener};
use io::signal::Signals;
use io::uring::UringEnv;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: nbd_ram <socket> [size in MiB]")?;
    let mib: u64 = arguments.next().map_or(Ok(1024), |text| text.parse())?;

    let env = UringEnv::new()?;
    let signals = Signals::new(&env)?;
    let exports = RamExports::new([("ram", RamVolume::new(mib << 20))]);
    let server = Server::new(env.clone(), exports, Limits::default());
    let listener = Listener::bind(&env, &Address::Unix(path.into()))?;
    env.spawn(accept(env.clone(), server.clone(), listener));
    env.block_on(async {
        signals.next().await;
        server.shut_down();
        server.stopped().await;
    });
    env.drop_tasks();
    Ok(())
}

async fn accept(env: UringEnv, server: Server<UringEnv, RamExports>, listener: Listener) {
    while let Ok(stream) = listener.accept().await {
        let server = server.clone();
        env.spawn(async move {
            if let Err(error) = server.serve(stream).await {
                eprintln!("{error}");
            }
        });
    }
}
