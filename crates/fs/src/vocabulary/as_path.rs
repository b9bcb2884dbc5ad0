//! Paths as programs have them: text, bytes, or the standard library's own types.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A path in a volume: `&str`, `&[u8]`, [`Path`], [`OsStr`] and their owned forms. Only this crate implements
/// the trait.
pub trait AsPath: sealed::Sealed {
    /// The bytes of the path.
    fn as_path(&self) -> &[u8];
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! paths {
    ($($type:ty: |$path:ident| $bytes:expr;)*) => {
        $(
            impl sealed::Sealed for $type {}
            impl AsPath for $type {
                fn as_path(&self) -> &[u8] {
                    let $path = self;
                    $bytes
                }
            }
        )*
    };
}

paths! {
    str: |path| path.as_bytes();
    String: |path| path.as_bytes();
    [u8]: |path| path;
    Vec<u8>: |path| path;
    Box<[u8]>: |path| path;
    OsStr: |path| path.as_bytes();
    OsString: |path| path.as_bytes();
    Path: |path| path.as_os_str().as_bytes();
    PathBuf: |path| path.as_os_str().as_bytes();
}

impl<const LEN: usize> sealed::Sealed for [u8; LEN] {}
impl<const LEN: usize> AsPath for [u8; LEN] {
    fn as_path(&self) -> &[u8] {
        self
    }
}

impl<T: AsPath + ?Sized> sealed::Sealed for &T {}
impl<T: AsPath + ?Sized> AsPath for &T {
    fn as_path(&self) -> &[u8] {
        (**self).as_path()
    }
}

impl<T: AsPath + ToOwned + ?Sized> sealed::Sealed for Cow<'_, T> {}
impl<T: AsPath + ToOwned + ?Sized> AsPath for Cow<'_, T> {
    fn as_path(&self) -> &[u8] {
        (**self).as_path()
    }
}
