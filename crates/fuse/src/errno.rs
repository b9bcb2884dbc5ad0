//! Results of request handlers.

/// Result of a request handler.
pub(crate) type FuseResult<T> = Result<T, Errno>;

/// An error number that the kernel passes on to the caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errno(fuser::Errno);

macro_rules! errnos {
    ($($name:ident),* $(,)?) => {
        impl Errno {
            $(pub(crate) const $name: Errno = Errno(fuser::Errno::$name);)*
        }
    };
}

errnos! {
    EEXIST, EFBIG, EINVAL, ENOSYS, ENOTCONN, ENOTTY, ENXIO, EOPNOTSUPP, EOVERFLOW, EPERM, ERANGE,
    ESTALE,
}

impl PartialEq for Errno {
    fn eq(&self, other: &Errno) -> bool {
        self.0.code() == other.0.code()
    }
}

impl From<lanefs::Error> for Errno {
    fn from(error: lanefs::Error) -> Self {
        // A caller cannot have caused these, so the administrator must learn of them.
        if matches!(
            error,
            lanefs::Error::Damaged { .. } | lanefs::Error::Io { .. } | lanefs::Error::WrongData { .. }
        ) {
            log::error!("{error}");
        }
        Errno(fuser::Errno::from_i32(error.errno()))
    }
}

impl From<Errno> for fuser::Errno {
    fn from(errno: Errno) -> Self {
        errno.0
    }
}
