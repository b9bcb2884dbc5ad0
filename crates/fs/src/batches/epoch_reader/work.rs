//! The work of one epoch, which its threads share.

use super::hand_over::{HandOver, Stage};
use super::options::EpochOptions;
use crate::batches::read_files::ReadFiles;
use crate::running::volume::Volume;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::path_set::PathSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub(super) struct EpochWork {
    pub(super) volume: Arc<Volume>,
    pub(super) paths: Arc<PathSet>,
    pub(super) order: Arc<[u32]>,
    pub(super) start: usize,
    pub(super) batch: usize,
    pub(super) options: EpochOptions,
    pub(super) home: Arc<HandOver>,
    /// Set where nobody wants more batches, not even those that are being read.
    pub(super) stop: AtomicBool,
}

/// Ends a stage also where its thread panics.
struct EndOf<'w>(&'w HandOver, Stage);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

impl EpochWork {
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn read_options(&self) -> ReadFiles<'static> {
        let EpochOptions { resolve, threads, .. } = &self.options;
        ReadFiles { resolve: resolve.clone(), threads: *threads, ..ReadFiles::default() }
    }

    pub(super) fn spawn(self: &Arc<Self>, stage: Stage, run: fn(&EpochWork)) -> Result<JoinHandle<()>> {
        let (work, name) =
            (Arc::clone(self), if stage == Stage::Find { "lanefs-find" } else { "lanefs-read" });
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            let _end = EndOf(&work.home, stage);
            run(&work);
        });
        thread.map_err(|source| Error::Io { what: "starting a thread of an epoch".into(), source })
    }
}
