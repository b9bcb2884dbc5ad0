//! The error numbers of replies.

use rustix::io::Errno as Host;

/// Answer of a service to a request.
pub type Reply<T> = Result<T, Errno>;

/// An error number of Linux, which reaches the program that has made the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(i32);

macro_rules! errnos {
    ($($name:ident = $host:ident, $text:literal;)*) => {
        impl Errno {
            $(
                #[doc = $text]
                pub const $name: Errno = Errno(Host::$host.raw_os_error());
            )*
        }
    };
}

errnos! {
    EEXIST = EXIST, "The name exists.";
    EFBIG = FBIG, "The file would be too large.";
    EINVAL = INVAL, "An argument is impossible.";
    EIO = IO, "The host or this program has failed.";
    ENOENT = NOENT, "The name does not exist.";
    ENOSYS = NOSYS, "No server of this kind has the request.";
    ENOTCONN = NOTCONN, "The service has ended.";
    ENOTTY = NOTTY, "There is no such control of files.";
    ENXIO = NXIO, "There is neither data nor a hole after the offset.";
    EOPNOTSUPP = OPNOTSUPP, "A volume cannot do that.";
    EOVERFLOW = OVERFLOW, "A number does not fit into the reply.";
    EPERM = PERM, "The requester may not do that.";
    ERANGE = RANGE, "The value does not fit into the requester's buffer.";
    ESTALE = STALE, "The client's knowledge is old: a version has ended, or a name exists by now.";
}

impl Errno {
    /// The number, which is positive.
    pub const fn code(self) -> i32 {
        self.0
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
        Errno(error.errno())
    }
}
