//! Snapshots of a device against writers.

use super::explorer::{explore, finds};
use super::medium::Medium;
use crate::device::{Device, Preserving};
use crate::vocabulary::planted::Bug::SavesAfterWriting;
use lanefs_format::BLOCK;
use shuttle::thread;

/// Explores a reader of a snapshot beside two writers, of which one releases nothing and overwrites a block
/// twice.
fn a_snapshot_beside_writers() {
    let medium = Medium::new(8);
    (0..4).for_each(|block| medium.fill(block * BLOCK, block + 1));
    let device = Preserving::new(Box::new(medium.clone()));
    let snapshot = device.snapshot(8 * BLOCK, 8 * BLOCK);
    snapshot.keep(0, 0b1111);
    let (device, snapshot) = (&device, &snapshot);
    thread::scope(|scope| {
        scope.spawn(|| {
            for value in [7, 8u8] {
                device.write_slice(BLOCK, &[value; 2 * BLOCK as usize]).expect("written");
            }
        });
        scope.spawn(|| device.write_slice(3 * BLOCK, &[9; BLOCK as usize]).expect("written"));
        scope.spawn(|| {
            let mut bytes = vec![0; 4 * BLOCK as usize];
            snapshot.read_slice(0, &mut bytes).expect("read");
            for (word, at) in bytes.chunks_exact(8).zip((0..).step_by(8)) {
                let expected = at / BLOCK as usize + 1;
                assert_eq!(word, (expected as u64).to_le_bytes(), "the word at {at}");
            }
        });
    });
    assert_eq!(snapshot.saved_bytes(), 3 * BLOCK);
}

#[test]
fn a_snapshot_has_the_old_content_of_blocks_that_are_overwritten_meanwhile() {
    explore(3000, a_snapshot_beside_writers);
}

#[test]
fn canary_a_device_that_saves_blocks_after_it_has_overwritten_them_is_noticed() {
    finds(SavesAfterWriting, 3000, a_snapshot_beside_writers);
}
