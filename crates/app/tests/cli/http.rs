//! The API as somebody else's program uses it: HTTP by hand, over the control socket and TCP.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use serde_json::{Map, Value, json};

use crate::nbd::{Client, FUA};
use crate::support::Scratch;

/// Where requests of tests live, by their tags; what the path does not name is body or query.
const PLACES: [(&str, &str, &str); 8] = [
    ("status", "GET", "/api/v1/pools"),
    ("events", "GET", "/api/v1/events"),
    ("volume-limit", "PUT", "/api/v1/pools/{pool}/volumes/{volume}/limits"),
    ("drive-decide", "PUT", "/api/v1/pools/{pool}/drives/{drive}/decision"),
    ("drive-fail", "POST", "/api/v1/pools/{pool}/drives/{drive}/fail"),
    ("fault", "POST", "/api/v1/pools/{pool}/drives/{drive}/faults"),
    ("fault-counts", "GET", "/api/v1/pools/{pool}/drives/{drive}/faults"),
    ("fault-release", "POST", "/api/v1/pools/{pool}/drives/{drive}/faults/release"),
];

/// A connection to the control socket.
pub struct Control(BufReader<UnixStream>);

impl Control {
    pub fn connect(scratch: &Scratch) -> Control {
        let stream = UnixStream::connect(scratch.path("run/control.sock")).expect("it listens");
        Control(BufReader::new(stream))
    }

    /// Says whether somebody took it.
    pub fn send(&mut self, request: &Value) -> bool {
        let (method, target, body) = call(request);
        write(self.0.get_mut(), method, &target, "", &body)
    }

    pub fn answer(&mut self) -> Option<Value> {
        answer(&mut self.0).and_then(|(_, body)| serde_json::from_str(&body).ok())
    }

    /// `None` if nobody takes it or answers.
    pub fn try_ask(&mut self, request: &Value) -> Option<Value> {
        self.send(request).then(|| self.answer()).flatten()
    }

    #[track_caller]
    pub fn ask(&mut self, request: &Value) -> Value {
        self.try_ask(request).expect("an answer")
    }

    /// As docs/testing.md shows it: `POST /path {"a":1}`.
    #[track_caller]
    pub fn ask_line(&mut self, line: &str) -> Value {
        let mut words = line.splitn(3, ' ');
        let (method, target) = (words.next().expect("a method"), words.next().expect("a path"));
        assert!(write(self.0.get_mut(), method, target, "", words.next().unwrap_or("")));
        self.answer().expect("an answer")
    }
}

/// Method, target, body.
fn call(request: &Value) -> (&'static str, String, String) {
    let mut fields = request.as_object().expect("fields").clone();
    let tag = fields.remove("request").expect("a request");
    let (_, method, path) = PLACES.iter().find(|(own, ..)| tag == *own).expect("known");
    let mut target = String::new();
    for part in path.split('/').skip(1) {
        let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
        // What a test leaves out is asked for as an empty name.
        let value = name.map(|name| fields.remove(name).unwrap_or(json!("")));
        let text = value.as_ref().map(|value| encoded(value.as_str().unwrap_or_default()));
        target += "/";
        target += text.as_deref().unwrap_or(part);
    }
    match *method {
        "GET" => (method, target + &query(&fields), String::new()),
        _ => (method, target, Value::Object(fields).to_string()),
    }
}

fn query(fields: &Map<String, Value>) -> String {
    let pair = |(name, value): (&String, &Value)| match value.as_str() {
        Some(text) => format!("{name}={}", encoded(text)),
        None => format!("{name}={}", encoded(&value.to_string())),
    };
    let pairs: Vec<String> = fields.iter().map(pair).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        match byte {
            byte if byte.is_ascii_alphanumeric() => all.push(char::from(byte)),
            byte => drop(write!(all, "%{byte:02X}")),
        }
        all
    })
}

/// `headers` are whole lines. A host is there if they bring none.
fn write(to: &mut impl Write, method: &str, target: &str, headers: &str, body: &str) -> bool {
    let host = if headers.contains("host:") { "" } else { "host: localhost\r\n" };
    let length = body.len();
    let head = format!("{method} {target} HTTP/1.1\r\n{host}{headers}content-length: {length}\r\n");
    to.write_all(format!("{head}\r\n{body}").as_bytes()).is_ok()
}

