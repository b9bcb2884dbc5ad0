//! The engines as makers of an import's files.

use super::args::report;
use lanefs::Ino;
use lanefs::bulk::{Applied, Change};
use lanefs_gpu::Engines;

/// Makes the files of a volume by its engines.
pub struct ImportEngines<'v>(pub Engines<'v>);

impl lanefs_transfer::Maker for ImportEngines<'_> {
    fn make(&self, base: Ino, changes: &[Change<'_>]) -> lanefs::Result<Vec<Applied>> {
        let answers = self.0.apply(base, changes)?;
        report(self.0.take_failure());
        Ok(answers)
    }
}
