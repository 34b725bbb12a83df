//! Arbitrary bytes for a whole connection. Also used by the fuzzer.

use std::rc::Rc;

use export::ram::{RamExports, RamVolume};
use export::{Limits, Server};
use io::net::{ByteStream, duplex};
use io::virt::VirtEnv;
use io::{Buf, BufMut, Env, Nanos};

const SOCKET_BYTES: usize = 4096;
const VOLUME_BYTES: u64 = 256 << 10;

/// Sends `bytes` in pieces of `piece` bytes to a fresh server, takes whatever it answers,
/// then leaves. Panics if the server panics, never ends, or doesn't give back what requests
/// occupied. Returns how many bytes it answered.
pub fn feed(bytes: &[u8], piece: usize) -> usize {
    let env = VirtEnv::fifo(0);
    let exports = RamExports::new([("disk", RamVolume::new(VOLUME_BYTES))]);
    let server = Server::new(env.clone(), exports, Limits::default());
    let (ours, theirs) = duplex(SOCKET_BYTES);
    let answered = env.block_on(async {
        let ours = Rc::new(ours);
        let (done, answered) = io::sync::oneshot();
        let listening = ours.clone();
        env.spawn(async move { done.send(listen(&*listening).await) });
        let serving = server.clone();
        env.spawn(async move { drop(serving.serve(theirs).await) });
        for part in bytes.chunks(piece.max(1)) {
            if ours.send(vec![Buf::from_slice(part)]).await.is_err() {
                break;
            }
        }
        // All that can be answered is answered when the world has nothing else to do.
        env.sleep_until(env.now() + Nanos::from_secs(1)).await;
        ours.close();
        env.sleep_until(env.now() + Nanos::from_secs(1)).await;
        answered.await.expect("the listener ends when the connection does")
    });
    assert_eq!(server.connections(), 0, "the connection ends when the client leaves");
    assert_eq!(server.bytes_in_flight(), 0);
    env.crash();
    answered
}

async fn listen(stream: &impl ByteStream) -> usize {
    let mut total = 0;
    loop {
        match stream.recv(BufMut::with_len(4096), 0..4096).await.1 {
            Ok(0) | Err(_) => return total,
            Ok(len) => total += len,
        }
    }
}