/// Status and body.
fn answer(from: &mut impl BufRead) -> Option<(u16, String)> {
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut length = 0;
    loop {
        line.clear();
        from.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        if name == "content-length" {
            length = value.parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    Some((status, String::from_utf8(body).ok()?))
}

/// One request over TCP.
#[track_caller]
pub fn tcp(address: &str, method: &str, target: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    assert!(write(&mut stream, method, target, headers, body));
    answer(&mut BufReader::new(stream)).expect("an answer")
}

pub const TOKEN: &str = "correct-horse-battery";

/// A server with a token, and where it listens.
fn served(scratch: &Scratch) -> (crate::support::Server, String) {
    served_with(scratch, &[])
}

/// The same that serves drives, too.
pub fn served_with(scratch: &Scratch, drives: &[&str]) -> (crate::support::Server, String) {
    let path = scratch.path("token");
    fs::write(&path, format!("{TOKEN}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
    let pool = ["--mem-pool", "demo:4:128M:vm=16M", "--http", "127.0.0.1:0"];
    let server = scratch.serve(&[&pool[..], &["--token-file", "token"], drives].concat());
    let address = server.said.iter().find_map(|line| line.strip_prefix("http "));
    let address = address.expect("it says where").to_owned();
    (server, address)
}

#[test]
fn anybody_looks_and_who_has_the_token_changes() {
    let scratch = Scratch::new();
    let (server, address) = served(&scratch);
    let (status, body) = tcp(&address, "GET", "/api/v1/pools/demo", "", "");
    assert_eq!(status, 200, "{body}");
    let pools: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((&pools["version"], &pools["pools"][0]["name"]), (&json!(1), &json!("demo")));
    let (status, body) = tcp(&address, "HEAD", "/api/v1/pools/demo", "", "");
    assert_eq!((status, body.len()), (200, 0));
    let create = |headers: &str| {
        let body = r#"{"volume":"new","size":1048576}"#;
        tcp(&address, "POST", "/api/v1/pools/demo/volumes", headers, body)
    };
    assert_eq!(create("").0, 401);
    let (status, body) = create("authorization: Bearer wrong-horse-battery\r\n");
    assert_eq!(status, 401, "{body}");
    assert!(!body.contains(TOKEN), "{body}");
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    let (status, body) = create(&bearer);
    assert_eq!(status, 200, "{body}");
    // Once more: it is there already.
    assert_eq!(create(&bearer).0, 409);
    scratch.run(&["volume", "list", "demo"]).expect(0).says("new");
    let (status, _) = tcp(&address, "DELETE", "/api/v1/pools/demo/volumes/new", &bearer, "");
    assert_eq!(status, 200);
    assert_eq!(tcp(&address, "GET", "/api/v1/pools/nosuch", "", "").0, 409);
    assert_eq!(tcp(&address, "GET", "/api/v1/pools", "host: evil.example\r\n", "").0, 403);
    let err = server.stop();
    assert!(!err.contains(TOKEN), "{err}");
}

#[test]
fn without_a_token_nothing_changes_over_tcp() {
    let scratch = Scratch::new();
    let server = scratch.serve(&["--mem-pool", "demo:4:128M", "--http", "[::1]:0"]);
    let address = server.said.iter().find_map(|line| line.strip_prefix("http "));
    let (status, body) = tcp(address.expect("said"), "PUT", "/api/v1/pools/demo/scrub", "", "{}");
    assert_eq!(status, 403, "{body}");
    assert!(body.contains("--token-file"), "{body}");
    server.stop();
    fs::write(scratch.path("token"), "abc").expect("written");
    let serve = |scratch: &Scratch| {
        let pool = ["serve", "--mem-pool", "demo:4:128M", "--http", "127.0.0.1:0"];
        scratch.run(&[&pool[..], &["--token-file", "token"]].concat()).expect(2)
    };
    fs::set_permissions(scratch.path("token"), fs::Permissions::from_mode(0o644)).expect("set");
    serve(&scratch).says("others may read the token");
    fs::set_permissions(scratch.path("token"), fs::Permissions::from_mode(0o600)).expect("set");
    serve(&scratch).says("less than 16 characters");
}

#[test]
fn metrics_count_what_clients_did() {
    let scratch = Scratch::new();
    let (server, address) = served(&scratch);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "demo/vm");
    (0..10).for_each(|at| client.write(at * 4096, &[7; 4096], FUA));
    (0..5).for_each(|at| drop(client.read(at * 4096, 4096)));
    assert_eq!(tcp(&address, "PUT", "/api/v1/pools/demo/scrub", "", "{}").0, 401);
    let accept = "accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.5\r\n";
    let (status, text) = tcp(&address, "GET", "/metrics", accept, "");
    assert_eq!(status, 200);
    let value_in = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse::<f64>().expect("a number")
    };
    let value = |name: &str| value_in(&text, name);
    let labels = |kind: &str| format!("{{pool=\"demo\",volume=\"vm\",operation=\"{kind}\"}}");
    let count =
        |kind: &str| value(&format!("steadyraid_volume_latency_seconds_count{}", labels(kind)));
    assert_eq!((count("write"), count("read")), (10.0, 5.0));
    assert_eq!(value("steadyraid_pool_state{pool=\"demo\",state=\"online\"}"), 1.0);
    assert_eq!(value("steadyraid_pool_state{pool=\"demo\",state=\"failed\"}"), 0.0);
    assert_eq!(value("steadyraid_pool_redundancy_margin{pool=\"demo\"}"), 1.0);
    assert_eq!(value("steadyraid_pool_surviving_copies{pool=\"demo\"}"), 2.0);
    for kind in ["read", "write"] {
        let labels = format!("{{pool=\"demo\",kind=\"{kind}\"}}");
        assert_eq!(value(&format!("steadyraid_pool_hedge_budget{labels}")), 128.0);
        let bytes = value(&format!("steadyraid_pool_hedge_budget_bytes{labels}"));
        assert_eq!(bytes, f64::from(8 << 20));
    }
    let operations = |kind: &str| format!("steadyraid_volume_operations_total{}", labels(kind));
    assert_eq!((value(&operations("write")), value(&operations("read"))), (10.0, 5.0));
    assert_eq!(value(&format!("steadyraid_volume_bytes_total{}", labels("write"))), 40960.0);
    assert_eq!(value("steadyraid_volume_queue_depth{pool=\"demo\",volume=\"vm\"}"), 0.0);
    assert_eq!(value("steadyraid_nbd_clients{}"), 1.0);
    let slices = |work| value(&format!("steadyraid_slice_seconds_count{{work=\"{work}\"}}"));
    assert!(slices("requests") > 15.0, "each request is more than one");
    assert!(slices("watch") > 0.0 && slices("control") > 0.0, "drives are watched; this was asked");
    assert_eq!(slices("scrub"), 0.0);
    let waited = "steadyraid_wait_seconds_count{pool=\"demo\",cause=\"admission\"}";
    assert_eq!(value(waited), 0.0, "one client alone never waits for a place");
    assert_eq!(value("steadyraid_http_refused_total{reason=\"token\"}"), 1.0);
    assert!(value("process_resident_memory_bytes{}") > 1e6);
    assert!(text.contains("# TYPE steadyraid_volume_operations counter\n"));
    assert!(text.ends_with("# EOF\n"));
    assert!(!text.contains("smart_passed{"), "memory says nothing of its health");

    // Who reads no OpenMetrics gets the same otherwise written.
    let (status, text) = tcp(&address, "GET", "/metrics", "", "");
    assert_eq!((status, value_in(&text, &operations("write"))), (200, 10.0));
    assert!(text.contains("# TYPE steadyraid_volume_operations_total counter\n"));
    assert!(!text.contains("# EOF"));
    client.disconnect();
    server.stop();
}

#[test]
fn the_description_is_served_and_names_every_path() {
    let scratch = Scratch::new();
    let (server, address) = served(&scratch);
    let (status, text) = tcp(&address, "GET", "/api/v1/openapi.json", "", "");
    assert_eq!(status, 200);
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["openapi"], "3.1.0");
    for (_, method, path) in PLACES {
        assert!(document["paths"][path][method.to_lowercase()].is_object(), "{method} {path}");
    }
    server.stop();
}

/// 32 connections, all there may be, each with a head that promises a body: nobody else got in any
/// more, for as long as they stayed.
#[test]
fn those_who_send_half_a_request_keep_nobody_out_for_long() {
    let scratch = Scratch::new();
    let (server, address) = served(&scratch);
    let half = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n1";
    let mut crowd = Vec::new();
    for _ in 0..32 {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        stream.write_all(half).expect("taken");
        crowd.push(BufReader::new(stream));
    }
    let (status, body) = answer(&mut crowd[31]).expect("it is told why");
    assert_eq!(status, 408, "{body}");
    assert!(body.contains("did not come within"), "{body}");
    for connection in &mut crowd[..31] {
        assert_eq!(answer(connection).map(|(status, _)| status), Some(408));
        assert_eq!(connection.read(&mut [0]).unwrap_or(0), 0, "and hung up on");
    }
    assert_eq!(tcp(&address, "GET", "/metrics", "", "").0, 200);
    server.stop();
}

#[test]
fn hostile_bytes_get_an_answer_or_none_and_hurt_nobody() {
    let scratch = Scratch::new();
    let (server, address) = served(&scratch);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(1 << 16));
    let huge = "POST /api/v1/pools/demo/volumes HTTP/1.1\r\nhost: localhost\r\n\
                content-length: 999999999999\r\n\r\n";
    let chunked = "PUT /api/v1/pools/demo/scrub HTTP/1.1\r\nhost: localhost\r\n\
                   transfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n";
    let split = "GET /metrics HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n";
    let garbage = ["\0\u{1}\u{2}\n", "{\"version\":1,\"request\":\"status\"}\n", "GET\r\n\r\n"];
    for bytes in garbage.into_iter().chain([long.as_str(), huge, chunked, split]) {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        let _ = stream.write_all(bytes.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        assert!(!said.starts_with("HTTP/1.1 200"), "{bytes:?}: {said}");
    }
    assert_eq!(tcp(&address, "GET", "/api/v1/pools", "", "").0, 200);
    server.stop();
}
