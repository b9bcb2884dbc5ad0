//! A search in a part of the names.

use super::columns::{Bounds, Needle, State};
use super::names::{Dir, EntryId, Names};
use super::query::{Query, Term};
use super::ranking::{Ranking, key};
use super::whole::Whole;
use lanefs::format::MAX_NAME;
use std::sync::atomic::{AtomicU64, Ordering};

/// Consecutive entries: the first one, and the one after the last.
pub(super) type Range = (EntryId, EntryId);

/// A query in the form for many paths.
pub(super) struct Prepared<'q> {
    /// Groups of one term that goes by columns.
    needles: Vec<Needle>,
    /// The other groups.
    others: Vec<&'q [Term]>,
    /// All groups, for paths that do not go by columns.
    all: Vec<&'q [Term]>,
    /// The least key that is among the best of some thread.
    pub(super) threshold: AtomicU64,
}

/// A thread's search.
pub(super) struct Scan<'s> {
    names: &'s Names,
    query: &'s Prepared<'s>,
    pub(super) ranking: Ranking,
    /// States of the directory and those above it.
    levels: Vec<Level>,
    /// Those of the entry.
    states: Vec<State>,
    bounds: Vec<Bounds>,
    whole: Whole,
    path: Vec<u8>,
}

struct Level {
    dir: usize,
    states: Vec<State>,
}

impl<'q> Prepared<'q> {
    pub(super) fn new(query: &'q Query) -> Self {
        let mut prepared = Prepared {
            needles: Vec::new(),
            others: Vec::new(),
            all: Vec::new(),
            threshold: AtomicU64::new(0),
        };
        for group in &query.groups {
            prepared.all.push(group);
            match &group[..] {
                [term] => match Needle::new(term) {
                    Some(needle) => prepared.needles.push(needle),
                    None => prepared.others.push(group),
                },
                _ => prepared.others.push(group),
            }
        }
        prepared
    }
}

impl<'s> Scan<'s> {
    pub(super) fn new(names: &'s Names, query: &'s Prepared<'s>, limit: usize) -> Self {
        let states: Vec<State> = query.needles.iter().map(Needle::start).collect();
        Scan {
            names,
            query,
            ranking: Ranking::new(limit),
            levels: Vec::new(),
            bounds: vec![Bounds::default(); states.len()],
            states,
            whole: Whole::new(),
            path: Vec::new(),
        }
    }

    /// Searches in some entries, and appends those that match to `matched`.
    pub(super) fn search(&mut self, range: Range, matched: &mut Vec<Range>) {
        let (mut at, end) = range;
        let mut dir = self.names.dir_of(at);
        while at < end
            && let Some(directory) = self.names.dirs.get(dir)
        {
            let until = directory.entries.1.min(end);
            if at < until {
                self.search_dir(dir, directory, (at, until), matched);
                at = until;
            }
            dir += 1;
        }
    }

    fn search_dir(&mut self, number: usize, dir: &Dir, range: Range, matched: &mut Vec<Range>) {
        let level = if self.query.needles.is_empty() { 0 } else { self.enter(number) };
        let (mut limit, mut path_dir) = (self.least(), None);
        if let Some(all) = self.decides(level, dir, limit) {
            if all {
                matched.push(range);
            }
            return;
        }
        for id in range.0..range.1 {
            let entry = &self.names.entries[id as usize];
            let path_len = dir.path_len as usize + usize::from(entry.len);
            let by_columns = !self.query.needles.is_empty()
                && dir.is_ascii
                && entry.is_ascii
                && self.query.needles.iter().all(|needle| needle.takes(path_len));
            let found = if by_columns && self.query.others.is_empty() {
                self.by_columns(level, dir, id, path_len, limit)
            } else {
                if by_columns && self.by_columns(level, dir, id, path_len, u64::MAX).is_none() {
                    continue;
                }
                if path_dir != Some(number) {
                    self.path.clear();
                    self.names.push_dir(number, &mut self.path);
                    path_dir = Some(number);
                }
                self.path.truncate(dir.path_len as usize);
                self.path.extend_from_slice(self.names.name(dir, id));
                self.in_path().map(Some)
            };
            let Some(found) = found else { continue };
            match matched.last_mut() {
                Some(last) if last.1 == id => last.1 = id + 1,
                _ => matched.push((id, id + 1)),
            }
            let Some(score) = found else { continue };
            let key = key(score, path_len);
            if key >= limit {
                self.ranking.add(key, id);
                limit = self.least();
            }
        }
        self.query.threshold.fetch_max(self.ranking.threshold(), Ordering::Relaxed);
    }

