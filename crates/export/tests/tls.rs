//! TLS in the handshake: what is refused before it, what comes through it.

mod support;

use std::io::{Read, Write};
use std::sync::Arc;

use export::nbd::proto::ProtocolError;
use export::{ConnectionError, Server};
use io::net::{ByteStream, DuplexEnd};
use io::virt::VirtEnv;
use io::{Buf, BufMut};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use support::*;

const NAME: &str = "disks.example";
const ERR_TLS_REQUIRED: u32 = 0x8000_0005;

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Issuer {
    let mut params = CertificateParams::new([]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(params, key).expect("an authority")
}

fn signed(by: &Issuer) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new([NAME.to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, by).expect("signed");
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    (vec![certificate.der().clone()], key.into())
}

fn roots(authority: &Issuer) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).expect("an authority");
    roots
}

/// A server that asks clients for a certificate of this authority.
fn server_config(authority: &Issuer) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::new(roots(authority));
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
    let (chain, key) = signed(authority);
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier.expect("a verifier"))
        .with_single_cert(chain, key);
    Arc::new(config.expect("a certificate with its key"))
}

/// A client that trusts one authority, and shows a certificate of the other if there is one.
fn client_config(
    trusted: &Issuer,
    shows: Option<&Issuer>,
    version: &'static rustls::SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_root_certificates(roots(trusted));
    Arc::new(match shows {
        None => config.with_no_client_auth(),
        Some(issuer) => {
            let (chain, key) = signed(issuer);
            config.with_client_auth_cert(chain, key).expect("a certificate with its key")
        }
    })
}

fn connect_tls<X: export::Exports>(
    env: &VirtEnv,
    server: &Server<VirtEnv, X>,
    config: &Arc<ServerConfig>,
) -> (Client, End) {
    let config = Some(config.clone());
    connect_with(env, server, move |server, stream| async move {
        server.serve_with(stream, config).await
    })
}

#[test]
fn nothing_but_tls_and_leaving_is_answered_in_clear_text() {
    let config = server_config(&authority());
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (client, end) = connect_tls(&env, &server, &config);
        client.greet(3).await;
        for code in [option::LIST, option::INFO, option::GO, option::STRUCTURED_REPLY, 4, 99] {
            assert_eq!(client.verdict(code, &info_request("disk", &[])).await, ERR_TLS_REQUIRED);
        }
        assert_eq!(client.verdict(option::STARTTLS, b"x").await, ERR_INVALID);
        assert_eq!(client.verdict(option::ABORT, &[]).await, ACK);
        assert!(matches!(end.await, Some(Ok(()))));

        let (client, end) = connect_tls(&env, &server, &config);
        client.greet(3).await;
        client.send(&option_bytes(option::EXPORT_NAME, b"disk")).await;
        assert!(client.is_closed().await);
        let error = end.await.expect("serve ends").expect_err("no TLS");
        assert!(matches!(error, ConnectionError::Protocol(ProtocolError::TlsRequired)));
    });
}

/// Somebody on the way could put an option behind the client's request for TLS. A server that
/// carried it out later would take it as the client's own.
#[test]
fn what_was_sent_in_clear_text_is_not_taken_as_encrypted() {
    let config = server_config(&authority());
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (client, end) = connect_tls(&env, &server, &config);
        client.greet(3).await;
        let both = [option_bytes(option::STARTTLS, &[]), option_bytes(option::LIST, &[])].concat();
        client.send(&both).await;
        assert_eq!(client.recv(20).await[12..16], ACK.to_be_bytes());
        let _ = client.is_closed().await;
        let error = end.await.expect("serve ends").expect_err("not served");
        // The second option may also come so late that it is a bad TLS record.
        match error {
            ConnectionError::Protocol(ProtocolError::ClearText) | ConnectionError::Tls(_) => {}
            error => panic!("{error}"),
        }
    });
}

#[test]
fn garbage_and_silence_after_starttls_end_the_connection() {
    let config = server_config(&authority());
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        for garbage in [&[0xff; 100][..], b"GET / HTTP/1.1\r\n\r\n", &[0; 5]] {
            let (client, end) = connect_tls(&env, &server, &config);
            client.greet(3).await;
            assert_eq!(client.verdict(option::STARTTLS, &[]).await, ACK);
            client.send(garbage).await;
            assert!(matches!(end.await, Some(Err(ConnectionError::Tls(_)))));
        }
        let (client, end) = connect_tls(&env, &server, &config);
        client.greet(3).await;
        assert_eq!(client.verdict(option::STARTTLS, &[]).await, ACK);
        client.send(b"\x16\x03\x01").await;
        assert!(matches!(end.await, Some(Err(ConnectionError::HandshakeTimeout))));
        assert_eq!(server.connections(), 0);
    });
}

