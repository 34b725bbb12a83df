//! Who may use NBD over TCP: TLS, certificates of clients, networks.

use std::cell::RefCell;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

use io::net::Address;
use ipnet::IpNet;
use rustls::ServerConfig;
use serde::Deserialize;

use super::address::NbdAddress;
use super::tls;
use crate::error::{Failure, Outcome};

/// Networks one may list: each client is held against all of them.
const NETWORKS_MAX: usize = 1024;

/// `IP/PREFIX`, or an `IP` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(IpNet);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let parsed = match text.parse::<IpAddr>() {
            Ok(address) => Some(IpNet::from(address)),
            Err(_) => text.parse().ok(),
        };
        let Some(net) = parsed else {
            return Err(format!("'{text}' is not a network like 10.1.0.0/16 or fd00:1::/64"));
        };
        // Whoever wrote this meant either the one address or the network.
        if net.trunc() != net {
            let (host, whole) = (net.addr(), net.trunc());
            return Err(format!("'{text}' has bits beyond its prefix: {whole} or {host}?"));
        }
        Ok(Network(net))
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Network, String> {
        text.parse()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Options of `serve`, and keys of its file.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessOptions {
    /// NBD over TCP is with TLS only, and this certificate (PEM, with those between it and its
    /// authority)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM, without passphrase)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Clients need a certificate signed by an authority in this file (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// NBD over TCP is for clients of this network only: IP/PREFIX. May be given several times
    #[arg(long, value_name = "NETWORK")]
    pub allow: Vec<Network>,
}

impl AccessOptions {
    /// Each of these, or else what `other` says of it. The files of TLS belong together.
    pub fn or(self, other: AccessOptions) -> AccessOptions {
        let own = self.tls_cert.is_some();
        AccessOptions {
            tls_cert: if own { self.tls_cert } else { other.tls_cert },
            tls_key: if own { self.tls_key } else { other.tls_key },
            tls_client_ca: self.tls_client_ca.or(other.tls_client_ca),
            allow: if self.allow.is_empty() { other.allow } else { self.allow },
        }
    }

    /// Reads the files. Refuses what would let strangers in at one of these addresses.
    pub fn read(&self, nbd: &[NbdAddress]) -> Outcome<Access> {
        self.check(nbd)?;
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => Some(tls::load(cert, key, self.tls_client_ca.as_deref())?),
            _ => None,
        };
        Ok(Access { tls, allow: self.allow.clone() })
    }

    /// The key that names the file `object`; if none does, an address is meant.
    pub fn key_of(&self, object: &str) -> &'static str {
        let files = [
            ("tls-cert", &self.tls_cert),
            ("tls-key", &self.tls_key),
            ("tls-client-ca", &self.tls_client_ca),
        ];
        let is_meant = |path: &PathBuf| path.display().to_string() == object;
        let meant = files.into_iter().find(|(_, path)| path.as_ref().is_some_and(is_meant));
        meant.map_or("nbd", |(key, _)| key)
    }

    fn check(&self, nbd: &[NbdAddress]) -> Outcome<()> {
        let pair = match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => Err(("tls-cert", "needs tls-key, the certificate's private key")),
            (None, Some(_)) => Err(("tls-key", "needs tls-cert, the certificate")),
            (None, None) if self.tls_client_ca.is_some() => {
                Err(("tls-client-ca", "needs tls-cert and tls-key: clients are asked by TLS"))
            }
            _ => Ok(()),
        };
        pair.map_err(|(object, what)| Failure::usage(object, what))?;
        if self.allow.len() > NETWORKS_MAX {
            let what = format!("{} networks, and {NETWORKS_MAX} is the most", self.allow.len());
            return Err(Failure::usage("allow", what));
        }
        nbd.iter().try_for_each(|address| self.check_address(address))
    }

    fn check_address(&self, address: &NbdAddress) -> Outcome<()> {
        let missing: Vec<&str> = [
            ("--tls-cert and --tls-key", self.tls_cert.is_none()),
            ("--tls-client-ca", self.tls_client_ca.is_none()),
            ("--allow", self.allow.is_empty()),
        ]
        .into_iter()
        .filter_map(|(option, missing)| missing.then_some(option))
        .collect();
        match &address.0 {
            Address::Tcp(tcp) if !tcp.ip().is_loopback() && !missing.is_empty() => {
                let what = format!(
                    "not a loopback address: anybody who reaches it could read and write every \
                     volume; give {} too (docs/cli.md, NBD over TCP)",
                    missing.join(", ")
                );
                Err(Failure::usage(address, what)
                    .hint("or listen on 127.0.0.1, [::1] or unix:PATH, and tunnel it"))
            }
            _ => Ok(()),
        }
    }
}

