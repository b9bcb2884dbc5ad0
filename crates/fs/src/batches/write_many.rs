//! Many small files made in one call.
//!
//! The directories of all files are looked up as one batch first. Each file is then made with its content in
//! one transaction, so that no reader and no crash sees a part of it.

use super::bulk::Change;
use crate::by_path::tree::MkdirAll;
use crate::by_path::whole::Target;
use crate::files::data;
use crate::files::inode::Inode;
use crate::names::namespace;
use crate::names::resolve::Start;
use crate::running::volume::Volume;
use crate::vocabulary::columns::{Column, ColumnSet, Rows};
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::notice::Changed;
use crate::vocabulary::path::split_last;
use crate::vocabulary::path_set::{PathSet, Paths};
use crate::vocabulary::threads::in_threads;
use crate::vocabulary::types::{Attr, Caller, Ino, ResolveOptions};
use lanefs_format::{Code, FileKind, inode as f};
use lanefs_sync::lock::Mutex;

/// Files that pay for a thread.
const FILES_A_THREAD: usize = 256;

/// Most threads of a call.
const MOST_THREADS: usize = 16;

/// Options of [`Volume::write_many`].
#[derive(Clone, Debug)]
pub struct WriteMany {
    /// Directory in which relative paths start; `None`: the root directory.
    pub base: Option<Ino>,
    /// The low 12 bits of the mode of each file.
    pub perm: u16,
    /// Make missing directories, with these bits.
    pub make_directories: Option<u16>,
    /// Replace the content of files that exist, as [`Volume::write_file`]: each in one step, and symbolic
    /// links are followed. Such files keep their attributes.
    pub overwrite: bool,
    /// Threads at most; 0: as many as the host has processors. Never more than 16, and fewer for a small
    /// batch.
    pub threads: usize,
}

impl Default for WriteMany {
    fn default() -> Self {
        WriteMany { base: None, perm: 0o644, make_directories: None, overwrite: false, threads: 0 }
    }
}

/// A directory in which files are made.
#[derive(Clone, Copy)]
struct Directory {
    ino: Ino,
    generation: u32,
}

/// The directories of all files, as far as they exist.
struct Parents(Vec<Option<Directory>>);

impl Rows for Parents {
    fn wants(&self) -> ColumnSet {
        ColumnSet::of(&[Column::Kind, Column::Generation])
    }

    fn found(&mut self, row: usize, ino: Ino, kind: FileKind, attr: Option<&Attr>) {
        let directory = attr.map(|attr| Directory { ino, generation: attr.generation });
        self.0[row] = directory.filter(|_| kind == FileKind::Directory);
    }

    fn failed(&mut self, row: usize, _: Code) {
        self.0[row] = None;
    }
}

/// The files of a call.
struct NewFiles<'n> {
    paths: Paths<'n>,
    data: &'n [u8],
    offsets: &'n [u64],
    /// For each file the index of its directory.
    directory_of: Vec<u32>,
    directories: Parents,
}

