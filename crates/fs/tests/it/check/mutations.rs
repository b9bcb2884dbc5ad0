//! Random mutations of metadata: whatever an image has, the check ends, and its repair is whole or refused.

use crate::check::fixture::{closed, tree};
use crate::check::image::{Good, Image};
use crate::check::{Random, names};
use lanefs::*;

/// Positions of metadata to choose from. A few blocks hold most of the fields that can be wrong; the many
/// leaves and inode blocks are chosen as often together.
pub(crate) fn metadata_of(good: &Good) -> Vec<u64> {
    let mut blocks = Vec::new();
    for kind in format::BlockKind::ALL {
        let of_kind = good.of_kind(kind);
        blocks.extend(of_kind.iter().cycle().take(if of_kind.is_empty() { 0 } else { 64 }));
    }
    blocks
}

/// Changes one to eight words of metadata, each to a value that has a meaning elsewhere in the volume.
pub(crate) fn mutate(image: &mut Image<'_>, random: &mut Random, blocks: &[u64]) {
    for _ in 0..=random.below(8) {
        let at = blocks[random.below(blocks.len())];
        let mut block = image.block(at);
        let word = random.below(512) * 8;
        let other = blocks[random.below(blocks.len())];
        match random.below(9) {
            0 => block[word + random.below(8)] ^= 1 << random.below(8),
            1 => block[word..word + 8].copy_from_slice(&random.next().to_le_bytes()),
            2 => block[word..word + 8].fill(0),
            3 => block[word..word + 8].fill(0xff),
            4 => {
                let from = random.below(512) * 8;
                let copy = block[from..from + 8].to_vec();
                block[word..word + 8].copy_from_slice(&copy);
            }
            5 => block[word..word + 8].copy_from_slice(&(other | random.next() & 31).to_le_bytes()),
            6 => {
                let from = image.block(other);
                block[word..word + 8].copy_from_slice(&from[word..word + 8]);
            }
            7 => block = image.block(other),
            _ => {
                let ino = other / image.size().bytes() + random.next() % 16;
                block[word..word + 8].copy_from_slice(&ino.to_le_bytes());
            }
        }
        image.write(at, &block);
    }
    if random.below(8) == 0 {
        image.spoil(blocks[random.below(blocks.len())]);
    }
}

#[test]
fn no_mutation_makes_the_check_fail_or_its_repair_stop_half_way() {
    let images: u64 = std::env::var("LANEFS_CHECK_IMAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    let first: u64 = std::env::var("LANEFS_CHECK_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let (mut failures, mut faulty) = (Vec::new(), 0);
    // The second volume has two groups.
    for (inode_size, size) in [(InodeSize::B128, 16 << 20), (InodeSize::B256, 136 << 20)] {
        let good = Good::new(closed(size, inode_size, 0));
        let blocks = metadata_of(&good);
        for seed in first..first + images {
            let mut random = Random(seed);
            let mut image = good.image();
            mutate(&mut image, &mut random, &blocks);
            let begun = std::time::Instant::now();
            match mend_anything(&mut image) {
                Ok(found) => faulty += u64::from(found),
                Err(why) => failures.push(format!("seed {seed}, {inode_size:?}: {why}")),
            }
            let took = begun.elapsed();
            assert!(took.as_secs() < 20, "seed {seed}, {inode_size:?} took {took:?}");
        }
    }
    assert!(
        failures.is_empty(),
        "{} failed:\n{}",
        failures.len(),
        failures[..failures.len().min(20)].join("\n")
    );
    // With fewer faults the test would show nothing.
    assert!(faulty > images, "only {faulty} of {} images had a fault", 2 * images);
}

/// Checks and repairs an arbitrary image; a clear refusal is fine too. True where something was wrong.
fn mend_anything(image: &mut Image<'_>) -> std::result::Result<bool, String> {
    image.seal();
    let opened = Volume::open_device(Box::new(image.device.clone()), Access::Write);
    let Ok(volume) = opened else { return Ok(false) };
    let refused =
        |e: Error| if e.to_string().contains("too damaged to mend") { Ok(true) } else { Err(e.to_string()) };
    if let Err(e) = volume.check(false, &|_, _| {}) {
        return refused(e);
    }
    let mended = match volume.check(true, &|_, _| {}) {
        Ok(mended) => mended,
        Err(e) => return refused(e),
    };
    if let Some(left) = mended.findings.iter().find(|f| !f.repaired) {
        return Err(format!("not mended: {left:?}"));
    }
    tree(&volume);
    volume.close().map_err(|e| e.to_string())?;
    let again = image.reopen().check(false, &|_, _| {}).map_err(|e| e.to_string())?;
    if again.findings.is_empty() {
        Ok(!mended.findings.is_empty())
    } else {
        Err(format!("again: {:?}", names(&again)))
    }
}
