//! What strangers and operators write, for the fuzzer: nothing else uses this module.

mod verbs;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue};
use io::Nanos;

use crate::api::route::{self, Call, Method, Target, Wrong};
use crate::serve::config::Config;
use crate::serve::http::guard::{Guard, Token};

pub use verbs::verbs;

const TOKEN: &str = "0123456789abcdef";

/// Whether the API takes a call. What it takes must be taken again as our client writes it.
pub fn api(method: &str, target: &str, body: &[u8]) -> bool {
    let request = match route::read(method, target, body) {
        Ok(Target::Request(request)) => request,
        Ok(Target::OpenApi | Target::Metrics) => return true,
        Err(Wrong::Path(failure) | Wrong::Method(failure) | Wrong::Content(failure)) => {
            assert!(failure.usage && !failure.to_string().is_empty(), "{failure:?}");
            return false;
        }
    };
    let call = Call::of(&request);
    let body = call.body.as_deref().unwrap_or_default();
    let again = route::read(call.method.name(), &call.target, body.as_bytes());
    assert_eq!(again, Ok(Target::Request(request)), "{call:?}");
    true
}

/// Whether a change is let in over TCP with these headers. The token must be among them.
pub fn guard(method: &str, host: &[u8], authorization: &[u8]) -> bool {
    let mut headers = HeaderMap::new();
    for (name, value) in [(HOST, host), (AUTHORIZATION, authorization)] {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.insert(name, value);
        }
    }
    let token = Token::new(TOKEN).expect("long enough");
    let method = Method::parse(method);
    let let_in = Guard::anybody(Some(token), Nanos::ZERO).check(Nanos::ZERO, method, &headers);
    let changes = !matches!(method, None | Some(Method::Get));
    // Names of schemes are the same in any case.
    let shown = authorization.split_at_checked(7).is_some_and(|(name, own)| {
        name.eq_ignore_ascii_case(b"Bearer ") && own == TOKEN.as_bytes()
    });
    assert!(let_in.is_err() || !changes || shown, "a change without the token");
    let_in.is_ok()
}

/// Whether a configuration file is taken. If not, some line of it is to blame.
pub fn config(text: &str) -> bool {
    let Err(error) = Config::parse(text) else { return true };
    if let Some(after) = error.strip_prefix("line ") {
        let number = after.split(':').next().and_then(|number| number.parse::<usize>().ok());
        let lines = 1 + text.matches('\n').count();
        assert!(number.is_some_and(|number| (1..=lines).contains(&number)), "{error}");
    }
    false
}
