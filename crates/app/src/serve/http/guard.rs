//! Who may ask what: the owner of the control socket anything; whoever reaches the TCP port may
//! look, and change something only with the token.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hyper::header::{AUTHORIZATION, HOST, HeaderMap};
use io::Nanos;

use crate::api::route::Method;
use crate::error::{Failure, Outcome};
use crate::serve::credit::Credit;

/// Requests a second over TCP, for long. Consoles ask a few, Prometheus one in 15 seconds.
const REQUESTS_PER_SECOND: u64 = 100;
/// And so many at once: a console with all of its files, some times over.
const REQUESTS_AT_ONCE: u64 = 400;
/// Shorter ones can be guessed.
const TOKEN_BYTES_MIN: usize = 16;
/// Longer files hold something else.
const TOKEN_BYTES_MAX: usize = 4096;

/// Whose requests a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The socket's mode lets in its owner only.
    Owner,
    /// Anybody on this machine, and any web page that its users look at.
    Anybody,
}

/// What has to be shown for a change. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// Reads a file that nobody else may read.
    pub fn read(path: &Path) -> Outcome<Token> {
        let refused = |what: String| Failure::usage(path.display(), what);
        let found = fs::metadata(path).map_err(|error| refused(format!("no token: {error}")))?;
        if found.mode() & 0o077 != 0 {
            let hint = format!("chmod 600 {}", path.display());
            return Err(refused("others may read the token".to_owned()).hint(hint));
        }
        let text = match found.len() {
            0..=4096 => fs::read_to_string(path),
            _ => return Err(refused(format!("longer than {TOKEN_BYTES_MAX} bytes, no token"))),
        };
        let text = text.map_err(|error| refused(format!("no token: {error}")))?;
        Token::new(text.trim()).map_err(refused)
    }

    pub fn new(text: &str) -> Result<Token, String> {
        if text.len() < TOKEN_BYTES_MIN {
            return Err(format!("the token has less than {TOKEN_BYTES_MIN} characters"));
        }
        match text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Token(text.to_owned())),
            false => Err("the token has blanks, or characters that are not ASCII".to_owned()),
        }
    }

    /// Takes as long for any other of the same length, so that time tells nothing.
    fn is(&self, other: &str) -> bool {
        let differ = |(own, other): (u8, u8)| own ^ other;
        let pairs = self.0.bytes().zip(other.bytes());
        self.0.len() == other.len() && pairs.map(differ).fold(0, |all, one| all | one) == 0
    }
}

/// Where the token is, as given on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenFile(pub Option<PathBuf>);

impl TokenFile {
    pub fn read(&self) -> Outcome<Option<Token>> {
        self.0.as_deref().map(Token::read).transpose()
    }
}

/// Why a request is not carried out.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 403
    Forbidden(Failure),
    /// 401
    NoToken(Failure),
    /// 429
    TooMany(Failure),
}

pub struct Guard {
    trust: Trust,
    token: RefCell<Option<Token>>,
    credit: Credit,
}

impl Guard {
    pub fn owner() -> Guard {
        Guard::new(Trust::Owner, None, Nanos::ZERO)
    }

    pub fn anybody(token: Option<Token>, now: Nanos) -> Guard {
        Guard::new(Trust::Anybody, token, now)
    }

    fn new(trust: Trust, token: Option<Token>, now: Nanos) -> Guard {
        let token = RefCell::new(token);
        let credit = Credit::new(REQUESTS_PER_SECOND, REQUESTS_AT_ONCE, now);
        Guard { trust, token, credit }
    }

    pub fn change_token(&self, token: Option<Token>) {
        self.token.replace(token);
    }

