//! Names under directories. The host finds the directories, and the device begins with the name in each.
//!
//! A directory's path leads where it led as long as no directory moves. The mirror knows how many have moved
//! by its last refresh. The host reads that number, finds the directories, and submits the names only if the
//! refresh before them finds the same number: then the paths have led there between both refreshes, and so at
//! the moment at which the batch sees the volume. Directories behind links or dots, which something else
//! could turn, are open, and so are those that a caller with an identity may not search.

use super::mirrored::Mirrored;
use crate::resident::mirror::Mirror;
use lanefs::{NamesUnder, ResolveOptions};

/// Names for each directory from which on it pays to find the directories first.
const NAMES_EACH: usize = 4;

/// Most directories of a batch: each submission brings their inode numbers.
const MOST_DIRECTORIES: usize = 1 << 16;

/// Of so many names one may be in an open directory. With more of them the device gets whole paths.
const OPEN: usize = 8;

/// The directories of a batch of names.
pub(crate) struct FoundDirectories {
    /// The inode number of each; 0 for one that is open: the host answers for the names in it.
    inos: Vec<u64>,
    /// Moves of directories by the last refresh of the mirror before these were found.
    moves: u64,
}

impl FoundDirectories {
    pub(crate) fn inos(&self) -> &[u64] {
        &self.inos
    }

    /// Tells whether the paths still led to these directories at the mirror's last refresh.
    pub(crate) fn hold(&self, mirror: &Mirror) -> bool {
        self.moves == mirror.directories.moves()
    }

    /// Counts the names in open directories.
    fn open(&self, names: NamesUnder<'_>) -> usize {
        if self.inos.iter().all(|ino| *ino != 0) {
            return 0;
        }
        let numbers = (0..names.len()).filter_map(|index| names.number(index));
        numbers.filter(|number| self.inos.get(*number).is_none_or(|ino| *ino == 0)).count()
    }
}

impl Mirrored<'_> {
    /// Finds the directories of names.
    ///
    /// # Errors
    /// An error of the volume.
    pub(crate) fn find_directories(
        &self,
        options: &ResolveOptions,
        names: NamesUnder<'_>,
    ) -> lanefs::Result<FoundDirectories> {
        // Before they are looked up.
        let moves = self.moves();
        let found = self.volume().plain_directories(options.base, names.directories())?;
        Ok(FoundDirectories { inos: found.iter().map(|dir| dir.map_or(0, |ino| ino.0)).collect(), moves })
    }

    /// As [`find_directories`](Self::find_directories), where that pays; `None`: the device should get whole
    /// paths.
    ///
    /// # Errors
    /// An error of the volume.
    pub(crate) fn directories_that_pay(
        &self,
        options: &ResolveOptions,
        names: NamesUnder<'_>,
    ) -> lanefs::Result<Option<FoundDirectories>> {
        let count = names.directories().len();
        let is_many = count > MOST_DIRECTORIES || count.saturating_mul(NAMES_EACH) > names.len();
        if options.caller.user.is_some() || is_many && !self.prefers_names() {
            return Ok(None);
        }
        let found = self.find_directories(options, names)?;
        let is_open = found.open(names).saturating_mul(OPEN) > names.len();
        Ok((!is_open || self.prefers_names()).then_some(found))
    }
}
