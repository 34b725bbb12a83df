//! What operators ask for to keep data whole.

use super::any::{Fusion, Pool};
use crate::control::{Answer, ScrubAction};
use crate::error::{Failure, Outcome};

/// A pool that can be scrubbed: any.
impl Pool {
    fn scrub_state(&self) -> String {
        self.view().scrub.state
    }

    fn scrub_start(&self) -> Result<(), String> {
        match self {
            Pool::Fusion(pool) => pool.scrub_start().map_err(|error| error.to_string()),
            Pool::Other(pool) => {
                pool.scrub_start();
                Ok(())
            }
        }
    }

    fn scrub_pause(&self) {
        match self {
            Pool::Fusion(pool) => pool.scrub_pause(),
            Pool::Other(pool) => pool.scrub_pause(),
        }
    }

    fn scrub_stop(&self) {
        match self {
            Pool::Fusion(pool) => pool.scrub_stop(),
            Pool::Other(pool) => pool.scrub_stop(),
        }
    }
}

pub fn scrub(pool: &Pool, action: ScrubAction) -> Outcome<Answer> {
    let object = format!("pool {}", pool.name());
    let state = pool.scrub_state();
    let goes_on = matches!(state.as_str(), "running" | "paused");
    let said = match action {
        ScrubAction::Start if state == "running" => {
            return Err(Failure::new(object, "is being scrubbed already")
                .hint("'steadyraid scrub status' shows how far it is"));
        }
        ScrubAction::Start => {
            pool.scrub_start().map_err(|error| Failure::new(&object, error))?;
            "the scrub goes on in the background; 'steadyraid wait POOL scrub' waits for it"
        }
        _ if !goes_on => {
            return Err(Failure::new(object, "is not being scrubbed"));
        }
        ScrubAction::Pause => {
            pool.scrub_pause();
            "the scrub is paused until 'steadyraid scrub start'"
        }
        ScrubAction::Stop => {
            pool.scrub_stop();
            "the scrub is stopped"
        }
    };
    Ok(Answer::Done(format!("{object}: {said}")))
}

pub(crate) async fn rebalance(pool: &Fusion, stop: bool) -> Outcome<Answer> {
    let object = format!("pool {}", pool.name());
    let failed = |error| Failure::new(&object, error);
    if stop {
        pool.rebalance_stop().await.map_err(failed)?;
        return Ok(Answer::Done(format!("{object}: nothing more is moved")));
    }
    pool.rebalance().await.map_err(failed)?;
    let zones = pool.rebalance_status().zones_left;
    Ok(Answer::Done(format!(
        "{object}: {zones} zones are moved to all drives in the background; 'steadyraid wait POOL \
         rebalance' waits for it"
    )))
}

pub fn rebuild(pool: &Pool, pause: bool) -> Answer {
    match pool {
        Pool::Fusion(pool) if pause => pool.rebuild_pause(),
        Pool::Fusion(pool) => pool.rebuild_resume(),
        Pool::Other(pool) => pool.rebuild_pause(pause),
    }
    let said = match (pause, pool) {
        (true, Pool::Fusion(_)) => {
            "what lost drives held stays where it is until 'steadyraid rebuild resume'"
        }
        (true, Pool::Other(_)) => {
            "no spare takes a place, and none is filled, until 'steadyraid rebuild resume'"
        }
        (false, _) => "rebuilding goes on",
    };
    Answer::Done(format!("pool {}: {said}", pool.name()))
}
