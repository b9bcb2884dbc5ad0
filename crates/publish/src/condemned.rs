//! The list of condemned objects, by which a prune and those who use objects agree.
//!
//! A prune deletes nothing that was not on the list for the grace period. Its list passes through the states
//! of [`ListState`]. Each change of it is a conditional replacement.
//!
//! One who makes a version needed, a publisher or one who sets a tag,
//!
//! 1. reads the list, and then lists the packs that are there;
//! 2. writes the root of the version, which makes the root young;
//! 3. reads the list again ([`secure`]), and then moves the tag.
//!
//! A prune that deletes marks its list first, and then takes a census of what is needed; a young root counts.
//! So either step 3 finds the mark, or the census finds the root. `docs/publication.md` has the argument.

use crate::error::{Error, Result, StoreError};
use crate::format::hash::Hash;
use crate::format::layout::{CONDEMNED_MAGIC, HASH_BYTES, MAX_CONDEMNED, VERSION, condemned};
use crate::format::words::{Bad, CUT_OFF, Input, append, check, get};
use crate::format::{packs, root};
use crate::objects::Objects;
use crate::store::Stamp;
use std::collections::{BTreeSet, HashSet};

/// Folder of the objects of prunes.
pub(crate) const FOLDER: &str = "prune";
/// Name of the list in its folder.
pub(crate) const NAME: &str = "condemned";
/// The list.
pub(crate) const OBJECT: &str = "prune/condemned";

/// The state of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListState {
    /// All that was condemned is deleted, or is kept after all.
    Done,
    /// The grace period runs, or is over.
    Waiting,
    /// The objects are being deleted.
    Deleting,
}

/// The list of condemned objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condemned {
    pub(crate) state: ListState,
    /// Number of the list. Each one is greater than those before.
    pub(crate) sequence: u64,
    /// Time at which the objects were condemned, in seconds since 1970 by the store's clock.
    pub(crate) since: i64,
    /// Grace period in seconds.
    pub(crate) grace: u64,
    /// Random number of the prune that wrote the list: two that write at the same time are told apart.
    pub(crate) writer: [u8; 16],
    pub(crate) versions: BTreeSet<Hash>,
    pub(crate) packs: BTreeSet<Hash>,
}

impl Condemned {
    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.versions.len() + self.packs.len()
    }

    /// Time from which on the objects may be deleted, in seconds since 1970 by the store's clock.
    pub(crate) fn due(&self) -> i64 {
        self.since.saturating_add_unsigned(self.grace)
    }

    /// Parses a list.
    pub(crate) fn parse(bytes: &[u8]) -> std::result::Result<Self, Bad> {
        let mut input = Input(bytes);
        let head = input.take(condemned::SIZE)?;
        check(head, CONDEMNED_MAGIC, "is not a list of condemned objects")?;
        if Hash::read(condemned::CHECK, head) != Some(check_of(head, input.0)) {
            return Err("is damaged: its hash differs");
        }
        let state = match get(condemned::STATE, head)? {
            0 => ListState::Done,
            1 => ListState::Waiting,
            2 => ListState::Deleting,
            _ => return Err("has an unknown state"),
        };
        let versions = hashes(&mut input, get(condemned::VERSIONS, head)?)?;
        let packs = hashes(&mut input, get(condemned::PACKS, head)?)?;
        input.end()?;
        Ok(Condemned {
            state,
            sequence: get(condemned::SEQUENCE, head)?,
            since: get(condemned::SINCE, head)?,
            grace: get(condemned::GRACE, head)?,
            writer: head[condemned::WRITER.offset..].first_chunk().copied().ok_or(CUT_OFF)?,
            versions,
            packs,
        })
    }

    /// Returns the bytes of the list.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        append(&mut bytes, condemned::SIZE, |head| {
            condemned::MAGIC.write(head, CONDEMNED_MAGIC);
            condemned::VERSION.write(head, VERSION);
            condemned::STATE.write(head, self.state as u32);
            condemned::SEQUENCE.write(head, self.sequence);
            condemned::SINCE.write(head, self.since);
            condemned::GRACE.write(head, self.grace);
            head[condemned::WRITER.offset..][..16].copy_from_slice(&self.writer);
            condemned::VERSIONS.write(head, self.versions.len() as u32);
            condemned::PACKS.write(head, self.packs.len() as u32);
        });
        self.versions.iter().chain(&self.packs).for_each(|hash| bytes.extend_from_slice(&hash.0));
        let (head, rest) = bytes.split_at_mut(condemned::SIZE);
        check_of(head, rest).write(condemned::CHECK, head);
        bytes
    }
}

fn check_of(head: &[u8], rest: &[u8]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&head[..condemned::SIZE - HASH_BYTES]).update(rest);
    Hash(*hasher.finalize().as_bytes())
}

