//! Many threads in large directories. Each thread owns the names that begin with its number and knows their
//! correct state, so every reply about them, and the final directory, has one correct value, whatever the
//! other threads do.

use crate::seeded::Seeded;
use lanefs::{Caller, Code, FileKind, Ino, RenameMode, ResolveOptions, Volume};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const CALLER: Caller = Caller::OWNER;
/// The directories that names move between.
const DIRECTORIES: [&str; 2] = ["/crowd", "/overflow"];
/// Calls after which a thread turns from creating names to removing them, or back: so directories grow and
/// shrink.
const PHASE: usize = 4000;
/// Most pages of a listing, so that one that does not advance ends.
const MOST_PAGES: usize = 100_000;

/// The numbers of threads, names and calls.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// Threads that change names.
    pub owners: usize,
    /// Threads that only read, until the owners end.
    pub readers: usize,
    /// Names in each directory that no thread changes.
    pub still: usize,
    /// Different names that each owner uses.
    pub names: u64,
    /// Calls of each owner.
    pub calls: usize,
    /// An owner syncs once in this many calls; 0 for never.
    pub sync_every: u64,
}

/// The names that a thread owns: name to directory, inode and type, which is that of a file or a whiteout.
type Own = BTreeMap<Vec<u8>, (usize, Ino, FileKind)>;

impl Crowd {
    /// Runs the threads, then compares both directories with the threads' knowledge and checks the volume.
    ///
    /// # Errors
    /// The first wrong reply, with the seed.
    pub fn run(&self, volume: &Volume, seed: u64) -> Result<Crowded, String> {
        self.run_in(volume, seed).map_err(|what| format!("seed {seed}: {what}"))
    }

    fn run_in(&self, volume: &Volume, seed: u64) -> Result<Crowded, String> {
        let mut scene = Scene { volume, dirs: [volume.root(); 2], still: Vec::new() };
        for (dir, path) in scene.dirs.iter_mut().zip(DIRECTORIES) {
            *dir = volume.mkdir_all(path, 0o755).map_err(|e| e.to_string())?.ino;
        }
        for dir in 0..scene.dirs.len() {
            for number in 0..self.still {
                let name = format!("still-{number:05}").into_bytes();
                let made = volume.create_file(&CALLER, scene.dirs[dir], &name, 0o644);
                scene.still.push((dir, name, made.map_err(|e| e.to_string())?.ino));
            }
        }
        let busy = AtomicUsize::new(self.owners);
        let (scene, busy) = (&scene, &busy);
        let mut expected =
            scene.still.iter().map(|(dir, name, ino)| (name.clone(), *dir, *ino)).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            let owners: Vec<_> = (0..self.owners)
                .map(|thread| {
                    scope.spawn(move || {
                        let _done = Done(busy);
                        Owner::new(scene, self, thread, seed).work()
                    })
                })
                .collect();
            let readers: Vec<_> = (0..self.readers)
                .map(|reader| scope.spawn(move || scene.watch(Seeded::new(seed ^ !(reader as u64)), busy)))
                .collect();
            let mut wrong = Vec::new();
            for owner in owners {
                match owner.join() {
                    Ok(Ok(own)) => {
                        expected.extend(own.into_iter().map(|(name, (dir, ino, _))| (name, dir, ino)));
                    }
                    Ok(Err(what)) => wrong.push(what),
                    Err(_) => wrong.push("an owner panicked".into()),
                }
            }
            for reader in readers {
                match reader.join() {
                    Ok(answer) => wrong.extend(answer.err()),
                    Err(_) => wrong.push("a reader panicked".into()),
                }
            }
            if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
        })?;
        let crowded = Crowded { expected };
        crowded.compare(volume)?;
        Ok(crowded)
    }
}

/// The directories' expected content after a run.
pub struct Crowded {
    expected: Vec<(Vec<u8>, usize, Ino)>,
}

impl Crowded {
    /// Compares a volume with the expected content, and checks it. The volume may have been reopened.
    ///
    /// # Errors
    /// The first difference or finding.
    pub fn compare(&self, volume: &Volume) -> Result<(), String> {
        let report = volume.check(false, &|_, _| {}).map_err(|e| format!("check: {e}"))?;
        if let Some(finding) = report.findings.first() {
            return Err(format!("{} findings, the first: {finding:?}", report.findings.len()));
        }
        for (dir, path) in DIRECTORIES.iter().enumerate() {
            let ino = volume.resolve(path).map_err(|e| e.to_string())?.ino;
            let listed: BTreeMap<_, _> = list(volume, ino)?.into_iter().collect();
            let expected: BTreeMap<_, _> = self
                .expected
                .iter()
                .filter(|(_, lies_in, _)| *lies_in == dir)
                .map(|(name, _, ino)| (name.clone(), *ino))
                .collect();
            if let Some((name, ino)) = expected.iter().find(|(name, ino)| listed.get(*name) != Some(ino)) {
                let got = listed.get(name);
                return Err(format!("{path}: {} is {got:?}, not {ino:?}", String::from_utf8_lossy(name)));
            }
            if let Some(name) = listed.keys().find(|name| !expected.contains_key(*name)) {
                return Err(format!("{path}: {} should be gone", String::from_utf8_lossy(name)));
            }
        }
        Ok(())
    }

