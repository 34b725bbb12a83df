//! Drives of a pool that is served: taken out of use, replaced, restored.
//!
//! ```text
//!   active ── fails, or is failed ── failed ── replaced ── restoring ── active
//!                                     │  ▲                   │
//!                              let go └──┴───────────────────┘  fails
//! ```

use std::rc::Rc;

use format::MemberState;
use io::{Drive, Env};

use super::{Decided, Inner, Pool, Severity};
use crate::part::Part;
use crate::part::hang::Patience;
use crate::store::{Replace, Store, StoreError, refuse_drive};
use crate::watch::Watch;

impl<E: Env> Pool<E> {
    /// Takes a drive out of use; refused if it is needed. One that is offline is to come back: no
    /// spare takes its place by itself.
    pub async fn drive_fail(&self, place: usize, offline: bool) -> Result<(), StoreError> {
        let inner = &*self.inner;
        let _turn = inner.drive_turn.lock().await;
        let store = inner.volumes.store();
        if !store.bears(place) {
            let hint = "without it data would be lost: no redundancy is left there";
            return refuse_drive(&inner.name_of(place), place, hint);
        }
        inner.let_go(place);
        inner.leave_undecided(place);
        if offline {
            inner.offline.borrow_mut().push(place);
        }
        store.write_off(place).await?;
        inner.end_filling(place);
        if !inner.known.borrow().contains(&place) {
            inner.known.borrow_mut().push(place);
            inner.tell_lost(place);
        }
        Ok(())
    }

    /// An event of what whoever opened the drives found out about them, or one of them.
    pub fn tell(
        &self,
        place: Option<usize>,
        (severity, kind): (Severity, &'static str),
        text: String,
    ) {
        self.inner.tell(severity, kind, place, text);
    }

    /// A drive is read only where nobody else can answer, or as any other again; it is written to
    /// all the same. Until it is told otherwise, is lost, or the pool is closed. Refused if nobody
    /// else has what it holds.
    pub fn drive_sit_out(&self, place: usize, out: bool) -> Result<(), StoreError> {
        let inner = &*self.inner;
        let store = inner.volumes.store();
        if out && !store.bears(place) {
            let hint = "nobody else can answer for it: no redundancy is left there";
            return refuse_drive(&inner.name_of(place), place, hint);
        }
        inner.leave_undecided(place);
        if out {
            inner.decided.borrow_mut().insert(place, Decided::SitOut);
            store.sit_out(place, true);
        }
        Ok(())
    }

    /// A drive may be as slow as it is: nothing is said of that, until an operator says otherwise,
    /// the drive is lost or the pool is closed.
    pub fn drive_trust(&self, place: usize) {
        self.inner.leave_undecided(place);
        self.inner.decided.borrow_mut().insert(place, Decided::Trusted);
    }

    /// Whether all data would be there without this drive, too.
    pub fn drive_bears(&self, place: usize) -> bool {
        self.inner.volumes.store().bears(place)
    }

    /// A lost drive is let go, so that somebody else can open it. Nothing happens to others.
    pub fn drive_let_go(&self, place: usize) {
        let store = self.inner.volumes.store();
        let restoring = store.restoring().iter().any(|own| own.place == place);
        if store.lost().contains(&place) && !restoring {
            self.inner.let_go(place);
        }
    }

    /// Gives the place of a lost drive to a new one, or to the same that is back. It is filled in
    /// the background. One that works is copied instead, and has its place until that is done.
    pub async fn drive_replace(&self, place: usize, new: E::Drive) -> Result<(), StoreError> {
        let inner = &self.inner;
        let _turn = inner.drive_turn.lock().await;
        let label = classical::label::read(&new).await;
        let other = label.as_ref().and_then(|own| Some((own, inner.place_of(own)?)));
        if let Some((own, other)) = other {
            let store = inner.volumes.store();
            let is_it = inner.uuids.borrow().get(other) == Some(&own.drive);
            if other != place && is_it && !store.lost().contains(&other) && inner.has(other) {
                let hint = "it is in use in another place of this pool: give another drive";
                return refuse_drive(&new.name(), place, hint);
            }
        }
        let part = Part::whole(new).with_patience(Patience::new(&inner.env));
        if inner.works(place) {
            return inner.begin_exchange(place, part, None).await;
        }
        self.drive_let_go(place);
        inner.put(place, part.watched(Watch::new(&inner.env))).await
    }

    /// What a crash cut short is begun again.
    pub(super) async fn go_on_restoring(&self) {
        let inner = &*self.inner;
        let count = inner.drives.borrow().len();
        for (place, listed) in (0..count).map(|place| (place, inner.listed(place))) {
            let told = listed.state == MemberState::Restoring;
            let part = inner.drives.borrow()[place].clone();
            // It is known to be that drive: so it stays, whatever cuts this short.
            let part = part.map(|part| part.with_identity(listed.drive));
            let (true, Some(part)) = (told, part) else { continue };
            let store = inner.volumes.store();
            let begun = match store.lost().contains(&place) {
                true if store.restoring().iter().any(|own| own.place == place) => {
                    inner.begin_filling(place);
                    Ok(())
                }
                true => self.inner.put(place, part).await,
                false => store.tell_whole(place).await,
            };
            inner.note_trouble(begun.err());
        }
    }
}

impl<E: Env> Inner<E> {
    fn has(&self, place: usize) -> bool {
        self.drives.borrow().get(place).is_some_and(Option::is_some)
    }

