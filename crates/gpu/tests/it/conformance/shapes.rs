//! Kinds of work of the batches: a kind that no batch has is not tested.

use lanefs::bulk::{Batch, DirEngine, Frozen, Lookup, LookupRequest, Rebuilt, Source, Undecided};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Counts by kind.
pub(crate) type Shapes = Mutex<BTreeMap<&'static str, u64>>;

/// An engine whose work is counted by kind.
pub(crate) struct Counted<'v> {
    pub(crate) engine: Box<dyn DirEngine + 'v>,
    pub(crate) shapes: &'v Shapes,
}

impl DirEngine for Counted<'_> {
    fn begin(&mut self, frozen: &Frozen<'_>) -> Result<(), Undecided> {
        self.engine.begin(frozen)
    }

    fn seek(&mut self, names: &[LookupRequest<'_>]) -> Result<Vec<Lookup>, Undecided> {
        self.engine.seek(names)
    }

    fn rebuild(&mut self, batch: &Batch) -> Result<Rebuilt, Undecided> {
        let mut shapes = self.shapes.lock();
        for task in &batch.tasks {
            let sources = batch.sources.get(task.sources.0 as usize..task.sources.1 as usize).unwrap_or(&[]);
            let heads = task.heads.1 - task.heads.0;
            let is_small = batch.heads.get(task.heads.0 as usize).is_some_and(|head| head.index == 0);
            let has = |range: (u32, u32)| range.1 > range.0;
            let shape = match (sources, heads) {
                ([], 1) if is_small => "nothing becomes small",
                ([], 1) => "nothing becomes a region",
                ([], _) => "nothing becomes regions",
                ([Source::Small(_)], 1) if is_small => "small stays small",
                ([Source::Small(_)], 1) => "small becomes a region",
                ([Source::Small(_)], _) => "small becomes regions",
                ([_], 1) => "a region stays one",
                ([_], _) => "a region becomes several",
                (_, 1) => "several regions become one",
                _ => "several regions become others",
            };
            *shapes.entry(shape).or_default() += 1;
            if has(task.added) && has(task.removed) {
                *shapes.entry("entries come and go").or_default() += 1;
            }
        }
        drop(shapes);
        self.engine.rebuild(batch)
    }
}
