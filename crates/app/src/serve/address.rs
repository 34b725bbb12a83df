//! Where NBD clients connect: `unix:PATH` or `tcp:IP:PORT`; and HTTP's: `IP:PORT`.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use io::net::Address;
use serde::Deserialize;

/// Whether it is safe to listen there depends on what guards it ([`super::access`]).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct NbdAddress(pub Address);

impl FromStr for NbdAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<NbdAddress, String> {
        match text.split_once(':') {
            Some(("unix", "")) => Err(format!("'{text}' names no path")),
            Some(("unix", path)) => Ok(NbdAddress(Address::Unix(path.into()))),
            Some(("tcp", address)) => parse(address).map(|tcp| NbdAddress(Address::Tcp(tcp))),
            _ => Err(format!("'{text}' is neither unix:PATH nor tcp:IP:PORT")),
        }
    }
}

impl TryFrom<String> for NbdAddress {
    type Error = String;

    fn try_from(text: String) -> Result<NbdAddress, String> {
        text.parse()
    }
}

fn parse(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("'{text}' is not an IP address with a port, like 127.0.0.1:10809 or [::1]:10809")
    })
}

/// Where the API, metrics and console are, in clear text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HttpAddress(pub SocketAddr);

impl FromStr for HttpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<HttpAddress, String> {
        let address = parse(text)?;
        if address.ip().is_loopback() {
            return Ok(HttpAddress(address));
        }
        Err(format!(
            "{} is not a loopback address: tokens would travel in clear text; listen on 127.0.0.1 \
             or [::1], behind a proxy that speaks TLS if others are to see it",
            address.ip()
        ))
    }
}

impl TryFrom<String> for HttpAddress {
    type Error = String;

    fn try_from(text: String) -> Result<HttpAddress, String> {
        text.parse()
    }
}

/// As clients write it.
impl fmt::Display for NbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back_as_written() {
        for text in ["unix:/run/x.sock", "tcp:127.0.0.1:10809", "tcp:[::1]:0", "tcp:127.9.9.9:1"] {
            let address: NbdAddress = text.parse().expect(text);
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_and_http_that_others_could_reach_are_refused() {
        for text in ["", "unix:", "tcp:", "tcp:localhost:1", "tcp:127.0.0.1", "/run/x", "udp:x"] {
            text.parse::<NbdAddress>().expect_err(text);
        }
        for text in ["0.0.0.0:80", "10.0.0.1:80", "tcp:127.0.0.1:80", "localhost:80", "/run/x"] {
            text.parse::<HttpAddress>().expect_err(text);
        }
        assert!("[::1]:9464".parse::<HttpAddress>().is_ok());
    }
}
