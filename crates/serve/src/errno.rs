//! The error numbers of replies.

use rustix::io::Errno as Host;

/// Answer of a service to a request.
pub type Reply<T> = Result<T, Errno>;

/// Largest number of an error that a program may see.
const MAX_NUMBER: i32 = 511;

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
    EROFS = ROFS, "The volume takes no changes.";
    ERANGE = RANGE, "The value does not fit into the requester's buffer.";
    ESTALE = STALE, "The client's knowledge is old: a version has ended, or a name exists by now.";
}

impl Errno {
    /// The number, from 1 to 511.
    pub const fn code(self) -> i32 {
        self.0
    }

    /// The error of a volume or its host. Linux refuses other numbers than these in a reply. `ENOSYS` says
    /// that a server never has a request, such as `fsync`, so the service alone says that, and no host.
    const fn of_volume(number: i32) -> Errno {
        match Errno(number) {
            Errno::ENOSYS => Errno::EIO,
            known @ Errno(1..=MAX_NUMBER) => known,
            _ => Errno::EIO,
        }
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
        Errno::of_volume(error.errno())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::{Code, Error};

    #[test]
    fn errors_of_a_volume_and_its_host_are_numbers_that_linux_takes_and_never_enosys() {
        let of_host = |number| {
            let source = std::io::Error::from_raw_os_error(number);
            Errno::from(Error::Io { what: "a device".to_owned(), source })
        };
        for number in [-5, 0, 512, 524, i32::MAX, i32::MIN, Errno::ENOSYS.code()] {
            assert_eq!(of_host(number), Errno::EIO, "{number}");
        }
        for number in [1, 5, 28, 117, 511] {
            assert_eq!(of_host(number).code(), number);
        }
        for code in Code::ALL {
            let errno = Errno::from(Error::Code(*code));
            assert!((1..=MAX_NUMBER).contains(&errno.code()) && errno != Errno::ENOSYS, "{code:?}");
        }
    }
}