/// The client's end of an encrypted connection.
struct Encrypted {
    stream: DuplexEnd,
    state: ClientConnection,
}

impl Encrypted {
    fn new(client: Client, config: &Arc<ClientConfig>) -> Encrypted {
        let name = NAME.try_into().expect("a name");
        let state = ClientConnection::new(config.clone(), name).expect("a connection");
        Encrypted { stream: client.into_stream(), state }
    }

    async fn push(&mut self) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        while self.state.wants_write() {
            self.state.write_tls(&mut bytes).expect("to memory");
        }
        self.stream.send(vec![Buf::from_slice(&bytes)]).await
    }

    async fn pull(&mut self) -> std::io::Result<()> {
        let (buf, count) = self.stream.recv(BufMut::with_len(999), 0..999).await;
        let mut rest = &buf[..count?];
        if rest.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        while !rest.is_empty() {
            self.state.read_tls(&mut rest)?;
            self.state.process_new_packets().map_err(std::io::Error::other)?;
        }
        Ok(())
    }

    async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.state.writer().write_all(bytes)?;
        self.push().await
    }

    async fn recv(&mut self, len: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut at = 0;
        while at < len {
            match self.state.reader().read(&mut bytes[at..]) {
                Ok(count) => at += count,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.pull().await?;
                    self.push().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }

    /// The reply to LIST; an error if the server didn't let us in.
    async fn list(&mut self) -> std::io::Result<Vec<u8>> {
        self.send(&option_bytes(option::LIST, &[])).await?;
        self.recv(20).await
    }
}

async fn encrypted(
    env: &VirtEnv,
    server: &Server<VirtEnv, export::ram::RamExports>,
    ours: &Arc<ServerConfig>,
    theirs: &Arc<ClientConfig>,
) -> (Encrypted, End) {
    let (client, end) = connect_tls(env, server, ours);
    client.greet(3).await;
    assert_eq!(client.verdict(option::STARTTLS, &[]).await, ACK);
    (Encrypted::new(client, theirs), end)
}

#[test]
fn what_goes_through_tls_comes_out_as_it_was() {
    let authority = authority();
    let config = server_config(&authority);
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let theirs = client_config(&authority, Some(&authority), version);
        in_worlds(async |env| {
            let (server, _) = ram_server(&env);
            let (mut client, end) = encrypted(&env, &server, &config, &theirs).await;
            client.send(&option_bytes(option::STARTTLS, &[])).await.expect("sent");
            assert_eq!(client.recv(20).await.expect("once")[12..16], ERR_INVALID.to_be_bytes());
            // The text that says so.
            client.recv("TLS is in use already".len()).await.expect("a text");
            let name = option_bytes(option::EXPORT_NAME, b"disk");
            client.send(&name).await.expect("sent");
            client.recv(10).await.expect("size and flags");
            let data: Vec<u8> = (0..700_416u32).map(|at| (at % 253) as u8).collect();
            let write = request_bytes(0, command::WRITE, 1, 512, data.len() as u32);
            // In one go: longer than what either side takes at once.
            for part in [&write[..], &data].concat().chunks(50_000) {
                client.send(part).await.expect("sent");
            }
            assert_eq!(client.recv(16).await.expect("a reply")[4..8], [0; 4]);
            let read = request_bytes(0, command::READ, 2, 512, data.len() as u32);
            client.send(&[read.clone(), read].concat()).await.expect("sent");
            for _ in 0..2 {
                client.recv(16).await.expect("a reply");
                assert!(client.recv(data.len()).await.expect("data") == data);
            }
            client.send(&request_bytes(0, command::DISC, 0, 0, 0)).await.expect("sent");
            assert!(matches!(end.await, Some(Ok(()))));
        });
    }
}

#[test]
fn clients_without_a_certificate_of_our_authority_are_refused() {
    let (ours, other) = (authority(), authority());
    let config = server_config(&ours);
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        for shows in [None, Some(&other)] {
            let theirs = client_config(&ours, shows, version);
            in_worlds(async |env| {
                let (server, _) = ram_server(&env);
                let (mut client, end) = encrypted(&env, &server, &config, &theirs).await;
                client.list().await.expect_err("refused");
                assert!(matches!(end.await, Some(Err(ConnectionError::Tls(_)))));
                let theirs = client_config(&ours, Some(&ours), version);
                let (mut client, _end) = encrypted(&env, &server, &config, &theirs).await;
                assert_eq!(client.list().await.expect("let in")[12..16], SERVER.to_be_bytes());
            });
        }
    }
}