/// # Many new files in a call
impl Volume {
    /// Makes many files, as [`Caller::OWNER`]. File `i` gets the bytes from offset `i` to offset `i + 1` of
    /// `data`, so there is one more offset than there are files. Returns a code for each: a file that exists
    /// already has [`Code::Exists`] and stays as it is unless [`WriteMany::overwrite`] is set, and no failure
    /// affects another file.
    ///
    /// Each file appears with its whole content, also to other threads and after a crash. Files of one call
    /// are made in no particular order. Where two have the same path, either one is made.
    ///
    /// ```
    /// use lanefs::{Code, CreateOptions, PathSet, Volume, WriteMany};
    ///
    /// # fn main() -> lanefs::Result<()> {
    /// let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
    /// let paths: PathSet = ["/new/a", "/new/b"].into_iter().collect();
    /// let options = WriteMany { make_directories: Some(0o755), ..WriteMany::default() };
    /// let codes = volume.write_many(&options, &paths, b"onethree", &[0, 3, 8])?;
    /// assert_eq!(codes, [Code::Success; 2]);
    /// assert_eq!(volume.read_file("/new/b")?, b"three");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Code::Invalid`] where the offsets do not ascend, leave the data or are not one more than the paths;
    /// the device's, after which some files may be missing.
    pub fn write_many<'p>(
        &self,
        options: &WriteMany,
        paths: impl Into<Paths<'p>>,
        data: &[u8],
        offsets: &[u64],
    ) -> Result<Vec<Code>> {
        let paths = paths.into();
        check(paths.len(), data, offsets)?;
        let (directory_of, directories) = self.directories_of(options, paths)?;
        let files = NewFiles { paths, data, offsets, directory_of, directories };
        let mut codes = vec![Code::NotResident; paths.len()];
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let threads = threads.min(MOST_THREADS).min(codes.len() / FILES_A_THREAD).max(1);
        let (size, failure) = (codes.len().div_ceil(threads).max(1), Mutex::new(None));
        in_threads(threads, codes.chunks_mut(size).enumerate(), |(part, codes)| {
            for (i, code) in codes.iter_mut().enumerate() {
                match self.write_new(options, &files, part * size + i) {
                    Ok(()) => *code = Code::Success,
                    Err(error) => {
                        *code = error.code();
                        if matches!(error, Error::Io { .. } | Error::WriteFailed { .. }) {
                            failure.lock().get_or_insert(error);
                        }
                    }
                }
            }
        });
        match failure.into_inner() {
            Some(error) => Err(error),
            None => Ok(codes),
        }
    }

    /// Looks up the directories of all files; neighbours that share one share an index.
    fn directories_of(&self, options: &WriteMany, paths: Paths<'_>) -> Result<(Vec<u32>, Parents)> {
        let (mut set, mut directory_of) = (PathSet::new(), Vec::with_capacity(paths.len()));
        let mut last = None;
        for path in paths.iter() {
            let dir = split_last(path).map_or(&b""[..], |(dir, _)| dir);
            if last != Some(dir) {
                set.push(if dir.is_empty() { b"." } else { dir });
                last = Some(dir);
            }
            directory_of.push(set.len() as u32 - 1);
        }
        let mut directories = Parents(vec![None; set.len()]);
        let resolve = ResolveOptions { base: options.base, ..ResolveOptions::default() };
        self.resolve_rows(&resolve, set.view(), &mut directories)?;
        Ok((directory_of, directories))
    }

    fn write_new(&self, options: &WriteMany, files: &NewFiles<'_>, file: usize) -> Result<()> {
        let path = files.paths.get(file).unwrap_or(&[]);
        let data = &files.data[files.offsets[file] as usize..files.offsets[file + 1] as usize];
        let directory = files.directories.0[files.directory_of[file] as usize];
        if let (Some(directory), Some((_, name)), false) = (directory, split_last(path), path.ends_with(b"/"))
        {
            let made = self.change(|edit| {
                let dir = Inode::directory(edit.core, directory.ino.0)?;
                if dir.view.get(f::GENERATION) != directory.generation {
                    return Err(Code::StaleInode.into());
                }
                let caller = &Caller::OWNER;
                let kind = FileKind::File;
                let node = namespace::create(edit, caller, directory.ino.0, name, kind, options.perm, 0)?;
                data::write_new(edit, node, data)
            });
            match made {
                Ok(()) => {
                    self.notify(&[Changed::Name { dir: directory.ino, name }, Changed::Inode(directory.ino)]);
                    return Ok(());
                }
                Err(Error::Code(Code::Exists)) if options.overwrite => {
                    return self.overwrite(options, path, data);
                }
                // The directory was removed since.
                Err(Error::Code(Code::StaleInode | Code::NotDirectory | Code::NotFound)) => {}
                Err(error) => return Err(error),
            }
        }
        self.write_slowly(options, path, data)
    }

    /// Makes a file whose directory was not found at first: another file may have made it since.
    fn write_slowly(&self, options: &WriteMany, path: &[u8], data: &[u8]) -> Result<()> {
        let base = options.base.unwrap_or(self.root());
        if let (Some(perm), Some((dir, _))) = (options.make_directories, split_last(path))
            && !dir.is_empty()
        {
            let make = MkdirAll { base: options.base, perm, perm_above: perm, ..MkdirAll::default() };
            self.make_all(&make, dir).map_err(|(error, _)| error)?;
        }
        let [made] = self.apply(base, &[Change::Create { path, perm: options.perm, data }])?[..] else {
            return Err(Code::InvariantViolated.into());
        };
        match made.code {
            Code::Success => Ok(()),
            Code::Exists if options.overwrite => self.overwrite(options, path, data),
            code => Err(code.into()),
        }
    }

    fn overwrite(&self, options: &WriteMany, path: &[u8], data: &[u8]) -> Result<()> {
        let root = self.root().0;
        let base = options.base.map_or(root, |base| base.0);
        let start = Start { root, base, follow: true, caller: &Caller::OWNER };
        self.put_whole(&Target { start, path, perm: options.perm, is_new: false }, data).map(drop)
    }
}

