//! Messages as bytes, written out by hand from the protocol's description.

use export::Extent;
use export::nbd::proto::options::{self, ClientFlags, ClientOption, InfoRequest, ReplyKind};
use export::nbd::proto::request::{self, Command, Request};
use export::nbd::proto::{Errno, ProtocolError, reply};

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

#[test]
fn greeting_and_client_flags() {
    assert_eq!(&options::greeting(), b"NBDMAGICIHAVEOPT\x00\x03");
    let flags = |fixed, no_zeroes| Ok(ClientFlags { fixed, no_zeroes });
    assert_eq!(options::parse_client_flags([0, 0, 0, 0]), flags(false, false));
    assert_eq!(options::parse_client_flags([0, 0, 0, 1]), flags(true, false));
    assert_eq!(options::parse_client_flags([0, 0, 0, 3]), flags(true, true));
    assert_eq!(
        options::parse_client_flags([1, 0, 0, 3]),
        Err(ProtocolError::ClientFlags(0x1000003))
    );
}

#[test]
fn options_and_their_replies() {
    let header = options::parse_header(b"IHAVEOPT\x00\x00\x00\x07\x00\x00\x00\x0c");
    assert_eq!(header, Ok(options::Header { code: 7, len: 12 }));
    let long = options::parse_header(b"IHAVEOPT\x00\x00\x00\x07\x00\x01\x00\x0c");
    assert_eq!(long, Err(ProtocolError::OptionLength(0x1000c)));
    let go = options::parse(7, b"\x00\x00\x00\x04disk\x00\x01\x00\x03");
    assert_eq!(go, ClientOption::Go(InfoRequest { name: "disk", items: vec![3] }));
    assert_eq!(options::parse(1, b"disk"), ClientOption::ExportName("disk"));
    assert_eq!(
        written(|out| options::reply(out, 7, ReplyKind::Ack, &[])),
        b"\x00\x03\xe8\x89\x04\x55\x65\xa9\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\x00\x00"
    );
    assert_eq!(
        written(|out| options::reply(out, 11, ReplyKind::Unsupported, &[b"n", b"o"])),
        b"\x00\x03\xe8\x89\x04\x55\x65\xa9\x00\x00\x00\x0b\x80\x00\x00\x01\x00\x00\x00\x02no"
    );
}

#[test]
fn requests() {
    let bytes = b"\x25\x60\x95\x13\x00\x01\x00\x01ABCDEFGH\
        \x00\x00\x00\x01\x00\x00\x02\x00\x00\x00\x10\x00";
    let request = Request {
        command: Command::Write,
        flags: 1,
        cookie: u64::from_be_bytes(*b"ABCDEFGH"),
        offset: 0x1_0000_0200,
        len: 4096,
    };
    assert_eq!(request::parse(bytes), Ok(request));
    let mut wrong = *bytes;
    wrong[3] ^= 1;
    assert_eq!(request::parse(&wrong), Err(ProtocolError::RequestMagic));
}

#[test]
fn replies() {
    let cookie = u64::from_be_bytes(*b"ABCDEFGH");
    assert_eq!(
        written(|out| reply::simple(out, cookie)),
        b"\x67\x44\x66\x98\x00\x00\x00\x00ABCDEFGH"
    );
    assert_eq!(
        written(|out| reply::simple_error(out, cookie, Errno::NoSpace)),
        b"\x67\x44\x66\x98\x00\x00\x00\x1cABCDEFGH"
    );
    assert_eq!(
        written(|out| reply::none(out, cookie)),
        b"\x66\x8e\x33\xef\x00\x01\x00\x00ABCDEFGH\x00\x00\x00\x00"
    );
    assert_eq!(
        written(|out| reply::offset_data(out, cookie, 512, 1024)),
        b"\x66\x8e\x33\xef\x00\x01\x00\x01ABCDEFGH\x00\x00\x04\x08\
          \x00\x00\x00\x00\x00\x00\x02\x00"
    );
    assert_eq!(
        written(|out| reply::error(out, cookie, Errno::Shutdown, "bye")),
        b"\x66\x8e\x33\xef\x00\x01\x80\x01ABCDEFGH\x00\x00\x00\x09\x00\x00\x00\x6c\x00\x03bye"
    );
    let extents = [(512, true), (512, true), (u64::MAX, false)];
    let extents = extents.map(|(len, allocated)| Extent { len, allocated });
    assert_eq!(
        written(|out| reply::block_status(out, cookie, 4096, &extents, false)),
        b"\x66\x8e\x33\xef\x00\x01\x00\x05ABCDEFGH\x00\x00\x00\x14\x00\x00\x00\x01\
          \x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x0c\x00\x00\x00\x00\x03"
    );
    assert_eq!(
        written(|out| reply::block_status(out, cookie, 4096, &extents, true)),
        b"\x66\x8e\x33\xef\x00\x01\x00\x05ABCDEFGH\x00\x00\x00\x0c\x00\x00\x00\x01\
          \x00\x00\x04\x00\x00\x00\x00\x00"
    );
}

#[test]
fn a_long_error_text_is_cut_between_characters() {
    let text = "ä".repeat(300);
    let bytes = written(|out| reply::error(out, 0, Errno::Io, &text));
    let len = bytes.len() - 26;
    assert!(len <= 250 && std::str::from_utf8(&bytes[26..]).is_ok());
    assert_eq!(bytes[24..26], (len as u16).to_be_bytes());
}
