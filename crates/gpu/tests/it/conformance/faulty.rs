//! Engines that decide nothing, and engines that make mistakes.

use lanefs::bulk::{Batch, DirEngine, Frozen, Home, Lookup, LookupRequest, Rebuilt, Undecided};

/// Leaves everything to the host.
pub(crate) struct Nothing;

impl DirEngine for Nothing {
    fn begin(&mut self, _: &Frozen<'_>) -> Result<(), Undecided> {
        Err(Undecided)
    }

    fn seek(&mut self, _: &[LookupRequest<'_>]) -> Result<Vec<Lookup>, Undecided> {
        Err(Undecided)
    }

    fn rebuild(&mut self, _: &Batch) -> Result<Rebuilt, Undecided> {
        Err(Undecided)
    }
}

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A name is not found.
    Missed,
    /// A name is found that belongs to another entry.
    WrongEntry,
    /// A name has another hash.
    WrongHash,
    /// A name belongs to another region.
    WrongHome,
    /// A region counts one entry more.
    SeenOneMore,
    /// An answer too few.
    Short,
    /// A word has another value, by one bit.
    FlippedWord,
    /// A word is missing.
    DroppedWord,
    /// Two words are exchanged.
    SwappedWords,
    /// A word has a position that the batch does not change.
    StrayWord,
    /// A region has one entry more and its neighbour one less, or it has one too many.
    WrongCount,
    /// A region begins one hash later.
    WrongLowest,
    /// A region is missing.
    DroppedHead,
    /// It stops in the middle of a batch.
    GivesUp,
}

impl Fault {
    pub(crate) const ALL: [Fault; 14] = [
        Fault::Missed,
        Fault::WrongEntry,
        Fault::WrongHash,
        Fault::WrongHome,
        Fault::SeenOneMore,
        Fault::Short,
        Fault::FlippedWord,
        Fault::DroppedWord,
        Fault::SwappedWords,
        Fault::StrayWord,
        Fault::WrongCount,
        Fault::WrongLowest,
        Fault::DroppedHead,
        Fault::GivesUp,
    ];
}

/// An engine with a mistake in each of its answers that has room for it.
pub(crate) struct Faulty<'v> {
    pub(crate) engine: Box<dyn DirEngine + 'v>,
    pub(crate) fault: Fault,
}

impl DirEngine for Faulty<'_> {
    fn begin(&mut self, frozen: &Frozen<'_>) -> Result<(), Undecided> {
        self.engine.begin(frozen)
    }

    fn seek(&mut self, names: &[LookupRequest<'_>]) -> Result<Vec<Lookup>, Undecided> {
        let mut seen = self.engine.seek(names)?;
        let middle = seen.len() / 2;
        let found = seen.iter().skip(middle).position(|one| one.entry.is_some()).map(|at| at + middle);
        match (self.fault, found) {
            (Fault::Missed, Some(at)) => seen[at].entry = None,
            (Fault::WrongEntry, Some(at)) => {
                let other =
                    seen.iter().find_map(|one| one.entry.filter(|entry| Some(*entry) != seen[at].entry));
                seen[at].entry = other.or(seen[at].entry);
            }
            (Fault::WrongHash, _) => seen[middle].hash ^= 1 << 20,
            (Fault::WrongHome, _) => {
                let home = seen[middle].home;
                let other =
                    seen.iter().map(|one| one.home).find(|other| *other != home && *other != Home::Empty);
                seen[middle].home = other.unwrap_or(home);
            }
            (Fault::SeenOneMore, Some(at)) => seen[at].count += 1,
            (Fault::Short, _) => drop(seen.pop()),
            _ => {}
        }
        Ok(seen)
    }

    fn rebuild(&mut self, batch: &Batch) -> Result<Rebuilt, Undecided> {
        let mut rebuilt = self.engine.rebuild(batch)?;
        let Rebuilt { words, heads } = &mut rebuilt;
        let middle = words.len() / 2;
        match self.fault {
            Fault::FlippedWord if !words.is_empty() => words[middle].1 ^= 32,
            Fault::DroppedWord if !words.is_empty() => drop(words.remove(middle)),
            Fault::SwappedWords if words.len() > 1 => {
                let value = words[middle].1;
                if let Some(other) = words.iter().position(|word| word.1 != value) {
                    words[middle].1 = words[other].1;
                    words[other].1 = value;
                }
            }
            Fault::StrayWord => words.push((8, u64::MAX)),
            Fault::WrongCount => match &mut heads[..] {
                [first, second, ..] => {
                    first.count += 1;
                    second.count -= 1;
                }
                [one] => one.count += 1,
                [] => {}
            },
            Fault::WrongLowest => {
                if let Some(last) = heads.last_mut() {
                    last.lowest = last.lowest.wrapping_add(1);
                }
            }
            Fault::DroppedHead => drop(heads.pop()),
            Fault::GivesUp => return Err(Undecided),
            _ => {}
        }
        Ok(rebuilt)
    }
}