    /// Returns the number of names.
    pub fn names(&self) -> usize {
        self.expected.len()
    }
}

/// Decrements the count of owners when an owner ends, also by a panic.
struct Done<'c>(&'c AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A whole directory, in pages.
fn list(volume: &Volume, dir: Ino) -> Result<Vec<(Vec<u8>, Ino)>, String> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    for _ in 0..MOST_PAGES {
        let page = volume.readdir(&CALLER, dir, cookie, 100).map_err(|e| format!("readdir: {e}"))?;
        let Some(last) = page.last() else { return Ok(names) };
        cookie = last.cookie;
        names.extend(page.into_iter().map(|entry| (entry.name, entry.ino)));
    }
    Err("a listing does not end".into())
}

/// A thread that wakes takes the core from a thread in the middle of a call: on few cores, threads hardly
/// meet otherwise.
fn nap(random: &mut Seeded) {
    std::thread::sleep(Duration::from_nanos(1 + random.below(20_000)));
}

struct Scene<'v> {
    volume: &'v Volume,
    dirs: [Ino; 2],
    still: Vec<(usize, Vec<u8>, Ino)>,
}

impl Scene<'_> {
    /// Checks that each name that no thread changes is always listed, once, and keeps its inode.
    fn watch(&self, mut random: Seeded, busy: &AtomicUsize) -> Result<(), String> {
        while busy.load(Ordering::SeqCst) > 0 {
            for number in 0..300 {
                if number % 10 == 0 {
                    nap(&mut random);
                }
                let (dir, name, ino) = random.pick(&self.still);
                let found = self.volume.lookup(&CALLER, self.dirs[*dir], name).map_err(|e| e.to_string());
                if found != Ok((*ino, FileKind::File)) {
                    let name = String::from_utf8_lossy(name);
                    return Err(format!("{name}, which nobody touches, gave {found:?}, not {ino:?}"));
                }
            }
            self.resolve_some(&mut random)?;
            let dir = random.below(2) as usize;
            let mut listed: Vec<_> = list(self.volume, self.dirs[dir])?
                .into_iter()
                .filter(|(name, _)| name.starts_with(b"still-"))
                .collect();
            listed.sort();
            let still = self.still.iter().filter(|(lies_in, ..)| *lies_in == dir);
            if !listed.iter().eq(still.map(|(_, name, ino)| (name.clone(), *ino)).collect::<Vec<_>>().iter())
            {
                return Err(format!("a listing gave {} of the names that nobody touches", listed.len()));
            }
        }
        Ok(())
    }

    fn resolve_some(&self, random: &mut Seeded) -> Result<(), String> {
        let chosen: Vec<_> = (0..100).map(|_| random.pick(&self.still)).collect();
        let paths: Vec<Vec<u8>> =
            chosen.iter().map(|(dir, name, _)| [DIRECTORIES[*dir].as_bytes(), b"/", name].concat()).collect();
        let answers =
            self.volume.resolve_batch(&ResolveOptions::default(), &paths).map_err(|e| e.to_string())?;
        for ((_, name, ino), answer) in chosen.iter().zip(&answers) {
            if (answer.code, answer.ino) != (Code::Success, Some(*ino)) {
                return Err(format!("{}: a batch gave {answer:?}", String::from_utf8_lossy(name)));
            }
        }
        Ok(())
    }
}

/// A thread that owns names.
struct Owner<'c> {
    scene: &'c Scene<'c>,
    crowd: &'c Crowd,
    thread: usize,
    random: Seeded,
    own: Own,
}

impl<'c> Owner<'c> {
    fn new(scene: &'c Scene<'c>, crowd: &'c Crowd, thread: usize, seed: u64) -> Self {
        let random = Seeded::new(seed ^ (thread as u64) << 40);
        Owner { scene, crowd, thread, random, own: Own::new() }
    }

    fn name(&mut self) -> Vec<u8> {
        format!("owner-{:02}-{:06}", self.thread, self.random.below(self.crowd.names)).into_bytes()
    }

    fn work(mut self) -> Result<Own, String> {
        for call in 0..self.crowd.calls {
            let grows = (call / PHASE).is_multiple_of(2);
            let weights = if grows { [60, 12, 10, 18] } else { [10, 65, 10, 15] };
            if self.random.below(40) == 0 {
                nap(&mut self.random);
            }
            let name = self.name();
            let done = match self.random.weighted(&weights) {
                0 => self.create(name),
                1 => self.remove(name),
                2 => self.rename(name),
                _ => self.look(&name),
            };
            done.map_err(|what| format!("owner {}, call {call}: {what}", self.thread))?;
            if self.crowd.sync_every > 0 && self.random.below(self.crowd.sync_every) == 0 {
                self.scene.volume.sync().map_err(|e| format!("sync: {e}"))?;
            }
        }
        Ok(self.own)
    }