    /// True if all entries of a directory match and none is as good as `limit`, false if none matches; `None`
    /// if entries differ.
    fn decides(&self, level: usize, dir: &Dir, limit: u64) -> Option<bool> {
        let states = &self.levels.get(level)?.states;
        let path_len = dir.path_len as usize;
        let is_ascii = dir.is_ascii && dir.has_ascii;
        if !is_ascii || !self.query.needles.iter().all(|needle| needle.takes(path_len + MAX_NAME)) {
            return None;
        }
        let mut most = 0;
        let mut is_over = self.query.others.is_empty();
        for ((needle, state), bounds) in self.query.needles.iter().zip(states).zip(&self.bounds) {
            if !needle.may_match(state.reached, dir.mask) {
                return Some(false);
            }
            is_over &= needle.score(state).is_some();
            most += bounds.below_row(needle.first_row(dir.mask));
        }
        (is_over && key(most, path_len) < limit).then_some(true)
    }

    /// The least key that counts.
    fn least(&self) -> u64 {
        // Relaxed: a lower value costs time only.
        self.ranking.threshold().max(self.query.threshold.load(Ordering::Relaxed))
    }

    /// `None` if the entry does not match; its score if it may be as good as `limit`.
    fn by_columns(
        &mut self,
        level: usize,
        dir: &Dir,
        id: EntryId,
        path_len: usize,
        limit: u64,
    ) -> Option<Option<u32>> {
        let mask = self.names.masks[id as usize];
        let at = &self.levels.get(level)?.states;
        let mut most = 0;
        for ((needle, state), bounds) in self.query.needles.iter().zip(at).zip(&self.bounds) {
            let row = needle.first_row(mask);
            if row > state.reached {
                return None;
            }
            most += bounds.below_row(row);
        }
        let name = self.names.name(dir, id);
        if key(most, path_len) < limit {
            let mut both = self.query.needles.iter().zip(at);
            return both.all(|(needle, state)| needle.matches(state.reached, name)).then_some(None);
        }
        let mut score = 0;
        for ((needle, state), own) in self.query.needles.iter().zip(at).zip(&mut self.states) {
            own.copy_from(state);
            needle.advance(own, name);
            score += u32::from(needle.score(own)?);
        }
        Some(Some(score))
    }

    /// The score of the path in `self.path`.
    fn in_path(&mut self) -> Option<u32> {
        let mut score = 0;
        self.whole.set(&self.path);
        for group in &self.query.all {
            score += self.whole.group(&self.path, group)?;
        }
        Some(score)
    }

    /// Makes the states and bounds of a directory, and returns its level.
    fn enter(&mut self, number: usize) -> usize {
        let names = self.names;
        let mut way = Vec::new();
        let mut dir = number;
        loop {
            let Dir { level, parent, .. } = names.dirs[dir];
            let level = level as usize;
            if self.levels.get(level).is_some_and(|known| known.dir == dir) {
                self.levels.truncate(level + 1);
                break;
            }
            way.push(dir);
            if parent as usize == dir {
                self.levels.clear();
                break;
            }
            dir = parent as usize;
        }
        for dir in way.into_iter().rev() {
            let mut states = match self.levels.last() {
                Some(above) => above.states.clone(),
                None => self.query.needles.iter().map(Needle::start).collect(),
            };
            for (needle, state) in self.query.needles.iter().zip(&mut states) {
                needle.advance(state, names.segment(dir));
            }
            self.levels.push(Level { dir, states });
        }
        let level = self.levels.len().saturating_sub(1);
        if let Some(Level { states, .. }) = self.levels.last() {
            for ((needle, state), bounds) in self.query.needles.iter().zip(states).zip(&mut self.bounds) {
                needle.bounds(state, bounds);
            }
        }
        level
    }
}
