//! Sizes of the workloads.

use super::workload::Workload;
use crate::benches::blocks::BlockSizes;

/// Steps of each workload, as its loop counts them, also of the runs whose instructions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Cycles of a thread.
    pub tiny_hot: u64,
    /// Slots of a thread.
    pub random_mixed: u64,
    /// Blocks of a pair of threads.
    pub producer_consumer: u64,
    /// Slots of an array.
    pub larson: u64,
    /// Threads.
    pub thread_churn: u64,
    /// Cycles and slots of the longer run under valgrind; the shorter one has a tenth.
    pub counted: [u64; 2],
    /// Sizes of `block-alloc-*` and `large-file-extents`.
    pub blocks: BlockSizes,
}

impl Sizes {
    /// Sizes that the goals apply to.
    pub const FULL: Sizes = Sizes {
        tiny_hot: 100_000,
        random_mixed: 50_000_000,
        producer_consumer: 50_000_000,
        larson: 50_000_000,
        thread_churn: 10_000,
        counted: [5_000, 500_000],
        blocks: BlockSizes::FULL,
    };
    /// Sizes of `--quick`.
    pub const QUICK: Sizes = Sizes {
        tiny_hot: 50_000,
        random_mixed: 3_000_000,
        producer_consumer: 3_000_000,
        larson: 3_000_000,
        thread_churn: 2_000,
        counted: [1_000, 200_000],
        blocks: BlockSizes::QUICK,
    };

    /// Returns the steps of a workload.
    pub(super) fn steps(&self, workload: Workload) -> u64 {
        match workload {
            Workload::TinyHot => self.tiny_hot,
            Workload::RandomMixed => self.random_mixed,
            Workload::ProducerConsumer => self.producer_consumer,
            Workload::Larson => self.larson,
            Workload::ThreadChurn => self.thread_churn,
        }
    }
}

/// Lists the numbers of threads that have rows of their own.
pub(super) fn row_threads(cores: usize) -> Vec<usize> {
    if cores >= 16 { vec![1, 2, 16] } else { vec![1, 2] }
}

/// Returns the threads of the other rows: two, or sixteen on machines with as many cores.
pub(super) fn crew_threads(cores: usize) -> usize {
    if cores >= 16 { 16 } else { 2 }
}
