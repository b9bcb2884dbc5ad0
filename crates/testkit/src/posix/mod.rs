//! Cases of POSIX, in the manner of pjdfstest: each is a function on the trait [`PosixFs`], so a mounted
//! directory passes the same cases as a service in the process of the test.
//!
//! A kernel stands between programs and a mounted directory, and answers some questions alone: who may search
//! and change a directory, sticky directories, whether a name is that of a directory, limits of sizes. None
//! of these is a case here, because a service without a kernel leaves them to its client.

mod cases;
mod directory;

pub use cases::{files, names, privileges, space, xattrs};
pub use directory::TestDirectory;

use crate::engine::Stat;
use lanefs::{Caller, SetAttr};
use lanefs_format::FileKind;
use rustix::fs::{FallocateFlags, OFlags, RenameFlags, SeekFrom, XattrFlags};
use rustix::io::Result;

/// A user who makes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// User.
    pub uid: u32,
    /// First group.
    pub gid: u32,
    /// All other groups.
    pub groups: &'static [u32],
}

impl User {
    /// Root.
    pub const ROOT: User = User { uid: 0, gid: 0, groups: &[] };

    fn caller(&self) -> Caller {
        Caller::user(self.uid, self.gid, self.groups)
    }
}

/// A file system that programs use by paths below a directory, without a slash at their begin.
#[expect(missing_docs, reason = "each call is the system call that bears its name")]
pub trait PosixFs {
    /// An open file.
    type File;
    fn open(&self, by: &User, path: &str, flags: OFlags, mode: u32) -> Result<Self::File>;
    fn read(&self, file: &Self::File, offset: u64, len: usize) -> Result<Vec<u8>>;
    fn write(&self, by: &User, file: &Self::File, offset: u64, data: &[u8]) -> Result<usize>;
    /// Writes to a file that is open with `O_APPEND`.
    fn append(&self, by: &User, file: &Self::File, data: &[u8]) -> Result<usize>;
    fn fstat(&self, file: &Self::File) -> Result<Stat>;
    fn fallocate(
        &self,
        by: &User,
        file: &Self::File,
        flags: FallocateFlags,
        offset: u64,
        len: u64,
    ) -> Result<()>;
    fn seek(&self, file: &Self::File, from: SeekFrom) -> Result<u64>;
    fn copy_range(
        &self,
        by: &User,
        from: (&Self::File, u64),
        to: (&Self::File, u64),
        len: usize,
    ) -> Result<usize>;
    /// Does not follow a symbolic link.
    fn stat(&self, path: &str) -> Result<Stat>;
    /// Changes all attributes that are given: the mode, the owner, the size, both times.
    fn set(&self, by: &User, path: &str, set: &SetAttr) -> Result<()>;
    fn mkdir(&self, by: &User, path: &str, mode: u32) -> Result<()>;
    fn mknod(&self, by: &User, path: &str, kind: FileKind, mode: u32, rdev: u64) -> Result<()>;
    fn symlink(&self, by: &User, target: &str, path: &str) -> Result<()>;
    fn readlink(&self, path: &str) -> Result<Vec<u8>>;
    fn link(&self, from: &str, to: &str) -> Result<()>;
    fn unlink(&self, path: &str) -> Result<()>;
    fn rmdir(&self, path: &str) -> Result<()>;
    fn rename(&self, from: &str, to: &str, flags: RenameFlags) -> Result<()>;
    fn setxattr(&self, by: &User, path: &str, name: &str, value: &[u8], flags: XattrFlags) -> Result<()>;
    fn getxattr(&self, by: &User, path: &str, name: &str) -> Result<Vec<u8>>;
    fn listxattr(&self, by: &User, path: &str) -> Result<Vec<String>>;
    fn removexattr(&self, path: &str, name: &str) -> Result<()>;
    /// Calls `each` with every name but `.` and `..` as the listing arrives, in several pieces where the
    /// directory is large: `each` may change the directory.
    fn list(&self, path: &str, each: &mut dyn FnMut(&str)) -> Result<()>;
    /// Bytes that are free.
    fn free_bytes(&self) -> Result<u64>;

    /// Makes a file with content.
    fn make(&self, path: &str, mode: u32, data: &[u8]) {
        let file = self.open(&User::ROOT, path, OFlags::CREATE | OFlags::EXCL | OFlags::RDWR, mode);
        let file = file.unwrap_or_else(|errno| panic!("{path}: {errno}"));
        assert_eq!(self.write(&User::ROOT, &file, 0, data), Ok(data.len()), "{path}");
        self.set(&User::ROOT, path, &SetAttr { perm: Some(mode as u16), ..SetAttr::default() })
            .expect("chmod");
    }

    /// Returns the content of a file.
    fn content(&self, path: &str) -> Vec<u8> {
        let file = self.open(&User::ROOT, path, OFlags::RDONLY, 0).unwrap_or_else(|e| panic!("{path}: {e}"));
        let size = self.fstat(&file).expect("fstat").size as usize;
        self.read(&file, 0, size).expect("read")
    }
}

/// Makes a test of each case: `$on` calls its argument with an empty file system of root, and `$on_small`
/// with one of some MiB.
#[macro_export]
macro_rules! posix_tests {
    ($on:path, $on_small:path) => {
        $crate::posix_tests! { $on:
            files::an_open_file_lives_on_without_a_name,
            files::nothing_is_made_in_a_directory_without_a_name,
            files::appending_writers_follow_each_other,
            files::opening_makes_truncates_and_refuses,
            files::times_are_kept_to_the_nanosecond,
            names::a_rename_replaces_exchanges_and_refuses,
            names::a_rename_leaves_a_whiteout,
            names::a_file_that_is_renamed_over_lives_on_while_it_is_open,
            names::names_are_made_and_removed_by_the_rules,
            names::a_listing_has_each_name_once_while_names_change,
            names::special_files_are_what_was_made,
            privileges::a_new_inode_belongs_to_its_maker_or_to_the_group_of_the_directory,
            privileges::changes_by_a_user_take_privileges_away,
            privileges::changes_by_root_leave_set_id_bits,
            space::ranges_are_allocated_punched_zeroed_and_found,
            space::ranges_are_copied,
            xattrs::attributes_are_made_replaced_and_refused,
            xattrs::large_values_and_long_names_have_limits,
            xattrs::trusted_attributes_are_hidden_from_users,
        }
        $crate::posix_tests! { $on_small: space::a_full_file_system_writes_what_fits, }
    };
    ($on:path: $($group:ident::$case:ident,)*) => {$(
        #[test]
        fn $case() {
            $on(|fs| $crate::posix::$group::$case(fs));
        }
    )*};
}
