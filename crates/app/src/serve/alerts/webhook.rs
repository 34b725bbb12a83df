//! An alert posted to a server: the event's JSON document, tried a few times.

use std::time::Duration;

use ureq::Agent;

use crate::render::json;
use crate::render::view::Event;

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
        if url.starts_with("https://") {
            let how = "give a program that speaks it, as ['/usr/bin/curl', ...], instead";
            return Err(format!("https is not spoken to webhooks yet: {how}"));
        }
        let host = url.strip_prefix("http://").filter(|rest| !rest.starts_with('/'));
        match host {
            Some(host) if !host.is_empty() => Ok(Webhook { url: url.to_owned() }),
            _ => Err(format!("'{url}' is not an http:// address")),
        }
    }

    /// Without path and query: these often hold a key.
    pub fn shown(&self) -> String {
        let host = self.url.trim_start_matches("http://");
        let host = host.split(['/', '?', '#']).next().unwrap_or(host);
        // Nor a password before the host.
        format!("http://{}", host.rsplit('@').next().unwrap_or(host))
    }

    pub fn post(&self, event: &Event) -> Result<(), String> {
        let agent: Agent = Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
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
}

/// A server that refuses will refuse again.
fn is_worth_another(error: &ureq::Error) -> bool {
    !matches!(error, ureq::Error::StatusCode(code) if (400..500).contains(code) && *code != 429)
}

#[expect(clippy::disallowed_methods, reason = "the thread of this target has nothing else to do")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}
