//! Directory entries and the hash-ordered list of them.

use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::vocabulary::error::Outcome;
use lanefs_format::dir::{LEAF_HEADER_UNITS, entry as e, entry_units};
use lanefs_format::{BLOCK, BlockKind, Field, FileKind, HashSeed, UNIT, half_md4};
use lanefs_store::{Fault, View};

const NO_ENTRY: &str = "no directory entry there";

/// A name with its hash.
#[derive(Clone, Copy)]
pub(crate) struct Name<'n> {
    pub(crate) bytes: &'n [u8],
    pub(crate) hash: u32,
}

impl<'n> Name<'n> {
    pub(crate) fn new(seed: HashSeed, bytes: &'n [u8]) -> Self {
        Name { bytes, hash: half_md4(seed, bytes) }
    }
}

/// An entry in its leaf block. The view ends with its units.
#[derive(Clone, Copy)]
pub(crate) struct Dentry<'a> {
    pub(crate) view: View<'a>,
}

impl<'a> Dentry<'a> {
    /// Loads the entry at a byte position.
    #[inline(always)]
    pub(crate) fn at(core: &Core<'a>, at: u64) -> Outcome<Self> {
        let head = Self::head(core, at)?;
        let units = entry_units(usize::from(head.get(e::NAME_LEN)));
        let view = core.store.extend(head, units * UNIT as usize)?;
        Ok(Dentry { view: view.ok_or(Fault::damaged(at, NO_ENTRY))? })
    }

    /// Loads the part before the name of the entry at a byte position.
    #[inline(always)]
    fn head(core: &Core<'a>, at: u64) -> Outcome<View<'a>> {
        let offset = at & (BLOCK - 1);
        if !at.is_multiple_of(UNIT)
            || offset < LEAF_HEADER_UNITS as u64 * UNIT
            || offset + e::SIZE as u64 > BLOCK
        {
            return Err(Fault::damaged(at, NO_ENTRY));
        }
        core.store.part(at, e::SIZE, BlockKind::Leaf)
    }

    /// Returns the inode number and type of the entry at a position, when the entry has this name: as
    /// [`at`](Self::at) and [`is`](Self::is), in fewer steps.
    #[inline(always)]
    pub(crate) fn probe(core: &Core<'a>, at: u64, name: Name<'_>) -> Outcome<Option<(u64, FileKind)>> {
        const TYPE_SHIFT: usize = 8 * (e::KIND.offset - e::HASH.offset);
        const WITHOUT_TYPE: u64 = (1 << TYPE_SHIFT) - 1;
        let head = Self::head(core, at)?;
        // Hash, length and type are in one word.
        let word = head.get(Field::<u64>::at(e::HASH.offset));
        let wanted =
            u64::from(name.hash) | (name.bytes.len() as u64) << (8 * (e::NAME_LEN.offset - e::HASH.offset));
        if word & WITHOUT_TYPE != wanted {
            return Ok(None);
        }
        let whole = core.store.extend(head, entry_units(name.bytes.len()) * UNIT as usize)?;
        if !whole.is_some_and(|entry| entry.equals(e::SIZE, name.bytes)) {
            return Ok(None);
        }
        let kind = FileKind::from_number((word >> TYPE_SHIFT) as u8);
        let kind = kind.ok_or(Fault::damaged(at, "a directory entry of unknown type"))?;
        Ok(Some((head.get(e::INODE), kind)))
    }

    #[inline(always)]
    pub(crate) fn hash(&self) -> u32 {
        self.view.get(e::HASH)
    }

    #[inline(always)]
    pub(crate) fn ino(&self) -> u64 {
        self.view.get(e::INODE)
    }

    pub(crate) fn kind(&self) -> Outcome<FileKind> {
        let kind = FileKind::from_number(self.view.get(e::KIND));
        kind.ok_or(Fault::damaged(self.view.at(), "a directory entry of unknown type"))
    }

    pub(crate) fn name_len(&self) -> usize {
        usize::from(self.view.get(e::NAME_LEN))
    }

    pub(crate) fn is_dummy(&self) -> bool {
        self.name_len() == 0
    }

    pub(crate) fn name(&self) -> Vec<u8> {
        let mut name = vec![0; self.name_len()];
        self.view.copy_to(e::SIZE, &mut name);
        name
    }

    #[inline(always)]
    pub(crate) fn is(&self, name: Name<'_>) -> bool {
        self.hash() == name.hash
            && self.name_len() == name.bytes.len()
            && self.view.equals(e::SIZE, name.bytes)
    }

    pub(crate) fn units(&self) -> usize {
        entry_units(self.name_len())
    }

    pub(crate) fn next(&self) -> u64 {
        self.view.get(e::NEXT)
    }

    /// Number of entries in the region that this dummy entry opens.
    pub(crate) fn count(&self) -> usize {
        usize::from(self.view.get(e::COUNT))
    }
}

/// Loads the dummy entry at `at`.
pub(crate) fn dummy<'a>(core: &Core<'a>, at: u64) -> Outcome<Dentry<'a>> {
    let entry = Dentry::at(core, at)?;
    if !entry.is_dummy() {
        return Err(Fault::damaged(at, "no dummy entry there"));
    }
    Ok(entry)
}

