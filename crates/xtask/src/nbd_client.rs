//! A small NBD client over a Unix socket: fixed newstyle handshake, simple replies.
//!
//! It shares no code with our server on purpose: a misreading of the protocol would otherwise
//! be made twice and cancel out. Requests may be pipelined: [`Client::send_write`] and the like
//! return a cookie, [`Client::receive`] says which request was answered.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943; // "NBDMAGIC"
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054; // "IHAVEOPT"
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

const FIXED_NEWSTYLE: u32 = 1;
const NO_ZEROES: u32 = 2;
const OPT_GO: u32 = 7;
const REP_ACK: u32 = 1;
const REP_INFO: u32 = 3;
const INFO_EXPORT: u16 = 0;

const CMD_READ: u16 = 0;
const CMD_WRITE: u16 = 1;
const CMD_DISC: u16 = 2;
const CMD_FLUSH: u16 = 3;
const CMD_WRITE_ZEROES: u16 = 6;

const COMMAND_FUA: u16 = 1;

/// What the server says it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities(u16);

impl Abilities {
    pub fn flush(self) -> bool {
        self.0 & (1 << 2) != 0
    }
    pub fn fua(self) -> bool {
        self.0 & (1 << 3) != 0
    }
    pub fn write_zeroes(self) -> bool {
        self.0 & (1 << 6) != 0
    }
    /// A flush on one connection covers what every other connection was told is written.
    pub fn multi_connection(self) -> bool {
        self.0 & (1 << 8) != 0
    }
}

/// The answer to one request. `error` is the NBD error number, 0 for success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
}

/// One connection to one export.
pub struct Client {
    reader: BufReader<UnixStream>,
    writer: BufWriter<UnixStream>,
    next_cookie: u64,
    pub size: u64,
    pub abilities: Abilities,
}

