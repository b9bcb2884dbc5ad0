//! Files that are read together.

use lanefs::{Code, Error, FileContents, FileList, Ino, ReadFiles, Volume};

/// Files of a batch at most.
const MAX_FILES: usize = 512;
/// Bytes of a batch, from which on it is complete.
const MAX_BYTES: u64 = 4 << 20;
/// Bytes from which on a file is read piece by piece.
pub(crate) const LARGE_BYTES: u64 = 4 << 20;

/// A file to search in.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The path.
    pub path: Vec<u8>,
    /// The path as the output has it, where that is another text.
    pub shown: Option<Vec<u8>>,
    /// The file.
    pub ino: Ino,
    /// Its size in bytes when it was found.
    pub size: u64,
    /// The caller named it, and did not find it below a directory.
    pub is_named: bool,
}

/// Small files, which are read together, or one large file.
pub(crate) enum Job {
    Small(Vec<Candidate>),
    Large(Candidate),
}

/// Makes jobs of files.
pub(crate) struct Jobs<N> {
    next: N,
    /// A large file after the files of the last job.
    large: Option<Candidate>,
}

impl<N: FnMut() -> Option<Candidate>> Jobs<N> {
    pub(crate) fn new(next: N) -> Self {
        Jobs { next, large: None }
    }
}

impl<N: FnMut() -> Option<Candidate>> Iterator for Jobs<N> {
    type Item = Job;

    fn next(&mut self) -> Option<Job> {
        if let Some(large) = self.large.take() {
            return Some(Job::Large(large));
        }
        let (mut files, mut bytes) = (Vec::new(), 0);
        while files.len() < MAX_FILES && bytes < MAX_BYTES {
            match (self.next)() {
                Some(file) if file.size >= LARGE_BYTES && files.is_empty() => return Some(Job::Large(file)),
                Some(file) if file.size >= LARGE_BYTES => {
                    self.large = Some(file);
                    break;
                }
                Some(file) => {
                    bytes += file.size;
                    files.push(file);
                }
                None => break,
            }
        }
        (!files.is_empty()).then_some(Job::Small(files))
    }
}

/// Reads files together, and passes the bytes of each on: of all at once, or, where that fails, of one at a
/// time, unless `stops` returns true.
pub(crate) fn read(
    volume: &Volume,
    files: &[Candidate],
    stops: &dyn Fn() -> bool,
    mut take: impl FnMut(&[Candidate], Vec<Result<&[u8], Error>>),
) {
    let inodes: Vec<Ino> = files.iter().map(|file| file.ino).collect();
    let mut contents = FileContents::new();
    // This call is on one of several threads that read.
    let options = ReadFiles { threads: 1, ..ReadFiles::default() };
    if volume.read_files(&options, FileList::Inodes(&inodes), &mut contents).is_err() {
        // One by one, so that a failure is that of a file. Each may take long on a device that fails.
        for (file, ino) in files.chunks(1).zip(inodes).take_while(|_| !stops()) {
            let one = volume.read_files(&options, FileList::Inodes(&[ino]), &mut contents);
            take(file, vec![one.and_then(|_| content(&contents, 0))]);
        }
        return;
    }
    take(files, (0..files.len()).map(|index| content(&contents, index)).collect());
}

fn content<'c>(contents: &'c FileContents<'_>, index: usize) -> Result<&'c [u8], Error> {
    contents.get(index).unwrap_or(Err(Code::NotFound)).map_err(Error::Code)
}
