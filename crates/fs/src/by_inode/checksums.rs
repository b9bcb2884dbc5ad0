//! Checksums of file data: which files have them, and errors about wrong data.

use crate::files::inode::{Inode, set_flags};
use crate::files::{data, perm};
use crate::running::volume::Volume;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::notice::Changed;
use crate::vocabulary::types::{Caller, Ino};
use lanefs_format::{BLOCK, Code, FileKind, INODE_NO_DATA_CHECKSUMS, inode as f};

/// # Checksums of a file
impl Volume {
    /// Returns true where the data of a file have checksums; of a directory, where those of new files in it
    /// will have some. (On a volume [without checksums](crate::CreateOptions::data_checksums) the attribute
    /// means nothing.)
    ///
    /// # Errors
    /// [`Code::StaleInode`] when the inode is not in use.
    pub fn has_data_checksums(&self, ino: Ino) -> Result<bool> {
        self.view(|core| Ok(Inode::load(core, ino.0)?.flags() & INODE_NO_DATA_CHECKSUMS == 0))
    }

    /// Gives the data of a file checksums, or none: then they are overwritten in place. A new file in a
    /// directory is as its directory.
    ///
    /// # Errors
    /// [`Code::NotPermitted`] for a caller that does not own the inode; [`Code::Invalid`] for a file with
    /// blocks, whose data exist already, and for inodes that are neither files nor directories.
    pub fn set_data_checksums(&self, caller: &Caller, ino: Ino, on: bool) -> Result<()> {
        self.change(|edit| {
            let node = Inode::load(edit.core, ino.0)?;
            if !perm::owns(caller, &node) {
                return Err(Code::NotPermitted.into());
            }
            let flag = if on { 0 } else { INODE_NO_DATA_CHECKSUMS };
            if node.flags() & INODE_NO_DATA_CHECKSUMS == flag {
                return Ok(());
            }
            edit.tx.lock(node.view)?;
            match node.kind()? {
                FileKind::Directory => {}
                FileKind::File if data::extents(edit.core, node)?.is_empty() => {}
                _ => return Err(Code::Invalid.into()),
            }
            set_flags(edit, node, INODE_NO_DATA_CHECKSUMS, flag);
            edit.tx.put(node.view, f::CTIME, edit.now.0);
            Ok(())
        })?;
        self.notify(&[Changed::Inode(ino)]);
        Ok(())
    }

    /// Adds the file and the offset to an error about wrong data.
    #[cold]
    pub(crate) fn name_wrong_data(&self, ino: Ino, error: Error) -> Error {
        let Error::WrongData { at, .. } = error else { return error };
        let extents = self.view(|core| data::extents(core, Inode::load(core, ino.0)?));
        let offset = extents.unwrap_or_default().iter().find_map(|extent| {
            let inside = at.checked_sub(extent.position).filter(|inside| *inside < extent.bytes)?;
            Some(extent.offset + inside / BLOCK * BLOCK)
        });
        let what = match offset {
            Some(offset) => format!("inode {}, offset {offset}", ino.0),
            None => format!("inode {}", ino.0),
        };
        Error::WrongData { at, what }
    }
}
