//! Any of the schemes behind one type, for whoever serves pools.

use classical::Array;
use format::{Superblock, Uuid};
use futures_util::future::LocalBoxFuture;
use io::sync::Turn;
use io::{Buf, Env};

use crate::care::AllKept;
use crate::scheme::alternate::{self, Alternate};
use crate::scheme::cached_raid5::CachedRaid5;
use crate::scheme::hpda;
use crate::scheme::hybrid::Hybrid;
use crate::scheme::log_mirror::policy::Policy;
use crate::scheme::log_mirror::{self, LogMirror};
use crate::scheme::log_raid::LogRaid;
use crate::scheme::mirror_log::MirrorLog;
use crate::scheme::n_raid5::NRaid5;
use crate::scheme::steering::{self, Steering};
use crate::scheme::tole_raid::ToleRaid;
use crate::scheme::{OpenOptions, Scheme};
use crate::store::{Counters, Replace, Restoring, Store, StoreError};

/// Behind a pointer: what awaits any of ten is not made of all ten, which takes long to compile.
fn boxed<'a, T>(future: impl Future<Output = T> + 'a) -> LocalBoxFuture<'a, T> {
    Box::pin(future)
}

/// One variant a kind of store, and [`Store`] for all of them.
macro_rules! stores {
    ($($kind:ident($store:ty)),+ $(,)?) => {
        #[derive(Clone)]
        pub enum AnyStore<E: Env> { $($kind($store)),+ }

        impl<E: Env> Store for AnyStore<E> {
            fn size(&self) -> u64 {
                match self { $(AnyStore::$kind(store) => Store::size(store)),+ }
            }

            fn unit(&self) -> u64 {
                match self { $(AnyStore::$kind(store) => store.unit()),+ }
            }

            fn regions(&self) -> u64 {
                match self { $(AnyStore::$kind(store) => store.regions()),+ }
            }

            async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
                match self {
                    $(AnyStore::$kind(store) => boxed(Store::read(store, offset, len)).await),+
                }
            }

            async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
                match self {
                    $(AnyStore::$kind(store) => {
                        boxed(Store::write(store, offset, data, fua)).await
                    }),+
                }
            }

            async fn discard(&self, offset: u64, len: u64) -> Result<(), StoreError> {
                match self {
                    $(AnyStore::$kind(store) => boxed(Store::discard(store, offset, len)).await),+
                }
            }

            async fn flush(&self) -> Result<(), StoreError> {
                match self { $(AnyStore::$kind(store) => boxed(Store::flush(store)).await),+ }
            }

            async fn close(&self) -> Result<(), StoreError> {
                match self { $(AnyStore::$kind(store) => boxed(Store::close(store)).await),+ }
            }

            async fn work(&self) -> Result<bool, StoreError> {
                match self { $(AnyStore::$kind(store) => boxed(store.work()).await),+ }
            }

            fn owed(&self) -> u64 {
                match self { $(AnyStore::$kind(store) => store.owed()),+ }
            }

            fn marks(&self) -> u64 {
                match self { $(AnyStore::$kind(store) => Store::marks(store)),+ }
            }

            fn steers(&self) -> bool {
                match self { $(AnyStore::$kind(store) => store.steers()),+ }
            }

            fn steer(&self, drive: usize, slow: bool) {
                match self { $(AnyStore::$kind(store) => store.steer(drive, slow)),+ }
            }

            fn sit_out(&self, drive: usize, out: bool) {
                match self { $(AnyStore::$kind(store) => Store::sit_out(store, drive, out)),+ }
            }

            fn lost(&self) -> Vec<usize> {
                match self { $(AnyStore::$kind(store) => Store::lost(store)),+ }
            }

            fn margin(&self) -> usize {
                match self { $(AnyStore::$kind(store) => store.margin()),+ }
            }

            fn shape(&self) -> String {
                match self { $(AnyStore::$kind(store) => store.shape()),+ }
            }

            fn counters(&self) -> Counters {
                match self { $(AnyStore::$kind(store) => store.counters()),+ }
            }

            fn kept(&self) -> AllKept {
                match self { $(AnyStore::$kind(store) => Store::kept(store)),+ }
            }

            async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
                match self { $(AnyStore::$kind(store) => boxed(store.audit(offset, len)).await),+ }
            }
        }

        impl<E: Env> Replace for AnyStore<E> {
            type Drive = E::Drive;

            fn bears(&self, place: usize) -> bool {
                match self { $(AnyStore::$kind(store) => store.bears(place)),+ }
            }

            async fn write_off(&self, place: usize) -> Result<(), StoreError> {
                match self {
                    $(AnyStore::$kind(store) => boxed(Replace::write_off(store, place)).await),+
                }
            }

            async fn replace(&self, place: usize, new: E::Drive) -> Result<(), StoreError> {
                match self {
                    $(AnyStore::$kind(store) => boxed(Replace::replace(store, place, new)).await),+
                }
            }

            fn restoring(&self) -> Vec<Restoring> {
                match self { $(AnyStore::$kind(store) => Replace::restoring(store)),+ }
            }

            fn hold(&self, held: bool) {
                match self { $(AnyStore::$kind(store) => Replace::hold(store, held)),+ }
            }

            fn label_turn(&self, place: usize) -> Turn {
                match self { $(AnyStore::$kind(store) => Replace::label_turn(store, place)),+ }
            }

            async fn relist(&self, place: usize, drive: Uuid) -> Result<Superblock, StoreError> {
                match self {
                    $(AnyStore::$kind(store) => {
                        boxed(Replace::relist(store, place, drive)).await
                    }),+
                }
            }

            async fn tell_whole(&self, place: usize) -> Result<(), StoreError> {
                match self { $(AnyStore::$kind(store) => boxed(store.tell_whole(place)).await),+ }
            }
        }
    };
}

