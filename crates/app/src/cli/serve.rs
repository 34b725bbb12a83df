//! `serve`: its command line, and how that combines with a configuration file.

use std::path::PathBuf;

use io::net::Address;

use crate::control::ControlArgs;
use crate::drives::name::DriveName;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::pools::held::Others;
use crate::runtime_dir;
use crate::serve::access::AccessOptions;
use crate::serve::address::{HttpAddress, NbdAddress};
use crate::serve::alerts::Severity;
use crate::serve::config::Config;
use crate::serve::hole::HoleMode;
use crate::serve::http::guard::TokenFile;
use crate::serve::mem_pool::MemPool;
use crate::serve::rebuild_after::RebuildAfter;
use crate::serve::spikes::{Mode, SpikeOptions};
use crate::serve::wait_for_drives::WaitForDrives;
use crate::serve::{self, Options};

/// Open pools and serve their volumes over NBD, as exports named POOL/VOL
///
/// Finds the pools on the drives given, opens them (degraded, if no more drives are missing
/// than a pool can do without) and says 'ready'. SIGTERM or SIGINT stop it: requests that have
/// arrived are carried out, then pools are closed. With --config, SIGHUP has the file read again.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  steadyraid serve /dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1
  steadyraid serve --nbd unix:/run/vm.sock --nbd tcp:127.0.0.1:10809 /dev
  steadyraid serve --mem-pool demo:6:1G:vm=2G
  steadyraid serve --mem-pool slow:6:model:dc-sata,size=8G,fill=aged:vm=16G
  steadyraid serve --config /etc/steadyraid.toml")]
pub struct Args {
    /// Where NBD clients connect: unix:PATH or tcp:IP:PORT; other than loopback needs --tls-cert,
    /// --tls-key, --tls-client-ca and --allow. May be given several times [default: unix:nbd.sock
    /// in the runtime directory]
    #[arg(long, value_name = "ADDRESS")]
    nbd: Vec<NbdAddress>,
    #[command(flatten)]
    access: AccessOptions,
    /// Where the API and metrics are for browsers and Prometheus: IP:PORT, loopback only
    /// [default: only on the control socket]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<HttpAddress>,
    /// Changes over --http need what is in this file, at least 16 characters; without it they are
    /// refused
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Read options from a TOML file; what is given here replaces what it says
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Make a pool in memory, for as long as the server runs: NAME:DRIVES:SIZE[:VOL=SIZE]...
    /// SIZE may be a model without file: model:PRESET,size=SIZE[,fill=fresh|aged][,seed=N].
    /// DRIVES:SIZE may be there several times, for drives of several kinds
    #[arg(long, value_name = "SPEC")]
    mem_pool: Vec<MemPool>,
    #[command(flatten)]
    spikes: SpikeOptions,
    /// Of schemes that write in place: guard against the write hole or not [default: closed]
    #[arg(long, value_name = "MODE", value_enum)]
    write_hole: Option<HoleMode>,
    /// How long after a drive was lost the others take over what it held, if nothing is in its
    /// place by then: a time like 10m, or never (scheme fusion) [default: 30s]
    #[arg(long, value_name = "TIME")]
    rebuild_after: Option<RebuildAfter>,
    /// How long the start waits for drives that are missing: opened without them, a pool would make
    /// them out of date. Later ones join by themselves [default: 0s]
    #[arg(long, value_name = "TIME")]
    wait_for_drives: Option<WaitForDrives>,
    /// Open pools that another host has open as well, if no sign of life is seen of it for 10 s: it
    /// stops serving them should it come back. For hosts that are gone for good
    #[arg(long)]
    take_over: bool,
    /// Write the log to syslog as well. (It goes to the journal, with fields, if standard error
    /// does)
    #[arg(long)]
    syslog: bool,
    /// Events below this are not written to the log: info, warning or error [default: info]
    #[arg(long, value_name = "SEVERITY", value_enum, hide_possible_values = true)]
    log_level: Option<Severity>,
    /// Let the control socket make drives fail, hang and lie: for tests only (docs/testing.md)
    #[arg(long, hide = true)]
    test_faults: bool,
    #[command(flatten)]
    control: ControlArgs,
    /// Block devices, files, or directories to search for drives of pools;
    /// model:PRESET,size=SIZE,file=PATH[,fill=fresh|aged][,seed=N] is a file that answers as slowly
    /// as the drive it models
    #[arg(value_name = "DRIVE|DIR", value_parser = DriveName::parser())]
    drives: Vec<DriveName>,
}

