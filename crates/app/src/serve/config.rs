//! The configuration file: the same options as `serve`'s, in TOML.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::access::{AccessOptions, Network};
use super::address::{HttpAddress, NbdAddress};
use super::alerts::{Alert, Severity};
use super::hole::HoleMode;
use super::mem_pool::MemPool;
use super::origin::{Origin, line};
use super::rebuild_after::RebuildAfter;
use super::spikes::{Mode, SpikeOptions, StragglerThreshold};
use super::wait_for_drives::WaitForDrives;
use crate::drives::name::DriveName;
use crate::error::{Failure, Outcome};

/// What a file may say. An unknown key is a typing mistake, so it is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Config {
    pub drives: Vec<DriveName>,
    pub nbd: Vec<NbdAddress>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub tls_client_ca: Option<PathBuf>,
    pub allow: Vec<Network>,
    pub control: Option<PathBuf>,
    pub http: Option<HttpAddress>,
    pub token_file: Option<PathBuf>,
    pub mem_pools: Vec<MemPool>,
    pub spikes: Option<Mode>,
    pub straggler_threshold: Option<StragglerThreshold>,
    pub stragglers_enter: Option<u32>,
    pub stragglers_leave: Option<u32>,
    pub spike_slots: Option<u8>,
    pub write_hole: Option<HoleMode>,
    pub rebuild_after: Option<RebuildAfter>,
    pub wait_for_drives: Option<WaitForDrives>,
    pub alert: Vec<Alert>,
    pub syslog: bool,
    pub log_level: Option<Severity>,
}

impl Config {
    pub fn read(path: &Path) -> Outcome<(Config, Origin)> {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::usage(path.display(), format!("can't read it: {error}")))?;
        let config = Config::parse(&text).map_err(|what| {
            Failure::usage(path.display(), what)
                .hint("docs/cli.md lists the keys: each is an option of 'serve'")
        })?;
        Ok((config, Origin::of(path, &text)))
    }

    pub fn access(&self) -> AccessOptions {
        AccessOptions {
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            tls_client_ca: self.tls_client_ca.clone(),
            allow: self.allow.clone(),
        }
    }

    pub fn spikes(&self) -> SpikeOptions {
        SpikeOptions {
            spikes: self.spikes,
            straggler_threshold: self.straggler_threshold,
            stragglers_enter: self.stragglers_enter,
            stragglers_leave: self.stragglers_leave,
            spike_slots: self.spike_slots,
        }
    }

    pub fn parse(text: &str) -> Result<Config, String> {
        toml::from_str(text).map_err(|error| {
            let message = error.message().trim_end();
            match error.span() {
                Some(span) => format!("line {}: {message}", line(text, span.start)),
                None => message.to_owned(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_read() {
        let config = Config::parse(
            "drives = ['/dev/a', '/srv/pool']\nnbd = ['tcp:127.0.0.1:10809']\n\
             control = '/run/c.sock'\nhttp = '127.0.0.1:9464'\n\
             token-file = '/etc/token'\nmem-pools = ['demo:4:64M']\nspikes = 'watch'\n\
             straggler-threshold = '2ms'\nstragglers-enter = 5\nspike-slots = 20\n\
             write-hole = 'open'\nrebuild-after = 'never'\nwait-for-drives = '90s'\n\
             tls-cert = 'c'\ntls-key = 'k'\ntls-client-ca = 'a'\nallow = ['10.0.0.0/8']\n\
             syslog = true\nlog-level = 'warning'\n[[alert]]\nprogram = ['/bin/page']\n\
             [[alert]]\nwebhook = 'http://127.0.0.1:1/'\nseverity = 'info'\n",
        );
        let config = config.expect("well-formed");
        assert_eq!((config.drives.len(), config.nbd.len(), config.mem_pools.len()), (2, 1, 1));
        assert_eq!((config.spikes, config.stragglers_enter), (Some(Mode::Watch), Some(5)));
        assert_eq!(config.write_hole, Some(HoleMode::Open));
        assert_eq!(config.rebuild_after.map(RebuildAfter::time), Some(None));
        assert!(config.wait_for_drives.is_some());
        assert_eq!((config.syslog, config.alert.len()), (true, 2));
        assert_eq!(config.log_level, Some(Severity::Warning));
        let access = config.access();
        assert!(access.tls_cert.is_some() && access.tls_key.is_some());
        assert!(access.tls_client_ca.is_some() && access.allow.len() == 1);
        assert!(config.http.is_some() && config.token_file.is_some());
        assert_eq!(Config::parse(""), Ok(Config::default()));
    }

    #[test]
    fn mistakes_are_refused_with_their_line() {
        let cases = [
            ("drives = []\nnbds = []\n", "line 2: unknown field `nbds`"),
            ("\n\nnbd = ['tcp:here:1']", "line 3: 'here:1' is not an IP address"),
            ("allow = ['10.0.0.0/33']", "line 1: '10.0.0.0/33' is not a network"),
            ("http = '10.0.0.1:80'", "line 1: 10.0.0.1 is not a loopback address"),
            ("drives = 5", "line 1: invalid type"),
            ("drives = [\n", "line "),
            ("mem-pools = ['x']", "line 1: 'x' is not NAME:DRIVES"),
            ("spikes = 'maybe'", "line 1: unknown variant `maybe`, expected one of `on`"),
            ("straggler-threshold = 'soon'", "line 1: 'soon' is neither"),
            ("spike-slots = 256", "line 1: invalid value"),
            ("\n[[alert]]\nprogram = ['page']", "line 2: program 'page' is not an absolute path"),
        ];
        for (text, expected) in cases {
            let error = Config::parse(text).expect_err(text);
            assert!(error.starts_with(expected), "{error:?} for {text:?}");
        }
    }
}
