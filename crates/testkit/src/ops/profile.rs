//! The kinds of operations in a sequence.

/// The abilities of the engine under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest offset in a file.
    pub most_offset: u64,
    /// Largest value of an extended attribute.
    pub most_value: u64,
    /// It supports device nodes.
    pub devices: bool,
    /// Renames can leave whiteouts, which users may make, too.
    pub whiteouts: bool,
    /// It supports attributes in the `trusted.` space, which need privilege.
    pub trusted: bool,
    /// It supports callers other than the owner.
    pub users: bool,
    /// It supports `Allocate::ZeroRange`.
    pub zero_range: bool,
    /// It supports `Allocate::CollapseRange` and `Allocate::InsertRange`, with blocks of 4 KiB.
    pub shift_range: bool,
    /// It supports extended attributes of any kind.
    pub xattrs: bool,
    /// Paths may start at a directory other than the root.
    pub bases: bool,
    /// Users may make hard links to files of others, as in POSIX.
    pub user_links: bool,
    /// Symbolic links in sticky directories are followed for every user, as in POSIX.
    pub sticky: bool,
    /// Files come with their content and attributes in one step.
    pub whole_files: bool,
    /// Cookies of a listing stay valid while the directory changes.
    pub stable_cookies: bool,
}

impl Limits {
    /// The abilities of a LaneFS volume.
    pub const VOLUME: Limits = Limits {
        most_offset: lanefs_format::MAX_FILE_SIZE,
        most_value: 65_600,
        devices: true,
        whiteouts: true,
        trusted: true,
        users: true,
        zero_range: true,
        shift_range: true,
        xattrs: true,
        bases: true,
        user_links: true,
        sticky: true,
        whole_files: true,
        stable_cookies: true,
    };
}

/// Weights of the operations, in the order of `generate::KINDS`.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Name, for reports.
    pub name: &'static str,
    /// Entries and links: create, mknod, mkdir, symlink, link, create with content.
    pub make: [u64; 6],
    /// unlink, rmdir, rename, remove_all, mkdir_all.
    pub move_and_remove: [u64; 5],
    /// lookup, resolve, stat, readlink, list, list with changes in between.
    pub look: [u64; 6],
    /// read, write, truncate, fallocate, seek.
    pub data: [u64; 5],
    /// chmod, chown, times, and the four calls on extended attributes together.
    pub attributes: [u64; 4],
    /// Bulk operations, names with one hash, sync, reopen.
    pub whole: [u64; 4],
    /// Percentage of operations that a user makes.
    pub users: u64,
    /// Most names in one bulk operation.
    pub most_bulk: u64,
    /// Operations in a sequence.
    pub operations: usize,
    /// Percentage of names and paths that are meant to exist.
    pub existing: u64,
    /// Percentage of names that lie in the root directory.
    pub flat: u64,
    /// Size of the volume in bytes.
    pub volume_bytes: u64,
}

const MIB: u64 = 1 << 20;

/// Every profile; sequences take them in turn.
pub const PROFILES: [Profile; 7] = [
    Profile {
        name: "one-directory",
        make: [40, 3, 6, 3, 6, 6],
        move_and_remove: [30, 4, 16, 1, 0],
        look: [25, 2, 4, 1, 1, 5],
        data: [0, 1, 0, 0, 0],
        attributes: [1, 0, 0, 0],
        whole: [22, 5, 1, 1],
        users: 0,
        most_bulk: 3000,
        operations: 120,
        existing: 60,
        flat: 92,
        volume_bytes: 48 * MIB,
    },
    Profile {
        name: "deep",
        make: [8, 1, 30, 14, 3, 2],
        move_and_remove: [6, 8, 26, 2, 8],
        look: [8, 30, 6, 5, 2, 1],
        data: [1, 2, 0, 0, 0],
        attributes: [2, 0, 0, 0],
        whole: [0, 0, 1, 1],
        users: 0,
        most_bulk: 30,
        operations: 300,
        existing: 75,
        flat: 5,
        volume_bytes: 24 * MIB,
    },
    Profile {
        name: "data",
        make: [6, 0, 1, 1, 2, 3],
        move_and_remove: [3, 0, 2, 0, 0],
        look: [1, 1, 3, 0, 0, 0],
        data: [25, 40, 14, 18, 14],
        attributes: [1, 0, 1, 1],
        whole: [0, 0, 1, 1],
        users: 3,
        most_bulk: 10,
        operations: 150,
        existing: 95,
        flat: 60,
        volume_bytes: 64 * MIB,
    },
    Profile {
        name: "attributes",
        make: [8, 3, 4, 3, 2, 4],
        move_and_remove: [4, 2, 4, 0, 0],
        look: [2, 3, 8, 1, 1, 0],
        data: [1, 4, 2, 1, 0],
        attributes: [12, 10, 8, 40],
        whole: [1, 0, 1, 1],
        users: 30,
        most_bulk: 60,
        operations: 250,
        existing: 90,
        flat: 40,
        volume_bytes: 48 * MIB,
    },
    Profile {
        name: "users",
        make: [16, 2, 12, 5, 6, 8],
        move_and_remove: [12, 7, 22, 0, 0],
        look: [8, 10, 4, 2, 4, 0],
        data: [6, 8, 4, 2, 0],
        attributes: [22, 14, 6, 8],
        whole: [0, 0, 0, 1],
        users: 72,
        most_bulk: 10,
        operations: 300,
        existing: 85,
        flat: 25,
        volume_bytes: 24 * MIB,
    },
    Profile {
        name: "mixed",
        make: [16, 3, 10, 6, 6, 6],
        move_and_remove: [10, 5, 14, 1, 3],
        look: [6, 8, 6, 3, 3, 2],
        data: [8, 14, 5, 5, 3],
        attributes: [4, 3, 3, 10],
        whole: [2, 1, 1, 1],
        users: 12,
        most_bulk: 400,
        operations: 250,
        existing: 80,
        flat: 30,
        volume_bytes: 64 * MIB,
    },
    Profile {
        name: "full",
        make: [14, 1, 8, 4, 3, 4],
        move_and_remove: [6, 2, 6, 1, 0],
        look: [2, 2, 2, 1, 1, 0],
        data: [6, 30, 6, 12, 2],
        attributes: [1, 0, 0, 8],
        whole: [0, 1, 1, 1],
        users: 0,
        most_bulk: 0,
        operations: 300,
        existing: 80,
        flat: 30,
        volume_bytes: 8 * MIB,
    },
];
