//! An alert posted to a server: the event's JSON document, tried a few times.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::render::json;
use crate::render::view::Event;

const HTTP: &str = "http://";
const HTTPS: &str = "https://";
/// Of one attempt, from connecting to the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pauses before further attempts: a server that is being restarted is back within these.
const AGAIN: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(16)];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    url: String,
}

impl Webhook {
    pub fn parse(url: &str) -> Result<Webhook, String> {
        match parts(url) {
            Some((_, rest)) if !rest.is_empty() && !rest.starts_with('/') => {
                Ok(Webhook { url: url.to_owned() })
            }
            _ => Err(format!("'{url}' is not an http:// or https:// address")),
        }
    }

    /// Without path and query: these often hold a key.
    pub fn shown(&self) -> String {
        let (scheme, rest) = parts(&self.url).expect("it was read so");
        let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        // Nor a password before the host.
        format!("{scheme}{}", host.rsplit('@').next().unwrap_or(host))
    }

    pub fn post(&self, event: &Event) -> Result<(), String> {
        let agent = self.agent()?;
        let body = json::line(event);
        let mut pauses = AGAIN.iter();
        loop {
            let request = agent.post(&self.url).header("content-type", "application/json");
            let Err(error) = request.send(&body) else { return Ok(()) };
            let Some(&span) = pauses.next().filter(|_| is_worth_another(&error)) else {
                return Err(format!("{error}; this is not tried again: {}", event.text));
            };
            pause(span);
        }
    }

    fn agent(&self) -> Result<Agent, String> {
        let config = Agent::config_builder().timeout_global(Some(PATIENCE));
        let config = match parts(&self.url) {
            Some((HTTPS, _)) => config.tls_config(tls()?),
            _ => config,
        };
        Ok(config.build().into())
    }
}

fn parts(url: &str) -> Option<(&'static str, &str)> {
    [HTTP, HTTPS].into_iter().find_map(|scheme| Some((scheme, url.strip_prefix(scheme)?)))
}

/// Trusts whom this machine trusts. Read for each alert: these are few, and authorities change
/// while a server runs for years.
fn tls() -> Result<TlsConfig, String> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map_or("none found".to_owned(), ToString::to_string);
        let how = "install ca-certificates, or name a file of certificates in SSL_CERT_FILE";
        return Err(format!("no certificates of authorities on this machine ({why}): {how}"));
    }
    let roots = found.certs.iter().map(|der| Certificate::from_der(der).to_owned());
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .root_certs(RootCerts::from(roots));
    Ok(tls.build())
}

/// A server that refuses will refuse again, and a certificate is not trusted later either.
fn is_worth_another(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::StatusCode(code) => !(400..500).contains(code) || *code == 429,
        ureq::Error::Rustls(_) => false,
        ureq::Error::Io(error) => !error.get_ref().is_some_and(|own| own.is::<rustls::Error>()),
        _ => true,
    }
}

#[expect(clippy::disallowed_methods, reason = "the thread of this target has nothing else to do")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}
