//! One file with all contents and an index in memory: what packing tools make of a data set.

use super::corpus::Corpus;
use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::systems::file_volume::FileSet;
use hashbrown::HashMap;
use rustix::fs::Advice;
use std::ffi::CStr;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a header of tar, and of a piece of content.
const UNIT: u64 = 512;

/// An archive in the layout of tar: a header and padded content for each file. The index leads to contents
/// only, so headers have no text.
pub(super) struct Archive {
    file: File,
    index: HashMap<Box<[u8]>, (u64, usize)>,
}

impl Archive {
    pub(super) fn make(dir: &Path, corpus: &Corpus, stop: &Stop) -> Result<Self> {
        let path = dir.join("files.tar");
        let failed = || Error::host("the archive");
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&path).map_err(failed())?);
        let (mut index, mut at, mut content) = (HashMap::with_capacity(corpus.len()), 0, Vec::new());
        for file in 0..corpus.len() {
            stop.check()?;
            content.clear();
            content.resize(UNIT as usize, 0);
            corpus.content(file, &mut content);
            index.insert(corpus.path(file).to_bytes().into(), (at + UNIT, content.len() - UNIT as usize));
            content.resize(content.len().next_multiple_of(UNIT as usize), 0);
            out.write_all(&content).map_err(failed())?;
            at += content.len() as u64;
        }
        out.flush().map_err(failed())?;
        drop(out);
        let file = File::open(&path).map_err(failed())?;
        file.sync_all().map_err(failed())?;
        Ok(Archive { file, index })
    }

    pub(super) fn drop_caches(&self) -> Result<()> {
        rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed).map_err(Error::host("the archive"))
    }

    /// Reads a file; returns its length, 0 where the archive does not have it.
    pub(super) fn read(&self, path: &CStr, buffer: &mut [u8]) -> Result<usize> {
        let Some((at, len)) = self.index.get(path.to_bytes()) else { return Ok(0) };
        self.file.read_exact_at(&mut buffer[..*len], *at).map_err(Error::host("the archive"))?;
        Ok(*len)
    }
}