fn hashes(input: &mut Input<'_>, count: u32) -> std::result::Result<BTreeSet<Hash>, Bad> {
    let parse = |bytes: &[u8]| bytes.try_into().map(Hash).map_err(|_| CUT_OFF);
    input.list(count, HASH_BYTES)?.map(parse).collect()
}

/// Reads the list; `None` in a store that was never pruned.
pub(crate) fn read(objects: &Objects) -> Result<Option<(Condemned, Stamp)>> {
    let most = (condemned::SIZE + MAX_CONDEMNED * HASH_BYTES) as u64;
    let Some((bytes, stamp)) = objects.read_small(OBJECT, most)? else { return Ok(None) };
    let list = Condemned::parse(&bytes).map_err(|why| objects.damaged(OBJECT, why))?;
    Ok(Some((list, stamp)))
}

/// Identity of a list and its state. Numbers only rise, so a list that was seen does not come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(Option<(u64, ListState)>);

impl Seen {
    /// The identity of this list.
    pub(crate) fn of(list: Option<&Condemned>) -> Self {
        Seen(list.map(|list| (list.sequence, list.state)))
    }
}

/// Takes a version and its packs off a list that waits. So they have the whole grace period again when nobody
/// needs them any more. Returns the identity of the list then.
///
/// # Errors
/// [`Error::Condemned`] where a prune changes the list; the store's.
pub(crate) fn spare(objects: &Objects, version: &Hash, packs: &HashSet<Hash>) -> Result<Seen> {
    let Some((mut list, stamp)) = read(objects)? else { return Ok(Seen::of(None)) };
    let before = list.len();
    if list.state == ListState::Waiting {
        list.versions.remove(version);
        list.packs.retain(|pack| !packs.contains(pack));
    }
    if list.len() < before {
        list.sequence = list.sequence.saturating_add(1);
        objects.store.replace(OBJECT, Some(&stamp), list.encode()).map_err(|error| match error {
            StoreError::Changed => Error::Condemned(objects.store.name()),
            error => objects.failed(OBJECT, error),
        })?;
    }
    Ok(Seen::of(Some(&list)))
}

/// Writes a root under its hash, the version, and makes sure that no prune has taken or takes what the
/// version needs. `seen` is the list before the packs of the store were listed. `packs` leaves out those that
/// a tag needs.
///
/// # Errors
/// [`Error::Condemned`]; the store's.
pub(crate) fn secure(objects: &Objects, seen: Seen, root: Vec<u8>, packs: &HashSet<Hash>) -> Result<()> {
    // By the bytes: a good root is never replaced by other bytes.
    let version = Hash::of(&root);
    let object = root::object(&version);
    // The first look only spares the store a root without its packs.
    check_packs(objects, seen, None, packs)?;
    objects.store.write(&object, root).map_err(|error| objects.failed(&object, error))?;
    check_packs(objects, seen, Some(&version), packs)
}

/// Writes the root of a join, as [`secure`] does that of a volume. The roots of its `shards` were written
/// again after the list was `seen`: so they are young, and what they name is needed, for each census since.
///
/// # Errors
/// [`Error::Condemned`], also where the list has changed: then nobody knows what of the shards was deleted;
/// the store's.
pub(crate) fn secure_join(
    objects: &Objects,
    seen: Seen,
    root: Vec<u8>,
    shards: &BTreeSet<Hash>,
) -> Result<()> {
    let version = Hash::of(&root);
    let object = root::object(&version);
    objects.store.write(&object, root).map_err(|error| objects.failed(&object, error))?;
    let list = read(objects)?.map(|(list, _)| list);
    let is_taken = list.as_ref().is_some_and(|list| {
        list.state == ListState::Deleting
            && (list.versions.contains(&version) || !list.versions.is_disjoint(shards))
    });
    match !is_taken && Seen::of(list.as_ref()) == seen {
        true => Ok(()),
        false => Err(Error::Condemned(objects.store.name())),
    }
}

fn check_packs(objects: &Objects, seen: Seen, version: Option<&Hash>, packs: &HashSet<Hash>) -> Result<()> {
    let list = read(objects)?.map(|(list, _)| list);
    let refused = || Err(Error::Condemned(objects.store.name()));
    if let Some(list) = list.as_ref().filter(|list| list.state == ListState::Deleting) {
        let has_version = version.is_some_and(|version| list.versions.contains(version));
        if has_version || packs.iter().any(|pack| list.packs.contains(pack)) {
            return refused();
        }
    }
    // While the list is the same one, nothing was deleted but what it condemns and marks.
    if Seen::of(list.as_ref()) == seen {
        return Ok(());
    }
    let there = |folder: &str| -> Result<HashSet<Hash>> {
        Ok(objects.list(folder)?.iter().filter_map(|object| Hash::parse(&object.name)).collect())
    };
    let mut is_there = there(packs::FOLDER)?.is_superset(packs);
    if let Some(version) = version {
        is_there &= there(root::FOLDER)?.contains(version);
    }
    if is_there { Ok(()) } else { refused() }
}