fn protocol(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

/// Did the server go away (as opposed to answering wrongly)?
pub fn is_lost(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

impl Client {
    /// How long a request may go unanswered before the server counts as hung.
    const PATIENCE: Duration = Duration::from_secs(60);

    pub fn connect(socket: &Path, export: &str) -> io::Result<Client> {
        Client::connect_within(socket, export, Client::PATIENCE)
    }

    /// The same with another patience.
    pub fn connect_within(socket: &Path, export: &str, patience: Duration) -> io::Result<Client> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut client = Client {
            reader: BufReader::with_capacity(256 << 10, stream.try_clone()?),
            writer: BufWriter::with_capacity(256 << 10, stream),
            next_cookie: 1,
            size: 0,
            abilities: Abilities(0),
        };
        client.greet()?;
        client.go(export)?;
        Ok(client)
    }

    fn greet(&mut self) -> io::Result<()> {
        if self.u64()? != INIT_MAGIC || self.u64()? != OPTION_MAGIC {
            return Err(protocol("the server does not greet as an NBD server"));
        }
        let flags = u32::from(self.u16()?);
        if flags & FIXED_NEWSTYLE == 0 {
            return Err(protocol("the server does not speak fixed newstyle NBD"));
        }
        let ours = FIXED_NEWSTYLE | (flags & NO_ZEROES);
        self.writer.write_all(&ours.to_be_bytes())
    }

    fn go(&mut self, export: &str) -> io::Result<()> {
        let name_length = u32::try_from(export.len()).map_err(|_| protocol("name too long"))?;
        self.writer.write_all(&OPTION_MAGIC.to_be_bytes())?;
        self.writer.write_all(&OPT_GO.to_be_bytes())?;
        self.writer.write_all(&(name_length + 6).to_be_bytes())?;
        self.writer.write_all(&name_length.to_be_bytes())?;
        self.writer.write_all(export.as_bytes())?;
        self.writer.write_all(&0u16.to_be_bytes())?; // no information requests
        self.writer.flush()?;
        loop {
            let (kind, payload) = self.option_reply()?;
            match kind {
                REP_ACK => return Ok(()),
                REP_INFO => self.take_information(&payload)?,
                error => {
                    let why = String::from_utf8_lossy(&payload).into_owned();
                    return Err(protocol(format!("export '{export}': {error:#x} {why}")));
                }
            }
        }
    }

    fn option_reply(&mut self) -> io::Result<(u32, Vec<u8>)> {
        if self.u64()? != OPTION_REPLY_MAGIC || self.u32()? != OPT_GO {
            return Err(protocol("not an answer to NBD_OPT_GO"));
        }
        let kind = self.u32()?;
        let length = self.u32()?;
        if length > 64 << 10 {
            return Err(protocol(format!("an option reply of {length} bytes")));
        }
        let mut payload = vec![0; length as usize];
        self.reader.read_exact(&mut payload)?;
        Ok((kind, payload))
    }

    fn take_information(&mut self, payload: &[u8]) -> io::Result<()> {
        let (kind, rest) = payload.split_first_chunk().ok_or_else(|| protocol("empty info"))?;
        if u16::from_be_bytes(*kind) != INFO_EXPORT {
            return Ok(());
        }
        let (size, rest) = rest.split_first_chunk().ok_or_else(|| protocol("short info"))?;
        let flags = rest.first_chunk().ok_or_else(|| protocol("short info"))?;
        self.size = u64::from_be_bytes(*size);
        self.abilities = Abilities(u16::from_be_bytes(*flags));
        Ok(())
    }

    fn u16(&mut self) -> io::Result<u16> {
        let mut bytes = [0; 2];
        self.reader.read_exact(&mut bytes)?;
        Ok(u16::from_be_bytes(bytes))
    }

    fn u32(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.reader.read_exact(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn u64(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.reader.read_exact(&mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn request(&mut self, flags: u16, command: u16, offset: u64, length: u32) -> io::Result<u64> {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.writer.write_all(&REQUEST_MAGIC.to_be_bytes())?;
        self.writer.write_all(&flags.to_be_bytes())?;
        self.writer.write_all(&command.to_be_bytes())?;
        self.writer.write_all(&cookie.to_be_bytes())?;
        self.writer.write_all(&offset.to_be_bytes())?;
        self.writer.write_all(&length.to_be_bytes())?;
        Ok(cookie)
    }

    pub fn send_write(&mut self, offset: u64, data: &[u8], fua: bool) -> io::Result<u64> {
        let length = u32::try_from(data.len()).expect("a request is at most 32 MiB");
        let cookie = self.request(fua_flag(fua), CMD_WRITE, offset, length)?;
        self.writer.write_all(data)?;
        Ok(cookie)
    }

    /// Announces a write of `length` bytes and sends only the first of them.
    pub fn send_part_of_write(&mut self, offset: u64, length: u32, part: &[u8]) -> io::Result<u64> {
        let cookie = self.request(0, CMD_WRITE, offset, length)?;
        self.writer.write_all(part)?;
        Ok(cookie)
    }

    pub fn send_read(&mut self, offset: u64, length: u32) -> io::Result<u64> {
        self.request(0, CMD_READ, offset, length)
    }

    /// Takes the next bytes that a read was answered with.
    pub fn take(&mut self, data: &mut [u8]) -> io::Result<()> {
        self.reader.read_exact(data)
    }

    pub fn send_zeroes(&mut self, offset: u64, length: u32, fua: bool) -> io::Result<u64> {
        self.request(fua_flag(fua), CMD_WRITE_ZEROES, offset, length)
    }

    pub fn send_flush(&mut self) -> io::Result<u64> {
        self.request(0, CMD_FLUSH, 0, 0)
    }

    /// Hands what was sent so far to the kernel.
    pub fn push(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// The next answer to anything but a read.
    pub fn receive(&mut self) -> io::Result<Reply> {
        if self.u32()? != REPLY_MAGIC {
            return Err(protocol("not a simple reply"));
        }
        Ok(Reply { error: self.u32()?, cookie: self.u64()? })
    }

    /// Reads and waits. No other request may be unanswered.
    pub fn read(&mut self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        match self.try_read(offset, data)? {
            0 => Ok(()),
            error => Err(protocol(format!(
                "read of {} bytes at {offset} failed with error {error}",
                data.len()
            ))),
        }
    }

    /// The same; returns the NBD error number of a read that failed, 0 if it did not.
    pub fn try_read(&mut self, offset: u64, data: &mut [u8]) -> io::Result<u32> {
        let length = u32::try_from(data.len()).expect("a request is at most 32 MiB");
        let cookie = self.send_read(offset, length)?;
        let error = self.answer_to("read", cookie)?;
        if error == 0 {
            self.take(data)?;
        }
        Ok(error)
    }

    /// Writes and waits. No other request may be unanswered. Returns the NBD error number.
    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> io::Result<u32> {
        let cookie = self.send_write(offset, data, fua)?;
        self.answer_to("write", cookie)
    }

    /// Flushes and waits. No other request may be unanswered. Returns the NBD error number.
    pub fn flush(&mut self) -> io::Result<u32> {
        let cookie = self.send_flush()?;
        self.answer_to("flush", cookie)
    }

    /// Waits for the answer to the only request. Returns the NBD error number.
    fn answer_to(&mut self, what: &str, cookie: u64) -> io::Result<u32> {
        self.push()?;
        let reply = self.receive()?;
        if reply.cookie != cookie {
            return Err(protocol(format!("{what} {cookie} answered as {}", reply.cookie)));
        }
        Ok(reply.error)
    }

    /// Says goodbye; the server closes the connection.
    pub fn disconnect(mut self) -> io::Result<()> {
        self.request(0, CMD_DISC, 0, 0)?;
        self.push()
    }
}

fn fua_flag(fua: bool) -> u16 {
    if fua { COMMAND_FUA } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that plays back what it is given, whatever it is asked.
    fn play(script: Vec<u8>) -> io::Result<Client> {
        let folder = std::env::temp_dir().join(format!("nbd-client-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let socket = folder.join(format!("{}.sock", script.len()));
        let _ = std::fs::remove_file(&socket);
        let listener = std::os::unix::net::UnixListener::bind(&socket)?;
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("the client connects");
                stream.write_all(&script).expect("the client listens");
                let mut rest = Vec::new();
                let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
                let _ = stream.read_to_end(&mut rest);
            });
            Client::connect(&socket, "pool/volume")
        });
        let _ = std::fs::remove_file(&socket);
        outcome
    }

    fn greeting() -> Vec<u8> {
        let mut script = Vec::new();
        script.extend(INIT_MAGIC.to_be_bytes());
        script.extend(OPTION_MAGIC.to_be_bytes());
        script.extend(3u16.to_be_bytes());
        script
    }

    fn option_reply(kind: u32, payload: &[u8]) -> Vec<u8> {
        let mut script = Vec::new();
        script.extend(OPTION_REPLY_MAGIC.to_be_bytes());
        script.extend(OPT_GO.to_be_bytes());
        script.extend(kind.to_be_bytes());
        script.extend(u32::try_from(payload.len()).expect("short").to_be_bytes());
        script.extend(payload);
        script
    }

    #[test]
    fn handshake_learns_size_and_abilities() {
        let mut script = greeting();
        let mut info = INFO_EXPORT.to_be_bytes().to_vec();
        info.extend((1u64 << 30).to_be_bytes());
        info.extend(0x010du16.to_be_bytes());
        script.extend(option_reply(REP_INFO, &info));
        script.extend(option_reply(REP_ACK, &[]));
        let client = play(script).expect("a good handshake");
        assert_eq!(client.size, 1 << 30);
        assert!(client.abilities.flush() && client.abilities.fua());
        assert!(client.abilities.multi_connection() && !client.abilities.write_zeroes());
    }

    #[test]
    fn refused_export_and_foreign_server_are_errors() {
        let mut script = greeting();
        script.extend(option_reply(0x8000_0006, b"no such export"));
        let refused = play(script).err().expect("refused").to_string();
        assert!(refused.contains("no such export"), "{refused}");

        let foreign = play(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
        assert!(foreign.err().expect("foreign").to_string().contains("greet"));
    }
}
