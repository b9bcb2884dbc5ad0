//! Walks of directories with very many names by several threads: each reads the files of some of them, and
//! the last one decides whether the directory is as the last sync has found it.

use super::recorded::{NamesInWalk, Recording};
use super::{Engine, Task};
use crate::running::queue::Queue;
use crate::sync::effect::Effect;
use crate::sync::failure::Failure;
use crate::sync::fingerprint::Fingerprint;
use crate::sync::last_sync::SyncedDir;
use crate::sync::listing::{Listing, Segment};
use crate::sync::pair::Pair;
use crate::sync::tree::{Buffers, Tree};
use lanefs_sync::lock::Mutex;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::Arc;

/// Size of a directory in bytes from which on it is walked in slices: some thousand names.
const WIDE_BYTES: u64 = 256 << 10;
/// Names of a slice.
const SLICE_NAMES: usize = 2048;

/// A directory that is walked in slices.
struct SlicedWalk<A: Tree, B: Tree> {
    pair: Arc<Pair<A, B>>,
    known: SyncedDir,
    segments: Vec<Segment>,
    found: Mutex<SliceFindings>,
}

/// The findings of slices.
struct SliceFindings {
    fingerprint: Fingerprint,
    names: NamesInWalk,
    /// Slices that are still to be walked.
    left: usize,
}

/// A part of the names of a directory.
pub(in crate::sync) struct WalkSlice<A: Tree, B: Tree> {
    walk: Arc<SlicedWalk<A, B>>,
    segment: usize,
    range: Range<usize>,
}

impl<A: Tree, B: Tree> WalkSlice<A, B> {
    /// The directory, which waits for this slice.
    pub(super) fn pair(&self) -> Arc<Pair<A, B>> {
        self.walk.pair.clone()
    }
}

/// The slices of some segments: the number of the segment, and names of it.
fn slices_of(segments: &[Segment]) -> Vec<(usize, Range<usize>)> {
    let mut slices = Vec::new();
    for (number, segment) in segments.iter().enumerate() {
        let begins = (0..segment.len()).step_by(SLICE_NAMES);
        slices.extend(begins.map(|begin| (number, begin..segment.len().min(begin + SLICE_NAMES))));
    }
    slices
}

impl<A: Tree, B: Tree, E: Effect<A, B>> Engine<'_, A, B, E> {
    /// Begins to walk a recorded directory in slices; false where it has too few names for that.
    pub(super) fn is_walked_in_slices(
        &self,
        queue: &Queue<Task<A, B>>,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
    ) -> bool {
        let is_wide = pair.a.1.meta.size >= WIDE_BYTES;
        let recorded = self.recorded(pair).filter(|(_, known)| is_wide && known.fingerprint != 0);
        let Some((recording, known)) = recorded else { return false };
        let mut listing = Listing::default();
        let listed = self.a.names(self.job, buffers, &pair.a.0, &mut |name, kind, ino| {
            listing.push(name, kind, ino);
        });
        let mut segments = listing.into_segments();
        segments.iter_mut().for_each(Segment::sort);
        let slices = slices_of(&segments);
        // A directory keeps its size when its names go.
        if listed.is_err() || slices.len() < 2 {
            return false;
        }
        let fingerprint = recording.last.fingerprint(&pair.a.1.meta);
        let (names, left) = (NamesInWalk::default(), slices.len());
        let found = Mutex::new(SliceFindings { fingerprint, names, left });
        let walk = Arc::new(SlicedWalk { pair: pair.clone(), known, segments, found });
        for (segment, range) in slices.into_iter().rev() {
            pair.tasks.add();
            queue.push(Task::Slice(WalkSlice { walk: walk.clone(), segment, range }));
        }
        true
    }

    /// Walks a slice. The last one of a directory passes over it, or compares it.
    pub(super) fn slice(&self, queue: &Queue<Task<A, B>>, buffers: &mut Buffers, slice: &WalkSlice<A, B>) {
        let (walk, Some(recording)) = (&slice.walk, self.recording) else { return };
        let part = self.walked_slice(recording, slice);
        let mut found = walk.found.lock();
        match part {
            Some((fingerprint, names)) => {
                found.fingerprint.join(&fingerprint);
                found.names.join(names);
            }
            None => found.fingerprint.spoil(),
        }
        found.left -= 1;
        if found.left > 0 || self.job.should_stop() {
            return;
        }
        let (fingerprint, names) = (found.fingerprint.value(), std::mem::take(&mut found.names));
        drop(found);
        if !self.passes_over(queue, &walk.pair, (recording, walk.known), fingerprint, names) {
            self.compare_walked(queue, buffers, &walk.pair);
        }
    }

    /// The findings of a slice; `None` where the host does not give them.
    fn walked_slice(
        &self,
        recording: Recording<'_>,
        slice: &WalkSlice<A, B>,
    ) -> Option<(Fingerprint, NamesInWalk)> {
        let walk = &slice.walk;
        let (mut fingerprint, mut names) = (walk.found.lock().fingerprint.of_part(), NamesInWalk::default());
        for (name, _) in walk.segments.get(slice.segment)?.names(slice.range.clone()) {
            if self.job.should_stop() {
                return None;
            }
            match self.a.node(&walk.pair.a.0, &name) {
                Ok(node) => {
                    recording.last.add_name(&mut fingerprint, name.name.to_bytes(), &node.meta);
                    names.add(&name.name, &node);
                }
                // It is gone: the names that are left decide.
                Err(Failure::Host(Errno::NOENT)) => {}
                Err(_) => return None,
            }
        }
        Some((fingerprint, names))
    }
}