/// What the options came to.
pub struct Access {
    tls: Option<Arc<ServerConfig>>,
    allow: Vec<Network>,
}

impl Access {
    fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allow.is_empty() || self.allow.iter().any(|network| network.0.contains(&address))
    }
}

/// Asked for every connection, so that what is changed holds from the next one on. A handle.
#[derive(Clone)]
pub struct Doorkeeper {
    access: Rc<RefCell<Access>>,
}

impl Doorkeeper {
    pub fn new(access: Access) -> Doorkeeper {
        Doorkeeper { access: Rc::new(RefCell::new(access)) }
    }

    pub fn change(&self, access: Access) {
        self.access.replace(access);
    }

    /// How a client that came over TCP is served; `None` if it is not.
    pub fn admit(&self, peer: SocketAddr) -> Option<Option<Arc<ServerConfig>>> {
        let access = self.access.borrow();
        access.allows(peer.ip()).then(|| access.tls.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }

    #[test]
    fn networks_hold_their_addresses_and_no_others() {
        let allow = networks(&["10.1.0.0/16", "192.0.2.7", "fd00:1::/64"]);
        let access = Access { tls: None, allow };
        for inside in ["10.1.0.0", "10.1.255.255", "192.0.2.7", "fd00:1::9", "::ffff:10.1.2.3"] {
            assert!(access.allows(inside.parse().expect(inside)), "{inside}");
        }
        for outside in ["10.2.0.0", "127.0.0.1", "192.0.2.6", "fd00:1:0:1::9", "::1"] {
            assert!(!access.allows(outside.parse().expect(outside)), "{outside}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0.0/", "fd00::/129", "example.org", "10.0.0/8"] {
            assert!(text.parse::<Network>().expect_err(text).contains("is not a network"));
        }
        let error = "10.1.2.3/16".parse::<Network>().expect_err("host bits");
        assert!(error.ends_with("10.1.0.0/16 or 10.1.2.3?"), "{error}");
    }

    #[test]
    fn an_address_that_others_reach_needs_everything() {
        let far: NbdAddress = "tcp:0.0.0.0:10809".parse().expect("an address");
        let near: NbdAddress = "tcp:127.0.0.1:10809".parse().expect("an address");
        let all = AccessOptions {
            tls_cert: Some("c".into()),
            tls_key: Some("k".into()),
            tls_client_ca: Some("a".into()),
            allow: networks(&["10.0.0.0/8"]),
        };
        assert_eq!(all.check(&[far.clone(), near.clone()]), Ok(()));
        let less = [
            (AccessOptions { allow: Vec::new(), ..all.clone() }, "give --allow too"),
            (AccessOptions { tls_client_ca: None, ..all.clone() }, "give --tls-client-ca too"),
            (AccessOptions::default(), "give --tls-cert and --tls-key, --tls-client-ca, --allow"),
        ];
        for (options, expected) in less {
            let error = options.check(std::slice::from_ref(&far)).expect_err(expected);
            assert!(error.what.contains(expected), "{error}");
            assert_eq!(options.check(std::slice::from_ref(&near)), Ok(()));
        }
        let half = AccessOptions { tls_key: None, ..all };
        assert_eq!(half.check(&[]).expect_err("half").object, "tls-cert");
    }
}
