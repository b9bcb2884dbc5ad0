//! Threads hold, use and release files while other threads remove the names of these files.
//!
//! A file is identified by number and generation. A holder must find that very file until it releases the
//! file, with the content that its maker wrote, whatever happens to its names. At the end only files with
//! names are left.

use lanefs::*;
use std::collections::HashSet;

const OWNER: Caller = Caller::OWNER;

/// A fault of the volume, as this test sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An unlink frees the inode, held or not.
    UnlinkForgets,
    /// One release removes all holders.
    ReleaseTakesAll,
    /// A lookup and a hold are two steps, without a comparison of generations.
    LookupThenHold,
}

/// A small generator, so that a seed gives the same choices everywhere (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % end
    }
}

/// One of the names that all threads compete for.
fn name(random: &mut Random, names: u64) -> Vec<u8> {
    format!("n{}", random.below(names)).into_bytes()
}

/// The content that its maker writes into a file: its identity, either in blocks or short enough for the
/// inode.
fn content(attr: &Attr) -> Vec<u8> {
    let word = (attr.ino.0 << 32 | u64::from(attr.generation)).to_le_bytes();
    word.repeat(if attr.generation.is_multiple_of(2) { 3 } else { 700 })
}

struct Worker<'v> {
    volume: &'v Volume,
    dir: Ino,
    random: Random,
    /// Number of names.
    names: u64,
    fault: Option<Fault>,
    /// Inodes that this thread holds, one entry for each hold.
    held: Vec<Attr>,
}

type Checked<T> = std::result::Result<T, String>;

/// Errors that a call may return while names are made and removed.
fn ordinary<T>(what: &str, answer: Result<T>) -> Checked<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.code(), Code::NotFound | Code::Exists) => Ok(None),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

impl Worker<'_> {
    fn step(&mut self) -> Checked<()> {
        let names = self.names;
        let (name, other) = (name(&mut self.random, names), name(&mut self.random, names));
        let (volume, dir) = (self.volume, self.dir);
        match self.random.below(16) {
            0..=3 => self.make(&name)?,
            4..=6 => self.look_up(&name)?,
            7..=8 => {
                self.forget(&name);
                ordinary("unlink", volume.unlink(&OWNER, dir, &name))?;
            }
            9 => {
                self.forget(&other);
                ordinary("rename", volume.rename_at(&OWNER, dir, &name, dir, &other, RenameMode::Replace))?;
            }
            10 => {
                if let Some(attr) = self.held.last() {
                    ordinary("link", volume.link(&OWNER, attr.ino, dir, &name))?;
                }
            }
            11 => {
                let attr = volume.create_unnamed(&OWNER, dir, 0o600).map_err(|e| format!("unnamed: {e}"))?;
                self.write(attr)?;
                self.held.push(attr);
            }
            12 => {
                // A second hold by number.
                if let Some(attr) = self.held.first().copied() {
                    let again = volume.hold(attr.ino).map_err(|e| format!("hold {attr:?}: {e}"))?;
                    self.held.push(again);
                }
            }
            _ => {}
        }
        for attr in &self.held {
            self.look(attr)?;
        }
        let most = self.random.below(6) as usize;
        while self.held.len() > most {
            let which = self.random.below(self.held.len() as u64) as usize;
            let attr = self.held.swap_remove(which);
            self.look(&attr)?;
            let times = if self.fault == Some(Fault::ReleaseTakesAll) { u64::MAX } else { 1 };
            volume.release(attr.ino, times).map_err(|e| format!("release: {e}"))?;
        }
        Ok(())
    }

    fn make(&mut self, name: &[u8]) -> Checked<()> {
        let made = self.volume.create_file(&OWNER, self.dir, name, 0o644);
        let Some(made) = ordinary("create", made)? else { return Ok(()) };
        // The inode may be freed already, or be another one.
        match self.volume.hold(made.ino) {
            Ok(attr) if attr.generation == made.generation => {
                self.write(attr)?;
                self.held.push(attr);
            }
            Ok(attr) => self.volume.release(attr.ino, 1).map_err(|e| format!("release: {e}"))?,
            Err(error) if error.code() == Code::StaleInode => {}
            Err(error) => return Err(format!("hold: {error}")),
        }
        Ok(())
    }

    fn write(&self, attr: Attr) -> Checked<()> {
        let written = self.volume.write(&OWNER, attr.ino, 0, &content(&attr));
        written.map(drop).map_err(|e| format!("write: {e}"))
    }

    fn look_up(&mut self, name: &[u8]) -> Checked<()> {
        let (volume, dir) = (self.volume, self.dir);
        let found = if self.fault == Some(Fault::LookupThenHold) {
            let found = volume.lookup(&OWNER, dir, name).and_then(|(ino, _)| volume.getattr(ino));
            if found.is_ok() {
                std::thread::yield_now();
            }
            found.and_then(|attr| volume.hold(attr.ino).map(|_| attr))
        } else {
            volume.lookup_held(&OWNER, dir, name)
        };
        self.held.extend(ordinary("lookup", found)?);
        Ok(())
    }

    /// The planted volume releases an inode that loses its name.
    fn forget(&self, name: &[u8]) {
        if self.fault == Some(Fault::UnlinkForgets)
            && let Ok((ino, _)) = self.volume.lookup(&OWNER, self.dir, name)
        {
            let _ = self.volume.release(ino, u64::MAX);
        }
    }

    /// A held inode exists and has not changed.
    fn look(&self, held: &Attr) -> Checked<()> {
        let now = self.volume.getattr(held.ino).map_err(|e| format!("{held:?} is held, and {e}"))?;
        if now.generation != held.generation {
            return Err(format!("{held:?} is held, and its number is {now:?}"));
        }
        let mut bytes = vec![0; 6000];
        let read = self.volume.read(&OWNER, held.ino, 0, &mut bytes).map_err(|e| format!("read: {e}"))?;
        // The maker may not have written the content yet.
        if read > 0 && bytes[..read] != content(held) {
            return Err(format!("{held:?} has {read} bytes of another file"));
        }
        Ok(())
    }
}

/// Runs threads on a volume. Returns the first fault that one of them saw.
pub(crate) fn crowd(
    volume: &Volume,
    seed: u64,
    threads: u64,
    steps: u32,
    fault: Option<Fault>,
) -> Checked<()> {
    let dir = volume.mkdir_all("/crowd", 0o755).map_err(|e| e.to_string())?.ino;
    let work = |number: u64| -> Checked<()> {
        let random = Random(seed << 32 | number);
        let mut worker = Worker { volume, dir, random, names: 1 + seed % 5, fault, held: Vec::new() };
        for _ in 0..steps {
            worker.step()?;
        }
        for attr in std::mem::take(&mut worker.held) {
            volume.release(attr.ino, 1).map_err(|e| format!("release: {e}"))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|number| scope.spawn(move || work(number))).collect();
        let mut done = Ok(());
        for thread in all {
            done = done.and(thread.join().unwrap_or_else(|_| Err("a panic".into())));
        }
        done
    })?;
    // Only the inodes with names are left, the two directories above, and the hidden one.
    let mut named = HashSet::new();
    for entry in volume.readdir(&OWNER, dir, 0, 100).map_err(|e| e.to_string())? {
        named.insert(entry.ino);
    }
    let inodes = volume.statfs().map_err(|e| e.to_string())?.inodes;
    if inodes != named.len() as u64 + 3 {
        return Err(format!("{inodes} inodes, of which {} have names", named.len()));
    }
    Ok(())
}