    pub(super) fn name_of(&self, place: usize) -> String {
        self.known_name(place).unwrap_or_default()
    }

    pub(super) fn known_name(&self, place: usize) -> Option<String> {
        self.drives.borrow().get(place)?.as_ref().map(Drive::name)
    }

    pub(super) fn let_go(&self, place: usize) {
        self.drives.borrow()[place].iter().for_each(Part::let_go);
    }

    pub(super) async fn put(self: &Rc<Self>, place: usize, part: Part) -> Result<(), StoreError> {
        self.ask_before_giving_up(place, &part);
        self.volumes.store().replace(place, part.clone()).await?;
        // What was said of the one before it does not hold for it.
        self.leave_undecided(place);
        // At once: it may be whole already.
        self.drives.borrow_mut()[place] = Some(part.clone());
        self.note_uuid(place, &part).await;
        self.missing.borrow_mut().retain(|at| *at != place);
        self.offline.borrow_mut().retain(|at| *at != place);
        self.begin_filling(place);
        Ok(())
    }

    async fn note_uuid(&self, place: usize, part: &Part) {
        if let Some(label) = classical::label::read(part).await {
            self.uuids.borrow_mut()[place] = label.drive;
        }
    }

    fn begin_filling(&self, place: usize) {
        self.filling.borrow_mut().push(place);
        let name = self.name_of(place);
        let text = format!("drive {place} ({name}) is filled with what the lost one had");
        self.tell(Severity::Info, "drive-restoring", Some(place), text);
    }

    /// What was decided about the drive in this place, and known of its latency, is over.
    pub(super) fn leave_undecided(&self, place: usize) {
        self.decided.borrow_mut().remove(&place);
        self.volumes.store().sit_out(place, false);
        self.forget_slow(place);
    }

    pub(super) fn end_filling(&self, place: usize) {
        self.filling.borrow_mut().retain(|at| *at != place);
    }

    /// Says which drives are whole by now, on the drives, too.
    pub(super) async fn note_restored(&self) -> Result<(), StoreError> {
        let store = self.volumes.store();
        let filling = self.filling.borrow().clone();
        if filling.is_empty() {
            return Ok(());
        }
        let (restoring, lost) = (store.restoring(), store.lost());
        let over = |place: &&usize| !restoring.iter().any(|own| own.place == **place);
        for &place in filling.iter().filter(over) {
            // Of several that have to come together the others are awaited.
            if lost.contains(&place) && !self.has_failed(place) {
                continue;
            }
            if !lost.contains(&place) {
                store.tell_whole(place).await?;
                let part = self.drives.borrow()[place].clone();
                if let Some(part) = part {
                    self.note_uuid(place, &part).await;
                }
            }
            // Not before: who waits for the drive counts on it.
            self.end_filling(place);
            self.known.borrow_mut().retain(|at| *at != place);
            if lost.contains(&place) {
                continue;
            }
            let text = format!("drive {place} ({}) has everything", self.name_of(place));
            self.tell(Severity::Info, "drive-restored", Some(place), text);
        }
        Ok(())
    }

    /// An operation on a new drive went wrong.
    pub(super) fn has_failed(&self, place: usize) -> bool {
        let counters = self.drives.borrow()[place].as_ref().map(Part::counters);
        counters.is_none_or(|counters| counters.write_errors + counters.read_errors > 0)
    }
}
