//! Reading of one name of the host that is not a directory, and the choice of how to import it.

use super::dir::ImportDir;
use super::importer::{ThreadBuffers, TreeImport};
use super::source::SourceName;
use crate::on_host::host::HostMeta;
use crate::running::commits::LARGE_BYTES;
use crate::vocabulary::name::shown;
use lanefs::FileKind;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Stat, statat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::sync::Arc;

impl TreeImport<'_> {
    /// Imports one name that is not a directory. `is_file`: its directory's entry says that it is a regular
    /// file. `new_name`: its name in the volume.
    pub(super) fn import_entry(
        &self,
        buffers: &mut ThreadBuffers,
        dir: &Arc<ImportDir>,
        fd: &OwnedFd,
        name: &CStr,
        is_file: bool,
        new_name: &[u8],
    ) {
        let (file, stat) = match self.open_or_stat(fd, name, is_file) {
            Ok(opened) => opened,
            Err(errno) => return self.host_problem(dir, name.to_bytes(), errno),
        };
        let Some(meta) = HostMeta::new(&stat).filter(|meta| meta.kind != FileKind::Directory) else {
            return self.job.problem(dir.host.path(name.to_bytes()), "changed its type during the import");
        };
        if self.options.skip.contains(&meta.id) {
            let path = shown(&dir.host.path(name.to_bytes()));
            return self.job.note(format!("{path}: left out, as it is the volume itself"));
        }
        self.job.note_far_time(&meta, || dir.host.path(name.to_bytes()));
        let _making = (meta.size <= LARGE_BYTES).then(|| self.commits.making());
        let source = SourceName { dir, fd, name, file: file.as_ref(), meta: &meta };
        if meta.links > 1 {
            self.import_linked(buffers, &source, new_name);
        } else if !self.add_to_batch(buffers, &source) {
            self.import_unlinked(buffers, &source, new_name);
        }
    }

    /// Opens a regular file and reads its attributes from the descriptor; for other files reads the
    /// attributes only.
    fn open_or_stat(
        &self,
        fd: &OwnedFd,
        name: &CStr,
        is_file: bool,
    ) -> Result<(Option<OwnedFd>, Stat), Errno> {
        if !is_file {
            let stat = statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Ok((None, stat));
            }
        }
        let (file, stat) = self.opener.open_file(fd, name)?;
        Ok((Some(file), stat))
    }
}
