//! The states that a crash may leave on a medium.
//!
//! A log is cut after each of its events. Writes that a completed flush covers are durable. Of the other
//! writes any part may be: all, none, or random ones, whole or torn at sectors. The name of a state is its
//! cut and the number of its choice, from which the random choice follows.

use super::image::{CrashImage, SECTOR};
use super::oracle::Allowed;
use super::record::DeviceEvent;
use crate::seeded::Seeded;
use std::collections::HashSet;
use std::sync::Arc;

/// One state.
pub(super) struct CrashState {
    /// Events before the crash.
    pub cut: usize,
    /// Choice of the unflushed writes: 0 all of them, 1 none, others random.
    pub choice: u32,
    /// The content of the medium.
    pub image: CrashImage,
    /// The allowed trees.
    pub allowed: Allowed,
    /// The volume had been open.
    pub opened: bool,
}

/// The states that a caller wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Random choices at each cut.
    pub random: u32,
    /// Seed of the random choices.
    pub seed: u64,
    /// Only this cut and choice.
    pub only: Option<(usize, u32)>,
}

/// A write that no flush covers yet.
struct Pending {
    index: usize,
    at: u64,
    data: Arc<[u8]>,
}

/// The part of a pending write that reached the medium.
enum Landed {
    Whole,
    Nothing,
    Sectors(Vec<bool>),
}

/// Calls `visit` with each state of a log that began with `base` until it returns an error. Of the states
/// with the same content and the same demands it gets the first one.
///
/// # Errors
/// That of `visit`.
pub(super) fn each_state<E>(
    base: &CrashImage,
    log: &[DeviceEvent],
    wanted: &Wanted,
    visit: &mut dyn FnMut(CrashState) -> Result<(), E>,
) -> Result<(), E> {
    let mut durable = base.clone();
    let mut pending: Vec<Pending> = Vec::new();
    let mut allowed = Allowed::default();
    let mut opened = false;
    let mut seen = HashSet::new();
    for (index, event) in log.iter().enumerate() {
        match event {
            DeviceEvent::Write { at, data } => pending.push(Pending { index, at: *at, data: data.clone() }),
            DeviceEvent::FlushEnd { begun } => {
                for write in pending.extract_if(.., |write| write.index < *begun) {
                    durable.write(write.at, &write.data);
                }
            }
            DeviceEvent::Opened => opened = true,
            // More trees become allowed, and nothing else changes.
            DeviceEvent::Begun(operation) => {
                allowed.last = *operation;
                continue;
            }
            DeviceEvent::Acknowledged { done, file } => {
                acknowledge(&mut allowed, *done, file.map(|ino| ino.0));
            }
            DeviceEvent::FlushBegin | DeviceEvent::Lost => continue,
        }
        let cut = index + 1;
        let choices = if pending.is_empty() { 1..2 } else { 0..2 + wanted.random };
        for choice in choices {
            if wanted.only.is_some_and(|only| only != (cut, choice)) {
                continue;
            }
            let landed = choose(&pending, choice, Seeded::new(mix(wanted.seed, cut as u64, choice.into())));
            let mut image = durable.clone();
            for (write, landed) in pending.iter().zip(&landed) {
                land(&mut image, write, landed);
            }
            // Writes often repeat what is there: two choices in five lead to the content of another one.
            if !seen.insert((image.fingerprint(), allowed.first, allowed.data, opened)) {
                continue;
            }
            visit(CrashState { cut, choice, image, allowed: allowed.clone(), opened })?;
        }
    }
    Ok(())
}

fn acknowledge(allowed: &mut Allowed, done: usize, file: Option<u64>) {
    allowed.first = done;
    match file {
        None => allowed.data = done,
        Some(file) => {
            let mut files = (*allowed.files).clone();
            files.insert(file, done);
            allowed.files = Arc::new(files);
        }
    }
}

