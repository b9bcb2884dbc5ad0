//! Descriptors for rings: each exchange has one, and a machine with many processors has hundreds.

use crate::error::{Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that stay free for all else: files of a volume's device, clients of its commands, logs.
const SPARE: u64 = 128;
/// Open descriptors of a process that cannot count its own.
const USUAL: u64 = 64;

/// The change of the limit of descriptors that is needed.
#[derive(Debug, PartialEq, Eq)]
enum LimitChange {
    None,
    /// The soft limit is raised to this.
    Raise(u64),
    /// The hard limit is too low.
    TooLow,
}

/// Decides about the limit of a process that has `used` descriptors open and needs so many more.
fn change(more: u64, used: u64, limit: &Rlimit) -> LimitChange {
    let needed = used.saturating_add(more).saturating_add(SPARE);
    // A limit that is not there is none.
    let [soft, hard] = [limit.current, limit.maximum].map(|limit| limit.unwrap_or(u64::MAX));
    match () {
        () if soft >= needed => LimitChange::None,
        () if hard >= needed => LimitChange::Raise(needed),
        () => LimitChange::TooLow,
    }
}

/// Lets this process open so many more descriptors: raises its soft limit where that is needed.
///
/// # Errors
/// [`Error::Option`]: the hard limit is too low. The host's.
pub(super) fn make_room(more: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let used = std::fs::read_dir("/proc/self/fd").map_or(USUAL, |open| open.count() as u64);
    match change(more, used, &limit) {
        LimitChange::None => Ok(()),
        LimitChange::Raise(soft) => setrlimit(Resource::Nofile, Rlimit { current: Some(soft), ..limit })
            .map_err(|errno| Error::host("raising the limit of descriptors", errno)),
        LimitChange::TooLow => {
            let hard = limit.maximum.unwrap_or(u64::MAX);
            Err(Error::Option(format!(
                "transport=uring: {more} rings need a descriptor each, beside {used} that are open and {SPARE} for all \
                 else, and the host gives this process {hard}; raise that (`ulimit -Hn`), or leave the option out"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_goes_up_to_the_hard_one() {
        let limit = |current, maximum| Rlimit { current, maximum };
        for (current, maximum, wanted) in [
            (None, None, LimitChange::None),
            (Some(1024), Some(4096), LimitChange::None),
            (Some(647), Some(4096), LimitChange::Raise(648)),
            (Some(256), None, LimitChange::Raise(648)),
            (Some(256), Some(648), LimitChange::Raise(648)),
            (Some(256), Some(647), LimitChange::TooLow),
        ] {
            assert_eq!(change(512, 8, &limit(current, maximum)), wanted, "{current:?} {maximum:?}");
        }
    }
}
