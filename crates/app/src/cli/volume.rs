//! `volume create | list | resize | limit | delete`.

use std::str::FromStr;

use clap::Subcommand;
use serde::Serialize;

use super::reach::Reach;
use super::status;
use crate::control::{Answer, Request};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::pools;
use crate::render::{human, json, print, view};
use crate::size::Size;

/// Make, list, resize, limit and delete volumes
///
/// Asks the server, and takes effect at once; with --drives it acts on a pool that is not
/// being served.
#[derive(Subcommand, Debug)]
#[command(after_help = "\
Examples:
  steadyraid volume create tank/vm1 500G
  steadyraid volume list tank
  steadyraid volume resize tank/vm1 1T
  steadyraid volume limit tank/vm1 --iops 5000
  steadyraid volume delete tank/vm1 --drives /dev/nvme?n1")]
pub enum Verb {
    Create(CreateArgs),
    List(ListArgs),
    Resize(ResizeArgs),
    Limit(LimitArgs),
    Delete(DeleteArgs),
}

/// Make a volume. It takes no space until it is written to
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  steadyraid volume create tank/vm1 500G --parity 2")]
pub struct CreateArgs {
    #[arg(value_name = "POOL/VOL")]
    volume: VolumePath,
    /// Size, a multiple of 512 bytes
    size: Size,
    /// Drives that may die without loss of this volume [default: as the pool]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=2))]
    parity: Option<u8>,
    /// Blocks in a stripe, parity included [default: as the pool]
    #[arg(long, value_name = "W")]
    width: Option<u16>,
    #[command(flatten)]
    reach: Reach,
}

/// List volumes
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  steadyraid volume list tank --json")]
pub struct ListArgs {
    /// Only those of this pool
    pool: Option<String>,
    #[command(flatten)]
    reach: Reach,
    /// A JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Change a volume's size. Shrinking is refused while there is data beyond the new end
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  steadyraid volume resize tank/vm1 1T")]
pub struct ResizeArgs {
    #[arg(value_name = "POOL/VOL")]
    volume: VolumePath,
    /// New size, a multiple of 512 bytes
    size: Size,
    #[command(flatten)]
    reach: Reach,
}

/// Bound the requests and bytes a second of a volume. Without limits volumes share the pool
///
/// A limit that is not given stays as it is.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("limit").required(true).multiple(true), after_help = "\
Examples:
  steadyraid volume limit tank/vm1 --iops 5000 --bandwidth 200M/s
  steadyraid volume limit tank/vm1 --none")]
pub struct LimitArgs {
    #[arg(value_name = "POOL/VOL")]
    volume: VolumePath,
    /// Requests a second; 0 for no limit
    #[arg(long, value_name = "N", group = "limit")]
    iops: Option<u64>,
    /// Bytes a second, read and written together, as SIZE or SIZE/s; 0 for no limit
    #[arg(long, value_name = "SIZE/s", group = "limit")]
    bandwidth: Option<Bandwidth>,
    /// Take the volume's limits away
    #[arg(long, group = "limit", conflicts_with_all = ["iops", "bandwidth"])]
    none: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth(u64);

impl FromStr for Bandwidth {
    type Err = String;

    fn from_str(text: &str) -> Result<Bandwidth, String> {
        let size: Size = text.strip_suffix("/s").unwrap_or(text).parse()?;
        Ok(Bandwidth(size.0))
    }
}

/// Delete a volume and all its data. Refused while a client is connected to it
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  steadyraid volume delete tank/vm1")]
pub struct DeleteArgs {
    #[arg(value_name = "POOL/VOL")]
    volume: VolumePath,
    #[command(flatten)]
    reach: Reach,
}

/// `POOL/VOL` as written. What names may consist of is the engine's to say.
#[derive(Clone, Debug)]
pub struct VolumePath {
    pool: String,
    volume: String,
}

impl FromStr for VolumePath {
    type Err = String;

    fn from_str(text: &str) -> Result<VolumePath, String> {
        match text.split_once('/') {
            Some((pool, volume)) if !pool.is_empty() && !volume.is_empty() => {
                Ok(VolumePath { pool: pool.to_owned(), volume: volume.to_owned() })
            }
            _ => Err(format!("'{text}' is not POOL/VOL")),
        }
    }
}

impl Verb {
    /// What is asked of the pool, and of whom; a list is made of what is known of it.
    pub fn request(&self) -> Option<(&Reach, Request)> {
        Some(match self {
            Verb::List(_) => return None,
            Verb::Create(args) => {
                let VolumePath { pool, volume } = args.volume.clone();
                let (size, parity, width) = (args.size.0, args.parity, args.width);
                (&args.reach, Request::VolumeCreate { pool, volume, size, parity, width })
            }
            Verb::Resize(args) => {
                let VolumePath { pool, volume } = args.volume.clone();
                (&args.reach, Request::VolumeResize { pool, volume, size: args.size.0 })
            }
            Verb::Limit(args) => {
                let VolumePath { pool, volume } = args.volume.clone();
                let none = args.none.then_some(0);
                let iops = args.iops.or(none);
                let bytes_per_sec = args.bandwidth.map(|bandwidth| bandwidth.0).or(none);
                (&args.reach, Request::VolumeLimit { pool, volume, iops, bytes_per_sec })
            }
            Verb::Delete(args) => {
                let VolumePath { pool, volume } = args.volume.clone();
                (&args.reach, Request::VolumeDelete { pool, volume })
            }
        })
    }
}

pub fn run(verb: &Verb) -> Outcome<Exit> {
    match (verb, verb.request()) {
        (Verb::List(args), _) => list(args),
        (_, Some((reach, request))) => change(reach, &request),
        (_, None) => unreachable!("all but lists are requests"),
    }
}

/// The same request, whoever carries it out.
fn change(reach: &Reach, request: &Request) -> Outcome<Exit> {
    let answer = if reach.unserved() {
        let env = super::environment()?;
        env.block_on(pools::change_unserved(&env, &reach.drives, request))?
    } else {
        reach.control.ask(request)?
    };
    match answer {
        Answer::Done(what) => print(&format!("{what}\n")),
        _ => return Err(Failure::new("server", "answered something else than it was asked")),
    }
    Ok(Exit::Ok)
}

#[derive(Serialize)]
struct Listed<'a> {
    pool: &'a str,
    #[serde(flatten)]
    volume: &'a view::Volume,
}

#[derive(Serialize)]
struct Report<'a> {
    volumes: Vec<Listed<'a>>,
}

fn list(args: &ListArgs) -> Outcome<Exit> {
    let pools = status::find(args.pool.as_deref(), &args.reach)?;
    if args.json {
        let volumes = pools.iter().flat_map(listed).collect();
        print(&json::document(&Report { volumes }));
    } else {
        print(&human::volumes(&pools));
    }
    Ok(Exit::Ok)
}

fn listed(pool: &view::Pool) -> impl Iterator<Item = Listed<'_>> {
    pool.volumes.iter().map(|volume| Listed { pool: &pool.name, volume })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_is_a_size_a_second() {
        let bandwidth = |text: &str| text.parse::<Bandwidth>().ok();
        assert_eq!(bandwidth("200M/s"), Some(Bandwidth(200 << 20)));
        assert_eq!(bandwidth("1GiB"), Some(Bandwidth(1 << 30)));
        for bad in ["", "/s", "fast", "200M/h", "200Mb/s", "-1"] {
            assert_eq!(bandwidth(bad), None, "{bad}");
        }
    }
}
