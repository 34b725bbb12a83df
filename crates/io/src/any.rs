//! Any drive behind one pointer, so that wrappers compose: a modelled drive whose writes get
//! lost is a type that nobody has to write down.
//!
//! Each operation costs an allocation. Files and memory therefore stay static variants of
//! [`RealDrive`](crate::uring::RealDrive); only what wraps them pays.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use crate::buf::Buf;
use crate::drive::{Drive, DriveError, Durability, Geometry};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, DriveError>> + 'a>>;

/// [`Drive`] in a form that fits behind a pointer.
trait Object {
    fn geometry(&self) -> Geometry;
    fn name(&self) -> String;
    fn read(&self, offset: u64, len: usize) -> Boxed<'_, Buf>;
    fn write(&self, offset: u64, data: Buf, durability: Durability) -> Boxed<'_, ()>;
    fn flush(&self) -> Boxed<'_, ()>;
    fn discard(&self, offset: u64, len: u64) -> Boxed<'_, ()>;
    fn write_zeroes(&self, offset: u64, len: u64) -> Boxed<'_, ()>;
    fn takes_write_zeroes(&self) -> bool;
    fn discard_granularity(&self) -> Option<u32>;
    fn is_short(&self) -> bool;
    fn begins_at(&self) -> u64;
    fn holds_zeroes(&self) -> bool;
    fn identity(&self) -> Option<[u8; 16]>;
}

impl<D: Drive> Object for D {
    fn geometry(&self) -> Geometry {
        Drive::geometry(self)
    }

    fn name(&self) -> String {
        Drive::name(self)
    }

    fn read(&self, offset: u64, len: usize) -> Boxed<'_, Buf> {
        Box::pin(Drive::read(self, offset, len))
    }

    fn write(&self, offset: u64, data: Buf, durability: Durability) -> Boxed<'_, ()> {
        Box::pin(Drive::write(self, offset, data, durability))
    }

    fn flush(&self) -> Boxed<'_, ()> {
        Box::pin(Drive::flush(self))
    }

    fn discard(&self, offset: u64, len: u64) -> Boxed<'_, ()> {
        Box::pin(Drive::discard(self, offset, len))
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Boxed<'_, ()> {
        Box::pin(Drive::write_zeroes(self, offset, len))
    }

    fn takes_write_zeroes(&self) -> bool {
        Drive::takes_write_zeroes(self)
    }

    fn discard_granularity(&self) -> Option<u32> {
        Drive::discard_granularity(self)
    }

    fn is_short(&self) -> bool {
        Drive::is_short(self)
    }

    fn begins_at(&self) -> u64 {
        Drive::begins_at(self)
    }

    fn holds_zeroes(&self) -> bool {
        Drive::holds_zeroes(self)
    }

    fn identity(&self) -> Option<[u8; 16]> {
        Drive::identity(self)
    }
}

/// A drive of whatever kind; clones name the same one.
#[derive(Clone)]
pub struct AnyDrive {
    drive: Rc<dyn Object>,
}

impl AnyDrive {
    pub fn new(drive: impl Drive) -> AnyDrive {
        AnyDrive { drive: Rc::new(drive) }
    }
}

impl fmt::Debug for AnyDrive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyDrive({})", self.drive.name())
    }
}

impl Drive for AnyDrive {
    fn geometry(&self) -> Geometry {
        self.drive.geometry()
    }

    fn name(&self) -> String {
        self.drive.name()
    }

    fn read(&self, offset: u64, len: usize) -> impl Future<Output = Result<Buf, DriveError>> {
        self.drive.read(offset, len)
    }

    fn write(
        &self,
        offset: u64,
        data: Buf,
        durability: Durability,
    ) -> impl Future<Output = Result<(), DriveError>> {
        self.drive.write(offset, data, durability)
    }

