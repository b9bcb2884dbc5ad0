//! Several changes by path as one transaction.

use super::steps::{DIRECTORY_PERM, Step};
use super::whole::PERM;
use crate::running::volume::Volume;
use crate::vocabulary::as_path::AsPath;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::types::{RenameMode, SetAttr};

/// Several changes by path that happen together: all of them or none, for other threads and after a crash.
///
/// A change sees those before it. [`commit`](Self::commit) makes the changes; a transaction that is dropped
/// has changed nothing. Contents are borrowed until then.
///
/// ```
/// # fn main() -> lanefs::Result<()> {
/// use lanefs::{CreateOptions, Volume};
///
/// let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
/// volume.write_file("/current", b"one")?;
/// let mut transaction = volume.transaction();
/// transaction.create_dir_all("/old").rename("/current", "/old/one").write_file("/current", b"two");
/// transaction.commit()?;
/// assert_eq!(volume.read_file("/current")?, b"two");
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens before `commit`"]
pub struct Transaction<'v, 'c> {
    volume: &'v Volume,
    steps: Vec<Step<'c>>,
}

impl<'c> Transaction<'_, 'c> {
    fn add(&mut self, step: Step<'c>) -> &mut Self {
        self.steps.push(step);
        self
    }

    /// Makes a file with this content, or replaces its content, as [`Volume::write_file`].
    pub fn write_file(
        &mut self,
        path: &'c (impl AsPath + ?Sized),
        content: &'c (impl AsRef<[u8]> + ?Sized),
    ) -> &mut Self {
        self.add(Step::Write { path: path.as_path(), perm: PERM, content: content.as_ref() })
    }

    /// Makes a directory of mode 0755.
    pub fn create_dir(&mut self, path: &'c (impl AsPath + ?Sized)) -> &mut Self {
        self.add(Step::MakeDir { path: path.as_path(), perm: DIRECTORY_PERM })
    }

    /// Makes a directory and the missing ones above it, of mode 0755; it may exist.
    pub fn create_dir_all(&mut self, path: &'c (impl AsPath + ?Sized)) -> &mut Self {
        self.add(Step::MakeDirs { path: path.as_path(), perm: DIRECTORY_PERM })
    }

    /// Removes a name that is not a directory's.
    pub fn remove_file(&mut self, path: &'c (impl AsPath + ?Sized)) -> &mut Self {
        self.add(Step::RemoveFile { path: path.as_path() })
    }

    /// Removes an empty directory.
    pub fn remove_dir(&mut self, path: &'c (impl AsPath + ?Sized)) -> &mut Self {
        self.add(Step::RemoveDir { path: path.as_path() })
    }

    /// Gives a file or directory another name; what has the name is replaced as by `rename(2)`.
    pub fn rename(&mut self, from: &'c (impl AsPath + ?Sized), to: &'c (impl AsPath + ?Sized)) -> &mut Self {
        self.add(Step::Rename { from: from.as_path(), to: to.as_path(), mode: RenameMode::Replace })
    }

    /// Swaps two names.
    pub fn exchange(&mut self, a: &'c (impl AsPath + ?Sized), b: &'c (impl AsPath + ?Sized)) -> &mut Self {
        self.add(Step::Rename { from: a.as_path(), to: b.as_path(), mode: RenameMode::Exchange })
    }

    /// Gives the inode that `original` names a further name.
    pub fn hard_link(
        &mut self,
        original: &'c (impl AsPath + ?Sized),
        link: &'c (impl AsPath + ?Sized),
    ) -> &mut Self {
        self.add(Step::HardLink { of: original.as_path(), path: link.as_path() })
    }

    /// Makes a symbolic link to `target`.
    pub fn symlink(
        &mut self,
        target: &'c (impl AsPath + ?Sized),
        link: &'c (impl AsPath + ?Sized),
    ) -> &mut Self {
        self.add(Step::Symlink { target: target.as_path(), path: link.as_path() })
    }

    /// Changes attributes.
    pub fn set_attributes(&mut self, path: &'c (impl AsPath + ?Sized), set: SetAttr) -> &mut Self {
        self.add(Step::SetAttributes { path: path.as_path(), set })
    }

    /// Sets an extended attribute.
    pub fn set_xattr(
        &mut self,
        path: &'c (impl AsPath + ?Sized),
        name: &'c (impl AsRef<[u8]> + ?Sized),
        value: &'c (impl AsRef<[u8]> + ?Sized),
    ) -> &mut Self {
        self.add(Step::SetXattr { path: path.as_path(), name: name.as_ref(), value: value.as_ref() })
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(
        &mut self,
        path: &'c (impl AsPath + ?Sized),
        name: &'c (impl AsRef<[u8]> + ?Sized),
    ) -> &mut Self {
        self.add(Step::RemoveXattr { path: path.as_path(), name: name.as_ref() })
    }

    /// Number of changes so far.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// True without a change.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Makes all changes. They are durable after [`Volume::sync`], together.
    ///
    /// # Errors
    /// The error of the first change that fails, which names its number and its path; nothing has happened
    /// then. [`Code::FileTooLarge`](crate::Code::FileTooLarge) for changes whose metadata outgrow half of the
    /// journal.
    pub fn commit(self) -> Result<()> {
        let Transaction { volume, steps } = self;
        if steps.is_empty() {
            return Ok(());
        }
        let subject = |number: usize| {
            let path = steps.get(number).map(Step::subject).unwrap_or_default();
            format!("change {} of {}, {path}", number + 1, steps.len())
        };
        volume
            .do_steps(volume.root(), &steps)
            .map(drop)
            .map_err(|(error, number): (Error, usize)| error.at(subject(number)))
    }
}

/// # Several changes together
impl Volume {
    /// Begins a transaction of several changes by path.
    pub fn transaction<'c>(&self) -> Transaction<'_, 'c> {
        Transaction { volume: self, steps: Vec::new() }
    }
}
