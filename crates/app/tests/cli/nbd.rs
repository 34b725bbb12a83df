//! As much of an NBD client as the tests need: choose an export, read, write, flush, trim.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const OPT_LIST: u32 = 3;
const OPT_GO: u32 = 7;
const REP_ACK: u32 = 1;
const REP_SERVER: u32 = 2;
const REP_INFO: u32 = 3;

pub const FUA: u16 = 1;
/// The server, or the volume, is served no more.
pub const SHUTDOWN: u32 = 108;

pub trait Socket: Read + Write {}
impl Socket for UnixStream {}
impl Socket for TcpStream {}

/// A MiB of that byte.
pub fn data(byte: u8) -> Vec<u8> {
    vec![byte; 1 << 20]
}

/// A connection; transmission phase after [`Client::go`].
pub struct Client {
    socket: Box<dyn Socket>,
    pub size: u64,
}

impl Client {
    pub fn unix(path: &Path) -> Client {
        Client::greet(Box::new(UnixStream::connect(path).expect("the server listens")))
    }

    pub fn tcp(address: &str) -> Client {
        Client::greet(Box::new(TcpStream::connect(address).expect("the server listens")))
    }

    /// Connected to an export.
    pub fn open(path: &Path, export: &str) -> Client {
        let mut client = Client::unix(path);
        client.go(export).expect("the export exists");
        client
    }

    fn greet(socket: Box<dyn Socket>) -> Client {
        let mut client = Client { socket, size: 0 };
        let greeting = client.take(18);
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        client.put(&3u32.to_be_bytes());
        client
    }

    /// Says what no client says, and waits until it is hung up on.
    pub fn speak_nonsense(mut self) {
        self.put(&[0xff; 64]);
        let mut nothing = Vec::new();
        let _ = self.socket.read_to_end(&mut nothing);
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.socket.read_exact(&mut bytes).expect("the server answers");
        bytes
    }

    fn put(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the server takes it");
    }

    fn number(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }

    fn option(&mut self, option: u32, data: &[u8]) {
        self.put(OPTION_MAGIC);
        self.put(&option.to_be_bytes());
        self.put(&(data.len() as u32).to_be_bytes());
        self.put(data);
    }

    fn option_reply(&mut self) -> (u32, Vec<u8>) {
        self.take(12);
        let (kind, len) = (self.number(), self.number());
        let data = self.take(len as usize);
        (kind, data)
    }

    pub fn list(&mut self) -> Vec<String> {
        self.option(OPT_LIST, &[]);
        let mut names = Vec::new();
        loop {
            match self.option_reply() {
                (REP_SERVER, data) => {
                    let len = u32::from_be_bytes(data[..4].try_into().expect("four")) as usize;
                    names.push(String::from_utf8(data[4..4 + len].to_vec()).expect("text"));
                }
                (kind, _) => {
                    assert_eq!(kind, REP_ACK);
                    return names;
                }
            }
        }
    }

    /// Chooses an export; an error is the reply's number.
    pub fn go(&mut self, export: &str) -> Result<(), u32> {
        let mut data = (export.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(export.as_bytes());
        data.extend_from_slice(&[0, 0]);
        self.option(OPT_GO, &data);
        loop {
            match self.option_reply() {
                (REP_INFO, info) if info[..2] == [0, 0] => {
                    self.size = u64::from_be_bytes(info[2..10].try_into().expect("eight"));
                }
                (REP_INFO, _) => {}
                (REP_ACK, _) => return Ok(()),
                (error, _) => return Err(error),
            }
        }
    }

    /// Sends a request and reads its reply: an error number, 0 for none.
    fn request(&mut self, flags: u16, command: u16, offset: u64, len: u32, data: &[u8]) -> u32 {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&command.to_be_bytes());
        bytes.extend_from_slice(&7u64.to_be_bytes());
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(data);
        self.put(&bytes);
        assert_eq!(self.number(), REPLY_MAGIC);
        let error = self.number();
        self.take(8);
        error
    }

    #[track_caller]
    pub fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        assert_eq!(self.request(0, 0, offset, len, &[]), 0, "read at {offset}");
        self.take(len as usize)
    }

    /// What a read gives, or the error that it ends with.
    pub fn try_read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, u32> {
        match self.request(0, 0, offset, len, &[]) {
            0 => Ok(self.take(len as usize)),
            error => Err(error),
        }
    }

    /// Of a read that is refused.
    pub fn read_error(&mut self, offset: u64, len: u32) -> u32 {
        self.try_read(offset, len).err().unwrap_or(0)
    }

    #[track_caller]
    pub fn write(&mut self, offset: u64, data: &[u8], flags: u16) {
        let error = self.try_write(offset, data, flags);
        assert_eq!(error, 0, "write at {offset}");
    }

    /// What a write ends with; 0 if it is done.
    pub fn try_write(&mut self, offset: u64, data: &[u8], flags: u16) -> u32 {
        self.request(flags, 1, offset, data.len() as u32, data)
    }

    /// What writing zeroes that take space ends with; 0 if it is done.
    pub fn try_zero(&mut self, offset: u64, len: u32) -> u32 {
        const NO_HOLE: u16 = 2;
        self.request(NO_HOLE, 6, offset, len, &[])
    }

    #[track_caller]
    pub fn flush(&mut self) {
        assert_eq!(self.request(0, 3, 0, 0, &[]), 0, "flush");
    }

    #[track_caller]
    pub fn trim(&mut self, offset: u64, len: u32) {
        assert_eq!(self.request(0, 4, offset, len, &[]), 0, "trim at {offset}");
    }

    /// Says goodbye, which a server is owed.
    pub fn disconnect(mut self) {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0, 0, 0, 2]);
        bytes.extend_from_slice(&[0; 20]);
        self.put(&bytes);
        // The server has let go of the volume when it closes its side.
        assert_eq!(self.socket.read(&mut [0]).unwrap_or(0), 0);
    }
}
