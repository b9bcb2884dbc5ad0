//! Paths that are on the device already, and answers that stay there: what another program on the device pays for lookups.

use crate::batch::{Batch, Shape, Tables};
use crate::engine::{Mirrored, next_batch};
use crate::error::Result;
use crate::vulkan::Direction;
use lanefs::{Resolution, ResolveOptions};

/// Paths in the device's memory, to be resolved in the volume as the mirror has it.
pub struct Resident<'m, 'g, 'v> {
    mirrored: &'m Mirrored<'g, 'v>,
    batches: Vec<(Batch, usize)>,
}

impl<'g, 'v> Mirrored<'g, 'v> {
    /// Brings paths to the device.
    ///
    /// # Errors
    /// The device's, for want of memory too.
    pub fn resident<P: AsRef<[u8]>>(
        &self,
        options: &ResolveOptions,
        paths: &[P],
    ) -> Result<Resident<'_, 'g, 'v>> {
        let tables = self.with_mirror(|mirror| Ok(Tables::of(mirror)))?;
        let question = self.question(options);
        let (mut batches, mut rest) = (Vec::new(), paths);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(next_batch(rest));
            rest = later;
            let shape = Shape::of(now, options.attributes);
            let mut batch = Batch::new(self.device(), self.gpu().kernels(), self.cache(), shape, true)?;
            batch.take(now);
            batch.tell(&tables, self.cache(), &question, false);
            batch.bring(self.device(), Direction::In)?;
            batches.push((batch, now.len()));
        }
        Ok(Resident { mirrored: self, batches })
    }
}

impl Resident<'_, '_, '_> {
    /// Resolves them all, and waits for the device. What one dispatch does not finish stays unanswered.
    ///
    /// # Errors
    /// The device's.
    pub fn run(&mut self) -> Result<()> {
        let mut last = None;
        for (batch, _) in &mut self.batches {
            last = Some(batch.again()?);
        }
        last.map_or(Ok(()), |submission| self.mirrored.device().wait(submission))
    }

    /// Brings the answers to the host; [`lanefs::Code::NotResident`] for what the device left open.
    ///
    /// # Errors
    /// The device's.
    pub fn answers(&self) -> Result<Vec<Resolution>> {
        let mut answers = Vec::new();
        for (batch, count) in &self.batches {
            batch.bring(self.mirrored.device(), Direction::Out)?;
            answers.extend((0..*count).map(|i| batch.resolution(i)));
        }
        Ok(answers)
    }
}
