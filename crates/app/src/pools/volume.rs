//! Verbs on volumes.

use super::Pool;
use crate::control::{Answer, Request};
use crate::error::Outcome;
use crate::explain;
use crate::size::Size;

/// Carries out a request that is about a volume.
pub async fn change(pool: &Pool, request: &Request) -> Outcome<Answer> {
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
        _ => unreachable!("no request about a volume: {request:?}"),
    };
    let object = format!("{}/{volume}", pool.name());
    match result {
        Ok(done) => Ok(Answer::Done(format!("volume {object} {done}"))),
        Err(error) => Err(explain::volume(&object, &error)),
    }
}