/// Adds to the number of entries of a region.
pub(crate) fn add_count(edit: &mut Edit<'_>, dummy: Dentry<'_>, by: i16) -> Outcome<usize> {
    let count = dummy.view.get(e::COUNT).checked_add_signed(by);
    let count = count.ok_or(Fault::damaged(dummy.view.at(), "a wrong count of entries"))?;
    edit.tx.put(dummy.view, e::COUNT, count);
    Ok(usize::from(count))
}

/// Fills newly allocated units, which no other structure refers to yet.
pub(crate) fn write(edit: &mut Edit<'_>, view: View<'_>, name: Name<'_>, ino: u64, kind: u8) {
    let mut bytes = [0u8; e::SIZE + 256];
    e::INODE.write(&mut bytes, ino);
    e::HASH.write(&mut bytes, name.hash);
    e::NAME_LEN.write(&mut bytes, name.bytes.len() as u8);
    e::KIND.write(&mut bytes, kind);
    bytes[e::SIZE..e::SIZE + name.bytes.len()].copy_from_slice(name.bytes);
    let units = entry_units(name.bytes.len()) * UNIT as usize;
    edit.tx.init(view, 0, &bytes[..units]);
}

/// Links a new entry directly after another one.
pub(crate) fn link_after(edit: &mut Edit<'_>, before: Dentry<'_>, new: View<'_>) -> Outcome<()> {
    let next = before.next();
    edit.tx.set(new, e::NEXT, next);
    edit.tx.set(new, e::PREVIOUS, before.view.at());
    if next != 0 {
        let after = Dentry::at(edit.core, next)?;
        edit.tx.put(after.view, e::PREVIOUS, new.at());
    }
    edit.tx.put(before.view, e::NEXT, new.at());
    Ok(())
}

/// Links an entry that was removed from the list directly after another one.
pub(crate) fn relink_after(edit: &mut Edit<'_>, before: Dentry<'_>, entry: Dentry<'_>) -> Outcome<()> {
    let (at, next) = (entry.view.at(), before.next());
    edit.tx.put(entry.view, e::NEXT, next);
    edit.tx.put(entry.view, e::PREVIOUS, before.view.at());
    if next != 0 {
        let after = Dentry::at(edit.core, next)?;
        edit.tx.put(after.view, e::PREVIOUS, at);
    }
    edit.tx.put(before.view, e::NEXT, at);
    Ok(())
}

/// Removes an entry from the list.
pub(crate) fn unlink(edit: &mut Edit<'_>, entry: Dentry<'_>) -> Outcome<()> {
    let (next, previous) = (entry.next(), entry.view.get(e::PREVIOUS));
    let at = entry.view.at();
    let broken = Fault::damaged(at, "a broken list of directory entries");
    if next != 0 {
        let after = Dentry::at(edit.core, next)?;
        if after.view.get(e::PREVIOUS) != at {
            return Err(broken);
        }
        edit.tx.put(after.view, e::PREVIOUS, previous);
    }
    if previous != 0 {
        let before = Dentry::at(edit.core, previous)?;
        if before.next() != at {
            return Err(broken);
        }
        edit.tx.put(before.view, e::NEXT, next);
    }
    Ok(())
}