    fn flush(&self) -> impl Future<Output = Result<(), DriveError>> {
        self.drive.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DriveError>> {
        self.drive.discard(offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DriveError>> {
        self.drive.write_zeroes(offset, len)
    }

    fn takes_write_zeroes(&self) -> bool {
        self.drive.takes_write_zeroes()
    }

    fn discard_granularity(&self) -> Option<u32> {
        self.drive.discard_granularity()
    }

    fn is_short(&self) -> bool {
        self.drive.is_short()
    }

    fn begins_at(&self) -> u64 {
        self.drive.begins_at()
    }

    fn holds_zeroes(&self) -> bool {
        self.drive.holds_zeroes()
    }

    fn identity(&self) -> Option<[u8; 16]> {
        self.drive.identity()
    }
}

/// Makes a drive of an enum whose variants each hold one.
macro_rules! drive_of_kinds {
    ($name:ident: $($kind:ident),+) => {
        impl Drive for $name {
            fn geometry(&self) -> Geometry {
                match self { $($name::$kind(drive) => drive.geometry()),+ }
            }

            fn name(&self) -> String {
                match self { $($name::$kind(drive) => drive.name()),+ }
            }

            async fn read(&self, at: u64, len: usize) -> Result<Buf, DriveError> {
                match self { $($name::$kind(drive) => drive.read(at, len).await),+ }
            }

            async fn write(&self, at: u64, data: Buf, how: Durability) -> Result<(), DriveError> {
                match self { $($name::$kind(drive) => drive.write(at, data, how).await),+ }
            }

            async fn flush(&self) -> Result<(), DriveError> {
                match self { $($name::$kind(drive) => drive.flush().await),+ }
            }

            async fn discard(&self, at: u64, len: u64) -> Result<(), DriveError> {
                match self { $($name::$kind(drive) => drive.discard(at, len).await),+ }
            }

            async fn write_zeroes(&self, at: u64, len: u64) -> Result<(), DriveError> {
                match self { $($name::$kind(drive) => drive.write_zeroes(at, len).await),+ }
            }

            fn takes_write_zeroes(&self) -> bool {
                match self { $($name::$kind(drive) => drive.takes_write_zeroes()),+ }
            }

            fn discard_granularity(&self) -> Option<u32> {
                match self { $($name::$kind(drive) => drive.discard_granularity()),+ }
            }

            fn is_short(&self) -> bool {
                match self { $($name::$kind(drive) => drive.is_short()),+ }
            }

            fn begins_at(&self) -> u64 {
                match self { $($name::$kind(drive) => drive.begins_at()),+ }
            }

            fn holds_zeroes(&self) -> bool {
                match self { $($name::$kind(drive) => drive.holds_zeroes()),+ }
            }

            fn identity(&self) -> Option<[u8; 16]> {
                match self { $($name::$kind(drive) => drive.identity()),+ }
            }
        }
    };
}

pub(crate) use drive_of_kinds;

#[cfg(test)]
mod tests {
    // Not `super::*`: there every drive has two methods of each name.
    use super::AnyDrive;
    use crate::buf::Buf;
    use crate::drive::{Drive, DriveErrorKind, Durability};
    use crate::mem::MemDrive;
    use crate::uring::RealDrive;
    use futures_util::FutureExt;

    #[test]
    fn a_boxed_drive_is_the_drive_in_it() {
        let inner = MemDrive::new("mem:0", 1 << 20, 4096);
        let boxed: RealDrive = AnyDrive::new(AnyDrive::new(inner.clone())).into();
        assert_eq!((boxed.name(), boxed.geometry()), (inner.name(), inner.geometry()));
        let data = Buf::from_slice(&[3; 4096]);
        boxed.write(4096, data, Durability::Durable).now_or_never().unwrap().unwrap();
        boxed.flush().now_or_never().unwrap().unwrap();
        let seen = inner.read(4096, 4096).now_or_never().unwrap().unwrap();
        assert_eq!(&*seen, &[3; 4096]);
        boxed.discard(0, 1 << 20).now_or_never().unwrap().unwrap();
        assert_eq!(inner.allocated(), 0);
        let error = boxed.read(1, 4096).now_or_never().unwrap().unwrap_err();
        assert_eq!(error.kind, DriveErrorKind::OutOfRange);
    }
}
