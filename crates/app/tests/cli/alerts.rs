//! Alerts: real programs and a real HTTP server are told what happens.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use crate::support::Scratch;

const POOL: [&str; 2] = ["--mem-pool", "demo:5:128M:vm=16M"];

/// Answers a POST with a status; returns what was posted.
fn answer(stream: TcpStream, status: &str) -> (String, Value) {
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    answer_over(stream, status)
}

fn answer_over(mut stream: impl Read + Write, status: &str) -> (String, Value) {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut chunk).expect("a request");
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let lower = head.to_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.expect("a length").trim().parse().expect("a number");
        if body.len() >= length {
            let body = serde_json::from_str(body).expect("a JSON document");
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .expect("answered");
            return (head.to_owned(), body);
        }
    }
}

fn script(scratch: &Scratch, name: &str, text: &str) -> String {
    let path = scratch.path(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    path.display().to_string()
}

#[test]
fn programs_and_webhooks_are_told_what_is_bad_enough() {
    let scratch = Scratch::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://user:word@{}/hook?key=s3cret", listener.local_addr().expect("bound"));
    let told = scratch.path("told");
    let page = script(
        &scratch,
        "page",
        &format!(
            "echo \"$1 $STEADYRAID_POOL $STEADYRAID_SEVERITY $STEADYRAID_EVENT \
                  $STEADYRAID_DRIVE $STEADYRAID_DRIVE_NAME\" >> {0}; cat >> {0}",
            told.display()
        ),
    );
    let broken = script(&scratch, "broken", "exit 7");
    let config = format!(
        "[[alert]]\nprogram = ['{page}', 'why']\nseverity = 'info'\n\
         [[alert]]\nprogram = ['{broken}']\n[[alert]]\nwebhook = '{url}'\nseverity = 'error'\n"
    );
    fs::write(scratch.path("c.toml"), config).expect("written");
    let server = scratch.serve(&[&["--config", "c.toml"][..], &POOL].concat());
    // The server is not well at first: the alert is sent again.
    let hook = std::thread::scope(|scope| {
        let hook = scope.spawn(|| {
            answer(listener.accept().expect("an alert").0, "503 Not Now");
            answer(listener.accept().expect("the same again").0, "204 Thanks")
        });
        scratch.run(&["drive", "sit-out", "demo", "2"]).expect(0);
        scratch.run(&["drive", "fail", "demo", "1", "--force"]).expect(0);
        hook.join().expect("no panic")
    });
    assert!(hook.0.starts_with("POST /hook?key=s3cret "), "{}", hook.0);
    let (kind, drive) = (&hook.1["kind"], &hook.1["drive"]);
    assert_eq!((kind.as_str(), drive.as_u64()), (Some("drive-failed"), Some(1)), "{}", hook.1);
    let err = server.stop();
    assert!(err.contains(&format!("{broken}: ended with exit status: 7")), "{err}");
    assert!(!err.contains("s3cret") && !err.contains("word@"), "keys stay out of the log: {err}");
    let told = fs::read_to_string(told).expect("the program ran");
    assert!(told.contains("why demo info drive-override 2 mem:2\n"), "{told}");
    assert!(told.contains("why demo error drive-failed 1 mem:1\n"), "{told}");
    let document = told.lines().find(|line| line.contains("\"drive-failed\"")).expect("on stdin");
    let document: Value = serde_json::from_str(document).expect("one line");
    assert_eq!((&document["version"], &document["pool"]), (&1.into(), &"demo".into()));
}

/// Nobody is there: it is said, without the key, and nothing else suffers.
#[test]
fn a_webhook_that_refuses_is_told_of_once() {
    let scratch = Scratch::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound");
    let config = format!("[[alert]]\nwebhook = 'http://{at}/s3cret'\nseverity = 'info'\n");
    fs::write(scratch.path("c.toml"), config).expect("written");
    let server = scratch.serve(&[&["--config", "c.toml"][..], &POOL].concat());
    std::thread::scope(|scope| {
        let hook = scope.spawn(|| answer(listener.accept().expect("an alert").0, "403 No"));
        scratch.run(&["drive", "sit-out", "demo", "2"]).expect(0);
        hook.join().expect("no panic");
    });
    let err = server.stop();
    assert!(err.contains(&format!("alert webhook http://{at}: http status: 403")), "{err}");
    assert!(!err.contains("s3cret"), "{err}");
}

/// Somebody an authority vouches for, at 127.0.0.1; and the authority, as a file of it holds it.
fn vouched_for() -> (Arc<ServerConfig>, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"));
    let authority = authority.expect("signs itself");
    let key = KeyPair::generate().expect("a key");
    let server = CertificateParams::new(vec!["127.0.0.1".into()]).expect("an address");
    let server = server.signed_by(&key, &authority).expect("signs");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![server.der().clone()],
            PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )
        .expect("they go together");
    (Arc::new(config), authority.pem())
}

#[test]
fn a_webhook_over_tls_is_told_if_the_machine_trusts_it() {
    let scratch = Scratch::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound");
    let config = format!("[[alert]]\nwebhook = 'https://{at}/s3cret'\nseverity = 'info'\n");
    fs::write(scratch.path("c.toml"), config).expect("written");
    let (tls, authority) = vouched_for();
    let accept = || {
        let stream = listener.accept().expect("an alert").0;
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        StreamOwned::new(ServerConnection::new(tls.clone()).expect("a session"), stream)
    };

    fs::write(scratch.path("ca.pem"), authority).expect("written");
    let arguments = [&["--config", "c.toml"][..], &POOL].concat();
    let server = scratch.serve_with(&[("SSL_CERT_FILE", &scratch.path("ca.pem"))], &arguments);
    let hook = std::thread::scope(|scope| {
        let hook = scope.spawn(|| answer_over(accept(), "204 Thanks"));
        scratch.run(&["drive", "sit-out", "demo", "2"]).expect(0);
        hook.join().expect("no panic")
    });
    assert!(hook.0.starts_with("POST /s3cret "), "{}", hook.0);
    assert_eq!(hook.1["kind"].as_str(), Some("drive-override"), "{}", hook.1);
    server.stop();

    // Whom nobody vouches for is not told anything.
    fs::write(scratch.path("ca.pem"), vouched_for().1).expect("written");
    let server = scratch.serve_with(&[("SSL_CERT_FILE", &scratch.path("ca.pem"))], &arguments);
    std::thread::scope(|scope| {
        let hook = scope.spawn(|| accept().read(&mut [0]));
        scratch.run(&["drive", "sit-out", "demo", "2"]).expect(0);
        hook.join().expect("no panic").expect_err("not even a request");
    });
    let err = server.stop();
    assert!(err.contains(&format!("alert webhook https://{at}: ")), "{err}");
    assert!(err.contains("invalid peer certificate") && !err.contains("s3cret"), "{err}");
}
