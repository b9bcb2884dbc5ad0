//! Small files that are made together, with their content, many in one call of the volume.
//!
//! The threads read the host's files as ever and put them into a batch; who fills it up hands it over. What is not made that way (a
//! name that is taken, above all) is imported alone afterwards, as if there were no batches.

use super::entry::Source;
use super::{Dir, Import, Local};
use crate::host::Meta;
use crate::import::{Maker, OWNER};
use crate::run::count;
use crate::xattrs::Target;
use lanefs::bulk::Change;
use lanefs::{Code, FileKind, Ino};
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::io::pread;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Files of one batch, and bytes of their contents, at most.
const FILES: usize = 16_384;
const BYTES: usize = 64 << 20;

/// Largest file that goes into one, and longest path.
const LARGEST: u64 = 64 << 10;
const LONGEST_PATH: usize = 4096;

/// Mode of a file whose owner is not set.
const UNFINISHED: u16 = 0o600;

/// A file that is to be made. Its directory waits for it.
pub(super) struct Record {
    dir: Arc<Dir>,
    name: CString,
    /// From the directory in which all paths begin.
    path: Vec<u8>,
    meta: Meta,
    content: Vec<u8>,
}

/// What has gathered.
#[derive(Default)]
struct Open {
    records: Vec<Record>,
    bytes: usize,
}

/// The batch that is being filled, and who makes it.
pub(super) struct Batches<'m> {
    maker: &'m dyn Maker,
    /// Where paths begin: the top directory of the import.
    base: Ino,
    open: Mutex<Open>,
    /// Held while a batch is made: one is made and one is filled, so that memory stays bounded.
    turn: Mutex<()>,
}

impl<'m> Batches<'m> {
    pub(super) fn new(maker: &'m dyn Maker, base: Ino) -> Self {
        Batches { maker, base, open: Mutex::default(), turn: Mutex::default() }
    }
}

/// The whole content of a small file; `None` where it is not what its size says, or changed: that is for those who import it alone.
fn read_whole(file: &OwnedFd, meta: &Meta) -> Option<Vec<u8>> {
    // One byte more, so that a file that grew is seen.
    let mut content = vec![0; meta.size as usize + 1];
    let mut len = 0;
    while len < content.len() {
        match pread(file, &mut content[len..], len as u64).ok()? {
            0 => break,
            more => len += more,
        }
    }
    content.truncate(len);
    let is_whole = len as u64 == meta.size && crate::import::file::has_changed(file, meta) == Ok(false);
    is_whole.then_some(content)
}

impl Import<'_> {
    /// Puts a file into the batch; false where it is to be imported alone.
    pub(super) fn put_into_batch(&self, local: &mut Local, source: &Source<'_>) -> bool {
        let (Some(batches), Some(file), meta) = (&self.batches, source.file, source.meta) else {
            return false;
        };
        if meta.kind != FileKind::File || meta.size > LARGEST || meta.may_have_holes() {
            return false;
        }
        let path = source.dir.host.path_below_top(source.name.to_bytes());
        if path.len() > LONGEST_PATH || local.xattrs.has_any(&Target::Open(file)) {
            return false;
        }
        let Some(content) = read_whole(file, meta) else { return false };
        source.dir.pending.fetch_add(1, Ordering::Relaxed);
        let (dir, name) = (source.dir.clone(), source.name.to_owned());
        let record = Record { dir, name, path, meta: *meta, content };
        let mut open = batches.open.lock();
        open.bytes += record.content.len();
        open.records.push(record);
        if open.records.len() >= FILES || open.bytes >= BYTES {
            let _turn = batches.turn.lock();
            let full = std::mem::take(&mut *open);
            drop(open);
            self.make_batch(local, batches, full.records);
        }
        true
    }

    /// Makes what is left when all has been read.
    pub(super) fn make_rest(&self) {
        let Some(batches) = &self.batches else { return };
        let rest = std::mem::take(&mut *batches.open.lock());
        if !rest.records.is_empty() {
            self.make_batch(&mut Local::new(), batches, rest.records);
        }
    }

    fn make_batch(&self, local: &mut Local, batches: &Batches<'_>, records: Vec<Record>) {
        if !self.run.ends() {
            let changes: Vec<_> = records.iter().map(Record::change).collect();
            match batches.maker.make(batches.base, &changes) {
                Ok(answers) => {
                    for (record, answer) in records.iter().zip(answers) {
                        match (answer.code, answer.ino) {
                            (Code::Success, Some(ino)) => self.made(record, ino),
                            _ => self.import_alone(local, record),
                        }
                    }
                }
                Err(error) => {
                    let path = records.first().map(Record::source).unwrap_or_default();
                    self.run.volume_refused(path, "cannot write into the volume, at or behind", error);
                }
            }
        }
        records.into_iter().for_each(|record| self.done(record.dir));
    }

    /// The file is there: it gets its attributes.
    fn made(&self, record: &Record, ino: Ino) {
        match self.volume.setattr(&OWNER, ino, &record.meta.set_attr()) {
            Ok(_) => {
                count(&self.run.counters.files);
                self.run.counters.bytes.fetch_add(record.content.len() as u64, Ordering::Relaxed);
            }
            Err(error) => {
                let _ = self.volume.unlink(&OWNER, record.dir.ino, record.name.to_bytes());
                self.run.volume_refused(record.source(), "cannot write into the volume", error);
            }
        }
    }

    fn import_alone(&self, local: &mut Local, record: &Record) {
        if self.run.ends() {
            return;
        }
        let (dir, name) = (&record.dir, record.name.as_c_str());
        let opened = dir.host.fd(&self.dirs).and_then(|fd| {
            let (file, stat) = self.open_file(&fd, name)?;
            Ok((fd, file, Meta::new(&stat)))
        });
        match opened {
            Ok((fd, file, Some(meta))) if meta.kind == FileKind::File => {
                let source = Source { dir, fd: &fd, name, file: Some(&file), meta: &meta };
                self.one(local, &source, name.to_bytes());
            }
            Ok(_) => self.run.problem(record.source(), "changed its type while being imported"),
            Err(errno) => self.host_problem(dir, name.to_bytes(), errno),
        }
    }
}

impl Record {
    fn change(&self) -> Change<'_> {
        // Closed to others until it gets its own mode, with its owner.
        Change::Create { path: &self.path, perm: UNFINISHED, data: &self.content }
    }

    /// Path on the host.
    fn source(&self) -> Vec<u8> {
        self.dir.host.path(self.name.to_bytes())
    }
}