/// How long the server looks for the next request before it sleeps: about what being woken
/// costs, so a client that asks again at once is answered without that.
const SPIN_MICROS: u64 = 40;

pub fn run(args: Args) -> Outcome<Exit> {
    let again = args.config.is_some().then(|| args.clone());
    let options = options(args)?;
    let env = super::environment()?;
    env.set_spin(SPIN_MICROS);
    let reread = again.map(|args| move || self::options(args.clone()));
    let exit = env.block_on(serve::run(&env, options, reread));
    // Background tasks of pools hold drives, and would keep their claims.
    env.drop_tasks();
    exit
}

fn options(args: Args) -> Outcome<Options> {
    let read = args.config.as_deref().map(Config::read).transpose()?;
    let (config, mut origin) = read.unwrap_or_default();
    origin.forget(&given(&args));
    let spikes = args.spikes.or(config.spikes());
    spikes.handling(Mode::On).map_err(|failure| origin.blame(failure, &SPIKE_KEYS))?;
    let access = args.access.or(config.access());
    let write_hole = args.write_hole.or(config.write_hole);
    let control = args.control.control.or(config.control);
    let mut options = Options {
        drives: or(args.drives, config.drives),
        mem_pools: or(args.mem_pool, config.mem_pools),
        nbd: or(args.nbd, config.nbd),
        access,
        control: control.clone().unwrap_or_else(runtime_dir::control_socket),
        http: args.http.or(config.http),
        token: TokenFile(args.token_file.or(config.token_file)),
        spikes,
        write_hole: write_hole.map_or_else(Default::default, Into::into),
        others: if args.take_over { Others::TakeOver } else { Others::Respect },
        rebuild_after: args.rebuild_after.or(config.rebuild_after).unwrap_or_default(),
        wait_for_drives: args.wait_for_drives.or(config.wait_for_drives).unwrap_or_default(),
        alerts: config.alert,
        syslog: args.syslog || config.syslog,
        log_level: args.log_level.or(config.log_level).unwrap_or(Severity::Info),
        test_faults: args.test_faults,
        origin,
    };
    if options.drives.is_empty() && options.mem_pools.is_empty() {
        return Err(Failure::usage("serve", "nothing to serve")
            .hint("name drives or directories to search, or --mem-pool"));
    }
    let default_nbd = options.nbd.is_empty();
    if default_nbd {
        options.nbd.push(NbdAddress(Address::Unix(runtime_dir::nbd_socket())));
    }
    if default_nbd || control.is_none() {
        runtime_dir::ensure()?;
    }
    Ok(options)
}

/// What is to blame, in this order, for what makes no sense together.
const SPIKE_KEYS: [&str; 5] =
    ["stragglers-leave", "stragglers-enter", "spike-slots", "straggler-threshold", "spikes"];

/// Keys of the file that the command line replaces, of those that are looked at once more.
fn given(args: &Args) -> Vec<&'static str> {
    let (spikes, access) = (&args.spikes, &args.access);
    let keys = [
        ("nbd", !args.nbd.is_empty()),
        ("tls-cert", access.tls_cert.is_some()),
        ("tls-key", access.tls_cert.is_some()),
        ("tls-client-ca", access.tls_client_ca.is_some()),
        ("allow", !access.allow.is_empty()),
        ("token-file", args.token_file.is_some()),
        ("spikes", spikes.spikes.is_some()),
        ("straggler-threshold", spikes.straggler_threshold.is_some()),
        ("stragglers-enter", spikes.stragglers_enter.is_some()),
        ("stragglers-leave", spikes.stragglers_leave.is_some()),
        ("spike-slots", spikes.spike_slots.is_some()),
    ];
    keys.into_iter().filter_map(|(key, given)| given.then_some(key)).collect()
}

fn or<T>(given: Vec<T>, otherwise: Vec<T>) -> Vec<T> {
    if given.is_empty() { otherwise } else { given }
}