fn check(paths: usize, data: &[u8], offsets: &[u64]) -> Result<()> {
    let invalid = |what: String| Err(Error::At { code: Code::Invalid, what });
    if offsets.len() != paths + 1 {
        return invalid(format!(
            "{} offsets for {paths} files, which need one more than that",
            offsets.len()
        ));
    }
    if !offsets.is_sorted() {
        return invalid("the offsets of the files do not ascend".into());
    }
    match offsets.last() {
        Some(end) if *end > data.len() as u64 => {
            invalid(format!("the last offset of the files is {end}, and there are {} bytes", data.len()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::options::CreateOptions;

    fn volume() -> Volume {
        let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
        Volume::create_memory(&options).expect("create")
    }

    /// Paths with and without a directory, and the code that each gets without `make_directories`.
    fn some() -> Vec<(String, Code)> {
        let mut all = Vec::new();
        for i in 0..900 {
            all.push((format!("/d{}/f{i}", i / 100), Code::Success));
        }
        for (path, code) in [
            ("/d1/there", Code::Exists),
            ("d2/relative", Code::Success),
            ("flat", Code::Success),
            ("/l/through", Code::Success),
            ("/none/a", Code::ComponentNotFound),
            ("/d3/there/a", Code::NotDirectory),
            ("", Code::NotFound),
            ("/", Code::Invalid),
            ("/d4/slash/", Code::IsDirectory),
        ] {
            all.push((path.into(), code));
        }
        all
    }

    fn prepare(volume: &Volume) {
        for i in 0..10 {
            volume.mkdir_all(format!("/d{i}"), 0o755).expect("mkdir");
            volume.write_file(format!("/d{i}/there"), b"old").expect("write");
        }
        volume.symlink_at(&Caller::OWNER, volume.root(), b"l", b"d5").expect("symlink");
    }

    #[test]
    fn files_get_the_codes_and_contents_of_single_changes() {
        let (one, many, some) = (volume(), volume(), some());
        [&one, &many].into_iter().for_each(prepare);
        let (mut data, mut offsets) = (Vec::new(), vec![0]);
        for (i, _) in some.iter().enumerate() {
            data.extend(std::iter::repeat_n(i as u8, [0, 10, 5000, 300][i % 4]));
            offsets.push(data.len() as u64);
        }
        let set: PathSet = some.iter().map(|(path, _)| path).collect();
        for threads in [1, 3] {
            let options = WriteMany { threads, ..WriteMany::default() };
            let codes = many.write_many(&options, &set, &data, &offsets).expect("write");
            for (i, ((path, expected), code)) in some.iter().zip(&codes).enumerate() {
                let data = &data[offsets[i] as usize..offsets[i + 1] as usize];
                let change = Change::Create { path: path.as_bytes(), perm: 0o644, data };
                let single = one.apply(one.root(), &[change]).expect("apply")[0].code;
                assert_eq!(*code, single, "{path}");
                // The second time all of them exist.
                let is_first = threads == 1;
                let again = if *expected == Code::Success { Code::Exists } else { *expected };
                assert_eq!(*code, if is_first { *expected } else { again }, "{path}");
                if *expected == Code::Success {
                    assert_eq!(many.read_file(path).expect("read"), data, "{path}");
                }
            }
            assert!(many.check(false, &|_, _| {}).expect("check").findings.is_empty());
        }
        assert_eq!(many.read_file("/d1/there").expect("read"), b"old");
    }

    #[test]
    fn missing_directories_are_made_where_that_is_wanted() {
        let volume = volume();
        let paths: Vec<String> = (0..1000).map(|i| format!("/a/b{}/c{}/f{i}", i % 7, i % 3)).collect();
        let set: PathSet = paths.iter().collect();
        let (data, offsets) = (vec![7; 1000], (0..=1000).collect::<Vec<u64>>());
        let codes = volume.write_many(&WriteMany::default(), &set, &data, &offsets).expect("write");
        assert_eq!(codes, vec![Code::ComponentNotFound; 1000]);
        let options = WriteMany { make_directories: Some(0o750), threads: 4, ..WriteMany::default() };
        let codes = volume.write_many(&options, &set, &data, &offsets).expect("write");
        assert_eq!(codes, vec![Code::Success; 1000]);
        assert!(paths.iter().all(|path| volume.read_file(path).expect("read") == [7]));
        assert_eq!(volume.resolve("/a/b1").expect("there").perm, 0o750);
    }

    #[test]
    fn files_that_exist_are_replaced_where_that_is_wanted() {
        let volume = volume();
        prepare(&volume);
        let there = volume.resolve("/d1/there").expect("there");
        volume.symlink_at(&Caller::OWNER, volume.root(), b"to", b"d2/there").expect("symlink");
        let set = PathSet::from_iter(["/d1/there", "to", "/new", "/d3", "/d4/there/", "/l/there"]);
        let (data, offsets) = ([b'n'; 600], (0..=6).map(|i| i * 100).collect::<Vec<u64>>());
        let options = WriteMany { overwrite: true, ..WriteMany::default() };
        let codes = volume.write_many(&options, &set, &data, &offsets).expect("write");
        let expected = [
            Code::Success,
            Code::Success,
            Code::Success,
            Code::IsDirectory,
            Code::IsDirectory,
            Code::Success,
        ];
        assert_eq!(codes, expected);
        for path in ["/d1/there", "/d2/there", "/new", "/d5/there"] {
            assert_eq!(volume.read_file(path).expect("read"), [b'n'; 100], "{path}");
        }
        assert_eq!(volume.resolve("/d1/there").expect("there").ino, there.ino);
        assert_eq!(volume.read_file("/d4/there").expect("read"), b"old");
    }

    #[test]
    fn offsets_that_do_not_fit_are_refused() {
        let (volume, set) = (volume(), PathSet::from_iter(["/a", "/b"]));
        for offsets in [&[0, 1][..], &[0, 2, 1], &[0, 1, 4], &[]] {
            let error = volume.write_many(&WriteMany::default(), &set, b"123", offsets).expect_err("offsets");
            assert_eq!(error.code(), Code::Invalid);
        }
        assert!(volume.resolve("/a").is_err());
    }
}
