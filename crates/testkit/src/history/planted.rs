//! Planted faults of concurrency: a volume that answers rightly one call at a time, and wrongly at times when calls
//! meet.

use super::call::{Call, Name, Reply};
use super::target::{OnVolume, Target};
use lanefs::{Caller, Ino, RenameMode, Volume};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A rename takes the name away and adds the other one a moment later.
    RenameInTwoSteps,
    /// A lookup answers at times what an earlier one found.
    StaleLookup,
    /// A listing is put together of two calls.
    ListInTwoSteps,
    /// A write is made in two halves.
    WriteInTwoSteps,
    /// The attributes that a call returns are read after it, not in it.
    AttributesAfterwards,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 5] = [
        Fault::RenameInTwoSteps,
        Fault::StaleLookup,
        Fault::ListInTwoSteps,
        Fault::WriteInTwoSteps,
        Fault::AttributesAfterwards,
    ];
}

/// A volume with one fault.
pub struct Planted<'v> {
    volume: &'v Volume,
    fault: Fault,
    /// A directory that no history knows.
    hidden: Ino,
    numbers: AtomicU64,
    found: Mutex<HashMap<(u64, Name), Reply>>,
}

impl<'v> Planted<'v> {
    /// Puts a fault in front of a volume.
    ///
    /// # Errors
    /// The volume's, for it gets a directory for what is under way.
    pub fn new(volume: &'v Volume, fault: Fault) -> lanefs::Result<Self> {
        let hidden = volume.mkdir_all("/hidden", 0o755)?.ino;
        Ok(Planted { volume, fault, hidden, numbers: AtomicU64::new(0), found: Mutex::default() })
    }

    fn rename_in_two_steps(&self, call: &Call) -> Option<Reply> {
        let Call::Rename { dir, name, to, new, mode } = *call else { return None };
        // An exchange, and what would fail anyhow, is done rightly.
        let known = |dir, name: Name| self.volume.lookup(&Caller::OWNER, Ino(dir), name.as_bytes());
        if mode == RenameMode::Exchange || known(dir, name).is_err() || known(to, new).is_ok() {
            return None;
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed).to_string();
        let step = |from: Ino, name: &[u8], to: Ino, new: &[u8], mode| {
            self.volume.rename(&Caller::OWNER, from, name, to, new, mode)
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
        let mut found = self.found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
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
        let odd = match self.fault {
            Fault::RenameInTwoSteps => self.rename_in_two_steps(call),
            Fault::StaleLookup => self.stale_lookup(call),
            Fault::ListInTwoSteps => self.list_in_two_steps(call),
            Fault::WriteInTwoSteps => self.write_in_two_steps(call),
            Fault::AttributesAfterwards => self.attributes_afterwards(call),
        };
        odd.unwrap_or_else(|| OnVolume(self.volume).call(call))
    }
}
