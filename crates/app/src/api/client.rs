//! The client: HTTP over one Unix socket.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

use ureq::config::Config;
use ureq::http::Request;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Agent, Error};

use super::route::Call;

/// Longest answer: the status of thousands of drives and volumes. Keeps us from filling our
/// memory with what is not our server.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Of each direction.
const BUFFER_BYTES: usize = 32 << 10;

/// Sends calls to who is at the other end of `stream`.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
}

impl Client {
    pub fn new(stream: UnixStream) -> Client {
        let config = Config::builder()
            .http_status_as_error(false)
            .max_idle_connections_per_host(1)
            .proxy(None)
            .build();
        let connector = UnixConnector { stream: Mutex::new(Some(stream)) };
        Client { agent: Agent::with_parts(config, connector, DefaultResolver::default()) }
    }

    /// The answer's body, whatever its status: refusals are documents too.
    pub fn call(&self, call: &Call) -> Result<Vec<u8>, Error> {
        // The address names the host for the header only, and so that it needn't be looked up.
        let uri = format!("http://127.0.0.1{}", call.target);
        let request = Request::builder().method(call.method.name()).uri(uri);
        let mut answer = match &call.body {
            None => self.agent.run(request.body(())?)?,
            Some(body) => {
                let request = request.header("content-type", "application/json");
                self.agent.run(request.body(body.clone())?)?
            }
        };
        answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec()
    }
}

/// Hands the one connection out. There is no second: whoever listens at the path later may be
/// another server, which knows nothing of what this one was asked.
struct UnixConnector {
    stream: Mutex<Option<UnixStream>>,
}

impl fmt::Debug for UnixConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnixConnector")
    }
}

impl Connector<()> for UnixConnector {
    type Out = UnixTransport;

    fn connect(
        &self,
        _: &ConnectionDetails,
        _: Option<()>,
    ) -> Result<Option<UnixTransport>, Error> {
        let stream = self.stream.lock().map(|mut stream| stream.take());
        let Ok(Some(stream)) = stream else {
            let what = "the server hung up";
            return Err(Error::Io(io::Error::new(io::ErrorKind::ConnectionAborted, what)));
        };
        let buffers = LazyBuffers::new(BUFFER_BYTES, BUFFER_BYTES);
        Ok(Some(UnixTransport { stream, buffers, open: true }))
    }
}

struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
    open: bool,
}

impl fmt::Debug for UnixTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixTransport").field("open", &self.open).finish()
    }
}

/// Without timeouts: what is asked may take as long as a checkpoint of a busy pool, and a server
/// that dies closes its end.
impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
        self.stream.write_all(&self.buffers.output()[..amount]).map_err(Error::Io)
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
        let count = self.stream.read(self.buffers.input_append_buf()).map_err(Error::Io)?;
        self.buffers.input_appended(count);
        self.open = count > 0;
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        self.open
    }
}