stores! {
    InPlace(Array<E>),
    NRaid5(NRaid5<E>),
    ToleRaid(ToleRaid<E>),
    MirrorLog(MirrorLog<E>),
    LogRaid(LogRaid<E>),
    Hybrid(Hybrid<E>),
    Alternate(Alternate<E>),
    Steering(Steering<E>),
    CachedRaid5(CachedRaid5<E>),
    LogMirror(LogMirror<E>),
}

impl<E: Env> AnyStore<E> {
    /// Opens what is on these drives. Those of other pools are refused, missing ones are lost.
    pub async fn open(
        env: &E,
        drives: Vec<E::Drive>,
        options: OpenOptions,
    ) -> Result<AnyStore<E>, StoreError> {
        let mut scheme = None;
        for drive in &drives {
            if let Some(label) = classical::label::read(drive).await {
                scheme = scheme.or(Scheme::of(&label));
            }
        }
        match scheme.ok_or(StoreError::NoLabel)? {
            Scheme::Raid0
            | Scheme::Raid1
            | Scheme::Raid10
            | Scheme::Raid4
            | Scheme::Raid5
            | Scheme::Raid6
            | Scheme::Raid50
            | Scheme::Raid60 => {
                Ok(AnyStore::InPlace(boxed(Array::open(env, drives, options.into())).await?))
            }
            Scheme::CachedRaid5 => {
                let opened = boxed(CachedRaid5::open(env, drives, options.into())).await?;
                Ok(AnyStore::CachedRaid5(opened))
            }
            Scheme::Steering => {
                let OpenOptions { write_hole, table_in_nvram, .. } = options;
                let own = steering::Options::default();
                let options = steering::Options { write_hole, table_in_nvram, ..own };
                Ok(AnyStore::Steering(boxed(steering::open(env, drives, options)).await?))
            }
            Scheme::Alternate => {
                let arrays = options.into();
                let options = alternate::Options { arrays, ..alternate::Options::default() };
                Ok(AnyStore::Alternate(boxed(Alternate::open(env, drives, options)).await?))
            }
            Scheme::Hybrid => {
                Ok(AnyStore::Hybrid(boxed(Hybrid::open(env, drives, options.into())).await?))
            }
            Scheme::LogMirror => {
                let (arrays, policy) = (options.into(), Policy::default());
                let options = log_mirror::Options { arrays, policy };
                Ok(AnyStore::LogMirror(boxed(LogMirror::open(env, drives, options)).await?))
            }
            Scheme::LogRaid => {
                Ok(AnyStore::LogRaid(boxed(LogRaid::open(env, drives, options)).await?))
            }
            Scheme::MirrorLog => {
                Ok(AnyStore::MirrorLog(boxed(MirrorLog::open(env, drives)).await?))
            }
            Scheme::Hpda => {
                let (arrays, policy) = (options.into(), Policy::default());
                let options = log_mirror::Options { arrays, policy };
                Ok(AnyStore::LogMirror(boxed(hpda::open(env, drives, options)).await?))
            }
            Scheme::ToleRaid => {
                Ok(AnyStore::ToleRaid(boxed(ToleRaid::open(env, drives, options)).await?))
            }
            Scheme::NRaid5 => {
                Ok(AnyStore::NRaid5(boxed(NRaid5::open(env, drives, options)).await?))
            }
        }
    }
}