    pub fn check(
        &self,
        now: Nanos,
        method: Option<Method>,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        if self.trust == Trust::Owner {
            return Ok(());
        }
        self.count(now)?;
        // A page of another site that calls itself by our address is still another site.
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if !is_ours(host) {
            let what = "the host asked for is not a loopback address";
            return Err(Refusal::Forbidden(Failure::usage("request", what)));
        }
        match method {
            None | Some(Method::Get) => Ok(()),
            Some(_) => self.check_token(headers),
        }
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let token = self.token.borrow();
        let Some(token) = &*token else {
            return Err(Refusal::Forbidden(
                Failure::new("request", "changes are not taken here: the server has no token")
                    .hint("serve with --token-file, or use the control socket"),
            ));
        };
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        // Names of schemes are the same in any case (RFC 9110).
        let given = given.and_then(|value| value.split_once(' '));
        match given.filter(|(name, _)| name.eq_ignore_ascii_case("bearer")).map(|(_, own)| own) {
            Some(given) if token.is(given) => Ok(()),
            Some(_) => Err(Refusal::NoToken(Failure::new("request", "the token is not ours"))),
            None => Err(Refusal::NoToken(
                Failure::new("request", "a change needs the token")
                    .hint("send the header 'Authorization: Bearer TOKEN'"),
            )),
        }
    }

    fn count(&self, now: Nanos) -> Result<(), Refusal> {
        if self.credit.take(now) {
            return Ok(());
        }
        let what = format!("more than {REQUESTS_PER_SECOND} requests a second");
        Err(Refusal::TooMany(Failure::new("request", what).hint("wait a second")))
    }
}

fn is_ours(host: &str) -> bool {
    // Without the port; an IPv6 address is in brackets.
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn headers(host: &'static str, token: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static(host));
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("ASCII");
            headers.insert(AUTHORIZATION, value);
        }
        headers
    }

    fn guard(token: Option<&str>) -> Guard {
        Guard::anybody(token.map(|text| Token::new(text).expect("a token")), Nanos::ZERO)
    }

    #[test]
    fn anybody_looks_and_only_the_token_changes() {
        let (get, put) = (Some(Method::Get), Some(Method::Put));
        let now = Nanos::ZERO;
        let ours = || headers("127.0.0.1:9464", None);
        assert_eq!(guard(None).check(now, get, &ours()), Ok(()));
        assert!(matches!(guard(None).check(now, put, &ours()), Err(Refusal::Forbidden(_))));
        let with = guard(Some(TOKEN));
        assert!(matches!(with.check(now, put, &ours()), Err(Refusal::NoToken(_))));
        for wrong in ["0123456789abcdeF", "0123456789abcde", "0123456789abcdef0", ""] {
            let wrong = headers("localhost", Some(wrong));
            assert!(matches!(with.check(now, put, &wrong), Err(Refusal::NoToken(_))));
        }
        assert_eq!(with.check(now, put, &headers("[::1]:1", Some(TOKEN))), Ok(()));
        for (name, good) in [("bearer", true), ("BEARER", true), ("Basic", false)] {
            let mut named = headers("localhost", None);
            let value = HeaderValue::from_str(&format!("{name} {TOKEN}")).expect("ASCII");
            named.insert(AUTHORIZATION, value);
            assert_eq!(with.check(now, put, &named).is_ok(), good, "{name}");
        }
        assert_eq!(Guard::owner().check(now, put, &HeaderMap::new()), Ok(()));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        for host in ["", "evil.example", "127.0.0.1.evil.example", "10.0.0.1:80", "localhost.x"] {
            let refused = guard(None).check(Nanos::ZERO, Some(Method::Get), &headers(host, None));
            assert!(matches!(refused, Err(Refusal::Forbidden(_))), "{host}");
        }
    }

    #[test]
    fn a_flood_is_bounded_and_passes() {
        let guard = guard(None);
        let ask = |now| guard.check(now, Some(Method::Get), &headers("localhost", None)).is_ok();
        let taken = (0..1000).filter(|_| ask(Nanos::ZERO)).count();
        assert_eq!(taken, REQUESTS_AT_ONCE as usize);
        let taken = (0..1000).filter(|_| ask(Nanos::from_secs(1))).count();
        assert_eq!(taken, REQUESTS_PER_SECOND as usize);
    }

    #[test]
    fn tokens_that_could_be_guessed_or_sent_badly_are_refused() {
        for text in ["", "short", "0123456789abcde f", "0123456789abcdéf"] {
            Token::new(text).expect_err(text);
        }
        assert_eq!(format!("{:?}", Token::new(TOKEN).expect("a token")), "Token(..)");
    }
}
