//! An executed workload: the device's log, and the trees before and after each operation.

use super::base::base;
use super::image::CrashImage;
use super::op::{Durable, persist};
use super::oracle::Oracle;
use super::record::{DeviceEvent, Recorder};
use super::snapshot::SnapshotTree;
use super::workload::Workload;
use lanefs::{Access, Volume};
use std::ops::Range;

/// An executed workload.
pub struct Recording {
    /// The image before it.
    pub base: CrashImage,
    /// Everything that reached the device, and the workload's marks.
    pub log: Vec<DeviceEvent>,
    /// The trees.
    pub oracle: Oracle,
    /// Bytes of the volume's journal, its header included.
    pub journal: Range<u64>,
    /// Seed of the random choices of crash states.
    pub seed: u64,
}

/// Executes a workload on a recording device.
///
/// # Errors
/// An operation that reports damage or a failed device, without any crash.
pub fn record(workload: &Workload) -> Result<Recording, String> {
    let base = base(workload.base, workload.variant)?;
    let recorder = Recorder::for_threads(base.clone());
    let volume = Volume::open_device(Box::new(recorder.clone()), Access::Write)
        .map_err(|error| format!("opening the prepared volume: {error}"))?;
    recorder.mark(DeviceEvent::Opened);
    let superblock = volume.superblock();
    let mut trees = vec![SnapshotTree::of(&volume, None, false)?];
    for (index, step) in workload.steps.iter().enumerate() {
        let number = index + 1;
        let failed = |error: lanefs::Error| format!("operation {number}, {step}: {error}");
        recorder.mark(DeviceEvent::Begun(number));
        step.op.apply(&volume, number as u32).map_err(failed)?;
        trees.push(SnapshotTree::of(&volume, trees.last(), false)?);
        let file = match persist(&volume, step).map_err(failed)? {
            Durable::Nothing => continue,
            Durable::File(ino) => Some(ino),
            Durable::All => None,
        };
        recorder.mark(DeviceEvent::Acknowledged { done: number, file });
    }
    volume.close().map_err(|error| format!("close: {error}"))?;
    recorder.mark(DeviceEvent::Acknowledged { done: workload.steps.len(), file: None });
    let journal = superblock.journal..superblock.journal + superblock.journal_blocks * 4096;
    Ok(Recording { base, log: recorder.log(), oracle: Oracle::new(trees), journal, seed: workload.seed })
}
