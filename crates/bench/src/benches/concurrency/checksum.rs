//! `data-checksum`: rate of the checksums of file data on one core.

use super::bench::ConcurrencyBench;
use crate::error::Result;
use crate::measure::values::{LANEFS, Values};
use crate::systems::system::Named;
use lanefs::format::{BLOCK, Checksummer};
use std::hint::black_box;
use std::time::Instant;

/// Blocks that are worked on again and again; they fit into a processor's second-level cache.
const BLOCKS: usize = 64;

/// Times that all blocks are worked on in one run.
const TURNS: usize = 2_000;

/// Work on one block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SumWork {
    /// Its checksum.
    Checksum,
    /// A copy, which any read or write makes.
    Copy,
}

impl Named for SumWork {
    fn name(&self) -> &str {
        match self {
            SumWork::Checksum => LANEFS,
            SumWork::Copy => "memcpy",
        }
    }
}

impl SumWork {
    fn turn(self, blocks: &[u8], copy: &mut [u8]) {
        match self {
            SumWork::Checksum => {
                let sums = Checksummer::new(1);
                for (at, block) in (0..).step_by(BLOCK as usize).zip(blocks.chunks_exact(BLOCK as usize)) {
                    black_box(sums.of_data(at, black_box(block)));
                }
            }
            SumWork::Copy => black_box(copy).copy_from_slice(black_box(blocks)),
        }
    }
}

pub(super) fn measure(bench: &mut ConcurrencyBench) -> Result<()> {
    let bytes = BLOCKS * BLOCK as usize;
    let (blocks, mut copy) = (vec![7; bytes], vec![0; bytes]);
    let mut rates = Values::default();
    bench.in_turn("data-checksum", &[&SumWork::Checksum, &SumWork::Copy], |work, run| {
        let start = Instant::now();
        for _ in 0..TURNS {
            work.turn(&blocks, &mut copy);
        }
        if run > 0 {
            rates.add(work.name(), (TURNS * bytes) as f64 / start.elapsed().as_secs_f64() / 1e6);
        }
        Ok(())
    })?;
    bench.row(rates.rate_row("data-checksum", "MB/s").map(|row| row.param("bytes", bytes)));
    Ok(())
}
