//! Many threads that fill small directories together, read them, and empty them again, directory after
//! directory.
//!
//! The threads follow each other closely through directories that go from their small form to a tree and back
//! within microseconds, and through inodes and entries that belonged to another directory just before: a
//! stale attempt meets new structures at old positions. (A bug that only the bench's `memfs-create-100` found
//! led to this test.)

use lanefs::{Caller, Code, Ino, Volume};

const CALLER: Caller = Caller::OWNER;

/// The numbers of threads, directories and names.
#[derive(Clone, Copy, Debug)]
pub struct Waves {
    /// Threads, which divide the names of each directory among themselves.
    pub threads: usize,
    /// Directories in a wave.
    pub directories: usize,
    /// Names in each directory.
    pub names: usize,
}

impl Waves {
    /// Runs one wave: directories are created, filled, read, emptied and removed.
    ///
    /// # Errors
    /// The first wrong reply.
    pub fn run(&self, volume: &Volume) -> Result<(), String> {
        let name = |number: usize| format!("wave-{number}").into_bytes();
        let dirs: Vec<Ino> = (0..self.directories)
            .map(|number| volume.mkdir(&CALLER, volume.root(), &name(number), 0o755).map(|made| made.ino))
            .collect::<lanefs::Result<_>>()
            .map_err(|e| format!("mkdir: {e}"))?;
        let find = |dir: Ino, name: &[u8]| volume.lookup(&CALLER, dir, name).map(|(ino, _)| ino);
        self.all("create", &dirs, |dir, name| {
            let made = volume.create_file(&CALLER, dir, name, 0o644)?.ino;
            Ok(find(dir, name)? == made)
        })?;
        self.all("write", &dirs, |dir, name| {
            volume.write(&CALLER, find(dir, name)?, 0, name).map(|len| len == name.len())
        })?;
        self.all("read", &dirs, |dir, name| {
            let mut buffer = [0; 300];
            let len = volume.read(&CALLER, find(dir, name)?, 0, &mut buffer)?;
            Ok(&buffer[..len] == name)
        })?;
        self.all("unlink", &dirs, |dir, name| {
            volume.unlink(&CALLER, dir, name)?;
            Ok(find(dir, name).is_err_and(|error| error.code() == Code::NotFound))
        })?;
        (0..self.directories)
            .try_for_each(|number| volume.rmdir(&CALLER, volume.root(), &name(number)))
            .map_err(|e| format!("rmdir: {e}"))
    }

    /// Calls `work` for every name of every directory. Each thread continues with the next directory without
    /// waiting.
    fn all(
        &self,
        what: &str,
        dirs: &[Ino],
        operation: impl Fn(Ino, &[u8]) -> lanefs::Result<bool> + Sync,
    ) -> Result<(), String> {
        let work = |thread: usize| {
            for (number, dir) in dirs.iter().enumerate() {
                for own in (thread..self.names).step_by(self.threads) {
                    let name = format!("file-{own:04}-of-a-wave");
                    match operation(*dir, name.as_bytes()) {
                        Ok(true) => {}
                        wrong => return Err(format!("{what} {name} in directory {number}: {wrong:?}")),
                    }
                }
            }
            Ok(())
        };
        let work = &work;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|thread| scope.spawn(move || work(thread))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(format!("{what}: a thread panicked"))))
                .fold(Ok(()), Result::and)
        })
    }
}