fn land(image: &mut CrashImage, write: &Pending, landed: &Landed) {
    match landed {
        Landed::Whole => {
            image.write(write.at, &write.data);
        }
        Landed::Nothing => {}
        Landed::Sectors(which) => {
            for (index, sector) in write.data.chunks(SECTOR).enumerate().filter(|(index, _)| which[*index]) {
                image.write(write.at + (index * SECTOR) as u64, sector);
            }
        }
    }
}

/// Choices that find bugs: besides plain chance, a single missing or torn write among many durable ones, and
/// a single durable or half durable one.
fn choose(pending: &[Pending], choice: u32, mut random: Seeded) -> Vec<Landed> {
    let torn = |write: &Pending, random: &mut Seeded| {
        let which: Vec<bool> = write.data.chunks(SECTOR).map(|_| random.chance(50)).collect();
        match () {
            () if which.iter().all(|landed| *landed) => Landed::Whole,
            () if which.iter().any(|landed| *landed) => Landed::Sectors(which),
            () => Landed::Nothing,
        }
    };
    let whole = |landed: bool| if landed { Landed::Whole } else { Landed::Nothing };
    let style = random.below(5);
    let single = random.below(pending.len() as u64) as usize;
    let one = |(index, write): (usize, &Pending)| match (choice, style) {
        (0, _) => Landed::Whole,
        (1, _) => Landed::Nothing,
        (_, 0) => whole(random.chance(50)),
        (_, 1) => torn(write, &mut random),
        (_, 2) => whole(index != single),
        (_, 3) if index == single => torn(write, &mut random),
        (_, 3) => Landed::Whole,
        _ if index == single => torn(write, &mut random),
        _ => Landed::Nothing,
    };
    pending.iter().enumerate().map(one).collect()
}

fn mix(a: u64, b: u64, c: u64) -> u64 {
    Seeded::new(Seeded::new(Seeded::new(a).bits() ^ b).bits() ^ c).bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn write(at: u64, byte: u8, len: usize) -> DeviceEvent {
        DeviceEvent::Write { at, data: vec![byte; len].into() }
    }

    /// All states of a log, as the first bytes of the sectors.
    fn states(log: &[DeviceEvent]) -> Vec<Vec<u8>> {
        let base = CrashImage::new(vec![0; 4096]);
        let wanted = Wanted { random: 40, seed: 1, only: None };
        let mut all = Vec::new();
        let done: Result<(), Infallible> = each_state(&base, log, &wanted, &mut |state| {
            let mut bytes = vec![0; 4096];
            state.image.read(0, &mut bytes);
            all.push(bytes.chunks(SECTOR).take(3).map(|sector| sector[0]).collect());
            Ok(())
        });
        done.unwrap_or_else(|never| match never {});
        all.sort();
        all
    }

    #[test]
    fn every_part_of_what_is_not_flushed_may_land_and_each_state_comes_once() {
        let log = [write(0, 1, 1024), write(1024, 2, 512)];
        let all = states(&log);
        let expected: Vec<Vec<u8>> =
            (0..8u8).map(|bits| vec![bits & 1, bits >> 1 & 1, (bits >> 2 & 1) * 2]).collect();
        assert_eq!(all.len(), 8);
        assert!(expected.iter().all(|state| all.contains(state)));
    }

    #[test]
    fn a_flush_covers_what_was_written_before_it_began_and_nothing_else() {
        let log = [
            write(0, 1, 512),
            DeviceEvent::FlushBegin,
            write(512, 2, 512),
            DeviceEvent::FlushEnd { begun: 1 },
        ];
        let last = states(&log[..]).len() - states(&log[..3]).len();
        // Of the two states with the first write durable, both were possible before.
        assert_eq!(last, 0);
        let mut after = log.to_vec();
        after.push(write(1024, 3, 512));
        let new: Vec<_> = states(&after).into_iter().filter(|state| state[2] == 3).collect();
        assert_eq!(new, [[1, 0, 3], [1, 2, 3]]);
    }
}
