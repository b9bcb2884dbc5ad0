//! Planted concurrency bugs: a volume that replies correctly to one call at a time, and sometimes wrongly
//! when calls overlap.

use super::call::{Call, Name, Reply};
use super::target::{OnVolume, Target};
use lanefs::{Caller, FileKind, Ino, RenameMode, Volume};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A rename removes the old name, and adds the new one in a second call.
    RenameInTwoSteps,
    /// A lookup sometimes returns the result of an earlier one.
    StaleLookup,
    /// A listing combines two calls.
    ListInTwoSteps,
    /// A write is done in two halves.
    WriteInTwoSteps,
    /// The attributes that a call returns are read after it, not in it.
    AttributesAfterwards,
    /// A file gets its content and attributes after its name.
    WholeInSteps,
    /// A rename leaves its whiteout in a second call.
    WhiteoutAfterwards,
}

impl PlantedBug {
    /// All planted bugs.
    pub const ALL: [PlantedBug; 7] = [
        PlantedBug::RenameInTwoSteps,
        PlantedBug::StaleLookup,
        PlantedBug::ListInTwoSteps,
        PlantedBug::WriteInTwoSteps,
        PlantedBug::AttributesAfterwards,
        PlantedBug::WholeInSteps,
        PlantedBug::WhiteoutAfterwards,
    ];
}

/// A volume with one planted bug.
pub struct Planted<'v> {
    volume: &'v Volume,
    bug: PlantedBug,
    /// A directory that no history names.
    hidden: Ino,
    numbers: AtomicU64,
    found: Mutex<HashMap<(u64, Name), Reply>>,
}

impl<'v> Planted<'v> {
    /// Wraps a volume with a planted bug.
    ///
    /// # Errors
    /// Those of the volume, which gets a directory for renames in progress.
    pub fn new(volume: &'v Volume, bug: PlantedBug) -> lanefs::Result<Self> {
        let hidden = volume.mkdir_all("/hidden", 0o755)?.ino;
        Ok(Planted { volume, bug, hidden, numbers: AtomicU64::new(0), found: Mutex::default() })
    }

    fn rename_in_two_steps(&self, call: &Call) -> Option<Reply> {
        let Call::Rename { dir, name, to, new, mode } = *call else { return None };
        // An exchange, a rename that would fail anyhow, and one that leaves a whiteout, is done correctly.
        let known = |dir, name: Name| self.volume.lookup(&Caller::OWNER, Ino(dir), name.as_bytes());
        let is_right = mode == RenameMode::Exchange || mode.leaves_whiteout();
        if is_right || known(dir, name).is_err() || known(to, new).is_ok() {
            return None;
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed).to_string();
        let step = |from: Ino, name: &[u8], to: Ino, new: &[u8], mode| {
            self.volume.rename_at(&Caller::OWNER, from, name, to, new, mode)
        };
        let (name, new, under_way) = (name.as_bytes(), new.as_bytes(), number.as_bytes());
        step(Ino(dir), name, self.hidden, under_way, RenameMode::Replace).ok()?;
        std::thread::yield_now();
        match step(self.hidden, under_way, Ino(to), new, mode) {
            Ok(()) => Some(Reply::Done),
            Err(error) => {
                let _ = step(self.hidden, under_way, Ino(dir), name, RenameMode::Replace);
                Some(Reply::Failed(error.code()))
            }
        }
    }

    fn stale_lookup(&self, call: &Call) -> Option<Reply> {
        let Call::Lookup { dir, name } = *call else { return None };
        let mut found = self.found.lock();
        let stale = found.get(&(dir, name)).cloned();
        if self.numbers.fetch_add(1, Ordering::Relaxed).is_multiple_of(8) && stale.is_some() {
            return stale;
        }
        let reply = OnVolume(self.volume).call(call);
        found.insert((dir, name), reply.clone());
        Some(reply)
    }

    fn list_in_two_steps(&self, call: &Call) -> Option<Reply> {
        let Call::List { dir } = *call else { return None };
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            let page = self.volume.readdir(&Caller::OWNER, Ino(dir), cookie, 1).ok()?;
            let Some(last) = page.last() else { break };
            cookie = last.cookie;
            names.extend(
                page.iter().map(|e| (String::from_utf8_lossy(&e.name).into_owned(), e.ino.0, e.kind)),
            );
            std::thread::yield_now();
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        Some(Reply::Names(names))
    }

    fn write_in_two_steps(&self, call: &Call) -> Option<Reply> {
        let Call::Write { ino, fill, len } = *call else { return None };
        let half = usize::from(len / 2);
        let write =
            |at: usize, len: usize| self.volume.write(&Caller::OWNER, Ino(ino), at as u64, &vec![fill; len]);
        if half > 0 {
            write(0, half).ok()?;
            std::thread::yield_now();
        }
        match write(half, usize::from(len) - half) {
            Ok(_) => Some(Reply::Done),
            Err(error) => Some(Reply::Failed(error.code())),
        }
    }

    fn whole_in_steps(&self, call: &Call) -> Option<Reply> {
        let Call::CreateWhole { dir, name, fill, len, perm } = *call else { return None };
        let target = OnVolume(self.volume);
        let made = target.call(&Call::Create { dir, name });
        let Reply::Attributes(facts) = &made else { return Some(made) };
        std::thread::yield_now();
        target.call(&Call::Write { ino: facts.ino, fill, len });
        Some(target.call(&Call::Chmod { ino: facts.ino, perm }))
    }

    fn whiteout_afterwards(&self, call: &Call) -> Option<Reply> {
        let Call::Rename { dir, name, to, new, mode } = *call else { return None };
        let alone = match mode {
            RenameMode::Whiteout => RenameMode::Replace,
            RenameMode::NoReplaceWhiteout => RenameMode::NoReplace,
            _ => return None,
        };
        let target = OnVolume(self.volume);
        let found = |dir, name| target.call(&Call::Lookup { dir, name });
        if found(dir, name) == found(to, new) {
            return None;
        }
        let done = target.call(&Call::Rename { dir, name, to, new, mode: alone });
        if done == Reply::Done {
            std::thread::yield_now();
            // Another call may have taken the name.
            let name = name.as_bytes();
            let _ = self.volume.mknod(&Caller::OWNER, Ino(dir), name, FileKind::CharDevice, 0, 0);
        }
        Some(done)
    }

    fn attributes_afterwards(&self, call: &Call) -> Option<Reply> {
        let reply = OnVolume(self.volume).call(call);
        let Reply::Attributes(facts) = &reply else { return Some(reply) };
        if matches!(call, Call::Getattr { .. }) {
            return Some(reply);
        }
        std::thread::yield_now();
        Some(OnVolume(self.volume).call(&Call::Getattr { ino: facts.ino }))
    }
}

impl Target for Planted<'_> {
    fn call(&self, call: &Call) -> Reply {
        let odd = match self.bug {
            PlantedBug::RenameInTwoSteps => self.rename_in_two_steps(call),
            PlantedBug::StaleLookup => self.stale_lookup(call),
            PlantedBug::ListInTwoSteps => self.list_in_two_steps(call),
            PlantedBug::WriteInTwoSteps => self.write_in_two_steps(call),
            PlantedBug::AttributesAfterwards => self.attributes_afterwards(call),
            PlantedBug::WholeInSteps => self.whole_in_steps(call),
            PlantedBug::WhiteoutAfterwards => self.whiteout_afterwards(call),
        };
        odd.unwrap_or_else(|| OnVolume(self.volume).call(call))
    }
}