    fn shown(name: &[u8]) -> String {
        String::from_utf8_lossy(name).into_owned()
    }

    /// Checks that `done` has the result that this thread's names require.
    fn expect<T>(
        what: &str,
        name: &[u8],
        done: lanefs::Result<T>,
        right: Result<(), Code>,
    ) -> Result<Option<T>, String> {
        match (done, right) {
            (Ok(value), Ok(())) => Ok(Some(value)),
            (Err(error), Err(code)) if error.code() == code => Ok(None),
            (Ok(_), Err(code)) => Err(format!("{what} {}: succeeded, not {code:?}", Self::shown(name))),
            (Err(error), right) => Err(format!("{what} {}: {error}, not {right:?}", Self::shown(name))),
        }
    }

    fn create(&mut self, name: Vec<u8>) -> Result<(), String> {
        let at = self.own.get(&name).map(|(dir, ..)| *dir);
        let dir = at.unwrap_or(usize::from(self.random.chance(15)));
        let right = if at.is_some() { Err(Code::Exists) } else { Ok(()) };
        let made = self.scene.volume.create_file(&CALLER, self.scene.dirs[dir], &name, 0o600);
        if let Some(attr) = Self::expect("create", &name, made, right)? {
            self.own.insert(name, (dir, attr.ino, FileKind::File));
        }
        Ok(())
    }

    fn remove(&mut self, name: Vec<u8>) -> Result<(), String> {
        let known = self.own.remove(&name);
        let dir = known.map_or(0, |(dir, ..)| dir);
        let right = if known.is_some() { Ok(()) } else { Err(Code::NotFound) };
        let gone = self.scene.volume.unlink(&CALLER, self.scene.dirs[dir], &name);
        Self::expect("unlink", &name, gone, right).map(|_| ())
    }

    fn rename(&mut self, name: Vec<u8>) -> Result<(), String> {
        let new = self.name();
        let mode = *self.random.pick(&RenameMode::ALL);
        let (source, target) = (self.own.get(&name).copied(), self.own.get(&new).copied());
        let from = source.map_or(0, |(dir, ..)| dir);
        let to = target.map_or(usize::from(self.random.chance(30)), |(dir, ..)| dir);
        let right = match (source, target, mode) {
            (None, ..) => Err(Code::NotFound),
            (_, Some(_), mode) if mode.needs_free_name() => Err(Code::Exists),
            (_, None, RenameMode::Exchange) => Err(Code::NotFound),
            _ => Ok(()),
        };
        let dirs = self.scene.dirs;
        let done = self.scene.volume.rename_at(&CALLER, dirs[from], &name, dirs[to], &new, mode);
        let done = Self::expect("rename", &name, done, right)?;
        if let (Some(()), Some((_, ino, kind))) = (done, source)
            && name != new
        {
            self.own.remove(&name);
            self.own.insert(new, (to, ino, kind));
            if let (RenameMode::Exchange, Some((_, other, kind))) = (mode, target) {
                self.own.insert(name, (from, other, kind));
            } else if mode.leaves_whiteout() {
                let found = self.scene.volume.lookup(&CALLER, dirs[from], &name);
                let (ino, kind) = found.map_err(|e| format!("whiteout {}: {e}", Self::shown(&name)))?;
                if kind != FileKind::CharDevice {
                    return Err(format!("whiteout {}: {kind:?}", Self::shown(&name)));
                }
                self.own.insert(name, (from, ino, kind));
            }
        }
        Ok(())
    }

    fn look(&mut self, name: &[u8]) -> Result<(), String> {
        for (dir, ino) in self.scene.dirs.into_iter().enumerate() {
            let right = match self.own.get(name) {
                Some((lies_in, ino, kind)) if *lies_in == dir => Some((*ino, *kind)),
                _ => None,
            };
            let found = match self.scene.volume.lookup(&CALLER, ino, name) {
                Ok(found) => Some(found),
                Err(error) if error.code() == Code::NotFound => None,
                odd => return Err(format!("lookup {}: {odd:?}", Self::shown(name))),
            };
            if found != right {
                return Err(format!("lookup {}: {found:?}, not {right:?}", Self::shown(name)));
            }
            if let Some((ino, kind)) = found {
                let attr = self.scene.volume.getattr(ino).map_err(|e| e.to_string())?;
                if (attr.kind, attr.links) != (kind, 1) {
                    return Err(format!("{}: {attr:?}", Self::shown(name)));
                }
            }
        }
        Ok(())
    }
}
