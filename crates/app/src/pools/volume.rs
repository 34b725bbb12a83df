//! Verbs on volumes.

use std::fmt;

use engine::{VolumeError, VolumeLimits};

use super::any::{Fusion, Other, Pool};
use crate::control::{Answer, Request};
use crate::error::{Failure, Outcome};
use crate::explain;
use crate::render::human;
use crate::size::Size;

/// Carries out a request that is about a volume.
pub(crate) async fn change(pool: &Pool, request: &Request) -> Outcome<Answer> {
    let answer = match pool {
        Pool::Fusion(pool) => change_fusion(pool, request).await,
        Pool::Other(pool) => change_other(pool, request).await,
    }?;
    match (answer, request) {
        (Answer::Done(done), Request::VolumeCreate { .. } | Request::VolumeResize { .. }) => {
            Ok(Answer::Done(format!("{done}{}", Provisioned::of(pool))))
        }
        (answer, _) => Ok(answer),
    }
}

async fn change_other(pool: &Other, request: &Request) -> Outcome<Answer> {
    let volumes = pool.volumes();
    let (volume, result) = match request {
        Request::VolumeCreate { volume, parity, width, .. }
            if parity.is_some() || width.is_some() =>
        {
            let what = "volumes of this scheme have the pool's shape";
            return Err(Failure::usage(format!("{}/{volume}", pool.name()), what)
                .hint("leave --parity and --width out"));
        }
        Request::VolumeCreate { volume, size, .. } => {
            let result = volumes.create(volume, *size).await;
            (volume, result.map(|()| format!("of {} created", Size(*size))))
        }
        Request::VolumeResize { volume, size, .. } => {
            let result = volumes.resize(volume, *size).await;
            (volume, result.map(|()| format!("resized to {}", Size(*size))))
        }
        Request::VolumeDelete { volume, .. } => {
            (volume, volumes.delete(volume).await.map(|()| "deleted".to_owned()))
        }
        Request::VolumeLimit { volume, .. } => {
            let what = "limits need the scheme fusion";
            return Err(Failure::new(format!("{}/{volume}", pool.name()), what));
        }
        _ => unreachable!("no request about a volume: {request:?}"),
    };
    let object = format!("{}/{volume}", pool.name());
    match result {
        Ok(done) => Ok(Answer::Done(format!("volume {object} {done}"))),
        Err(error) => Err(explain::other_volume(&object, &error)),
    }
}

async fn change_fusion(pool: &Fusion, request: &Request) -> Outcome<Answer> {
    let (volume, result) = match request {
        Request::VolumeCreate { volume, size, parity, width, .. } => {
            let result = pool.volume_create(volume, *size, *parity, *width).await;
            (volume, result.map(|()| format!("of {} created", Size(*size))))
        }
        Request::VolumeResize { volume, size, .. } => {
            let result = pool.volume_resize(volume, *size).await;
            (volume, result.map(|()| format!("resized to {}", Size(*size))))
        }
        Request::VolumeDelete { volume, .. } => {
            (volume, pool.volume_delete(volume).await.map(|()| "deleted".to_owned()))
        }
        Request::VolumeLimit { volume, iops, bytes_per_sec, .. } => {
            (volume, limit(pool, volume, *iops, *bytes_per_sec).await)
        }
        _ => unreachable!("no request about a volume: {request:?}"),
    };
    let object = format!("{}/{volume}", pool.name());
    match result {
        Ok(done) => Ok(Answer::Done(format!("volume {object} {done}"))),
        Err(error) => Err(explain::volume(&object, &error)),
    }
}

/// What volumes would hold if they were written whole, and what there is room for.
struct Provisioned {
    all: u64,
    room: u64,
}

impl Provisioned {
    fn of(pool: &Pool) -> Provisioned {
        let (all, fill) = (pool.exports().iter().map(|volume| volume.size).sum(), pool.fill());
        Provisioned { all, room: fill.used + fill.available }
    }
}

/// A warning, if volumes promise more than there is.
impl fmt::Display for Provisioned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, room) = (Size(self.all), Size(self.room));
        if self.all <= self.room {
            return Ok(());
        }
        write!(
            f,
            "; the pool's volumes promise {all}, and it has room for {room}: writes fail when that \
             is used up"
        )
    }
}

/// What is not given stays as it is.
async fn limit(
    pool: &Fusion,
    volume: &str,
    iops: Option<u64>,
    bytes_per_sec: Option<u64>,
) -> Result<String, VolumeError> {
    let found = pool.volumes().into_iter().find(|info| info.name == volume);
    let old = found.ok_or_else(|| VolumeError::NotFound(volume.to_owned()))?.limits;
    let limits = VolumeLimits {
        iops: iops.unwrap_or(old.iops),
        bytes_per_sec: bytes_per_sec.unwrap_or(old.bytes_per_sec),
    };
    pool.volume_limit(volume, limits).await?;
    Ok(match limits {
        VolumeLimits { iops: 0, bytes_per_sec: 0 } => "has no limits".to_owned(),
        limits => format!("limited to {}", human::limits(&(&limits).into())),
    })
}
