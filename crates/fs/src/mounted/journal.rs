//! The journal of a volume that is being opened: used as it is, or found damaged.

use crate::vocabulary::error::{Error, Outcome};
use crate::vocabulary::options::Access;
use lanefs_format::superblock::Superblock;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK, CHUNKS_PER_GROUP, GROUP, MAX_JOURNAL, SUPERBLOCK_COPY,
    group as g,
};
use lanefs_store::{Fault, JournalContent, Store};

/// The damage of a journal with which a volume is open all the same, for reading or for repair.
#[derive(Clone, Debug)]
pub(crate) struct JournalDamage {
    /// Byte position.
    pub(crate) at: u64,
    /// The damage, and the loss, for people.
    pub(crate) text: String,
}

impl JournalDamage {
    /// Describes a journal that cannot be used. `clean` says whether all commits are in place.
    pub(crate) fn new(store: &Store, superblock: &Superblock, clean: bool, fault: Fault) -> Self {
        let (at, why) = match fault {
            Fault::Damaged { at, why } => (at, why.to_owned()),
            fault => (superblock.journal, Error::from(fault).to_string()),
        };
        let last = match clean {
            true => 0,
            false => store.last_in_journal(superblock.journal, superblock.journal_blocks),
        };
        let loss = match (clean, last) {
            (true, _) => "all commits are in place, so nothing is lost".to_owned(),
            (false, 0) => "changes since the last checkpoint may be lost".to_owned(),
            (false, last) => {
                format!("changes since the last checkpoint are lost, up to commit {last} at most")
            }
        };
        JournalDamage { at, text: format!("{why}; {loss}") }
    }
}

/// Uses the journal that the superblock names; `clean` says whether the volume was closed. A volume that is
/// opened for reading or for repair does without a damaged journal, whose damage is returned.
///
/// # Errors
/// The device's; [`Fault::Damaged`] where the volume is opened for writing.
pub(crate) fn open(
    store: &Store,
    superblock: &Superblock,
    access: Access,
    clean: bool,
) -> Outcome<Option<JournalDamage>> {
    // The log of a closed volume counts for nothing, so a reader needs no journal. After a crash it may have
    // commits, and recovery writes.
    if superblock.journal_blocks == 0 {
        return Ok(None);
    }
    if access == Access::Read && clean {
        // One of an impossible size says nothing about its blocks.
        if superblock.journal_blocks <= MAX_JOURNAL {
            store.set_idle_journal(superblock.journal, superblock.journal_blocks);
        }
        return Ok(None);
    }
    let content = if clean { JournalContent::Remains } else { JournalContent::Log };
    let used = check_position(store, superblock)
        .and_then(|()| store.use_journal(superblock.journal, superblock.journal_blocks, content));
    match used {
        Err(fault @ (Fault::Damaged { .. } | Fault::Io { doing: "reading", .. }))
            if access != Access::Write =>
        {
            Ok(Some(JournalDamage::new(store, superblock, clean, fault)))
        }
        used => used.map(|_| None),
    }
}

/// Checks that the journal has a possible size, and does not lie on other structures.
///
/// # Errors
/// [`Fault::Damaged`]; the device's.
pub(crate) fn check_position(store: &Store, superblock: &Superblock) -> Outcome<()> {
    let (first, count) = (superblock.journal / BLOCK, superblock.journal_blocks);
    if count > MAX_JOURNAL {
        return Err(Fault::damaged(superblock.journal, "a journal that is larger than any can be"));
    }
    let overlaps = |(at, blocks): (u64, u64)| at < first + count && at + blocks > first;
    let damaged = Fault::damaged(superblock.journal, "a journal that lies on other structures");
    let tables = (superblock.groups / BLOCK, superblock.group_count);
    if [(0, 1), (SUPERBLOCK_COPY / BLOCK, 1), tables].into_iter().any(overlaps) {
        return Err(damaged);
    }
    // A group block that does not verify says nothing.
    let sums = superblock.sums();
    let mut block = [0; BLOCK as usize];
    let last = (first + count).div_ceil(BLOCKS_PER_CHUNK * CHUNKS_PER_GROUP);
    for number in superblock.journal / GROUP..last.min(superblock.group_count) {
        let at = superblock.groups + number * BLOCK;
        store.read_raw(at, &mut block)?;
        if !sums.verify(BlockKind::Group, at, &block, 0, &[]) || g::OWNER.read(&block) != Some(number) {
            continue;
        }
        let mask = g::METADATA.read(&block).unwrap_or(0);
        let chunks = (0..CHUNKS_PER_GROUP).filter(|chunk| mask >> chunk & 1 != 0);
        let positions = chunks.map(|chunk| (number * GROUP + chunk * CHUNK) / BLOCK);
        if positions.map(|at| (at, BLOCKS_PER_CHUNK)).any(overlaps) {
            return Err(damaged);
        }
    }
    Ok(())
}
