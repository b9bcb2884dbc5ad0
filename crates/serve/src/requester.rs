//! The user who sends a request.

/// The user who sends a request, as far as the transport of the request knows.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// User.
    pub uid: u32,
    /// First group.
    pub gid: u32,
    /// All other groups.
    pub groups: Groups<'a>,
}

/// The groups of a requester besides the first one. Few requests depend on them.
#[derive(Clone, Copy, Debug)]
pub enum Groups<'a> {
    /// Those that the request lists.
    Listed(&'a [u32]),
    /// Those of the process with this number, which the host lists in `/proc`.
    OfProcess(u32),
}

impl Requester<'_> {
    /// True for root, from whom no change takes privileges away.
    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// True where the requester is in a group. Where the host does not list the groups of a process, the
    /// requester counts as no member.
    pub(crate) fn is_member(&self, gid: u32) -> bool {
        self.gid == gid
            || match self.groups {
                Groups::Listed(groups) => groups.contains(&gid),
                Groups::OfProcess(process) => is_member(process, gid),
            }
    }
}

/// True where a process of the host is in a group besides its first one.
fn is_member(process: u32, gid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    groups.split_whitespace().any(|group| group.parse() == Ok(gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_the_request_or_of_the_process() {
        let listed = Requester { uid: 1, gid: 2, groups: Groups::Listed(&[3, 4]) };
        assert_eq!([2, 3, 4, 5].map(|gid| listed.is_member(gid)), [true, true, true, false]);
        let groups = rustix::process::getgroups().expect("the groups of this process");
        let process = Groups::OfProcess(std::process::id());
        for group in groups {
            let own = Requester { uid: 1, gid: u32::MAX - 1, groups: process };
            assert!(own.is_member(group.as_raw()));
        }
        let gone = Requester { groups: Groups::OfProcess(0), ..listed };
        assert!(gone.is_member(2) && !gone.is_member(3), "the host lists no such process");
    }
}
