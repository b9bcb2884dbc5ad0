//! The versions and tags of a store.

use crate::condemned;
use crate::error::{Error, Result, StoreError};
use crate::format::hash::Hash;
use crate::format::join::Join;
use crate::format::layout::MAX_ROOT_BYTES;
use crate::format::packs;
use crate::format::page::Page;
use crate::format::root::{self, Named, Tag};
use crate::format::words::Bad;
use crate::objects::Objects;
use crate::publication::{ReadOptions, Reference, TAGS, read_tag, tag_object};
use crate::reading::fetch::Fetcher;
use crate::reading::manifest::Manifest;
use crate::reading::threads;
use crate::store::{Listed, Stamp, Store};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// A version in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInfo {
    /// The version.
    pub version: Hash,
    /// Time at which its root was written last, in seconds since 1970 by the store's clock.
    pub written: i64,
}

/// Lists the versions of a store, the newest first.
///
/// # Errors
/// The store's; `Unsupported` where the store cannot list.
pub fn versions(store: &Arc<dyn Store>) -> Result<Vec<VersionInfo>> {
    let objects = Objects { store: Arc::clone(store) };
    let listed = objects.list(root::FOLDER)?.into_iter();
    let info = |name: &str, written| Some(VersionInfo { version: Hash::parse(name)?, written });
    let mut versions: Vec<_> = listed.filter_map(|object| info(&object.name, object.modified)).collect();
    versions.sort_by_key(|info| (-info.written, info.version));
    Ok(versions)
}

/// Lists the tags of a store, by name. A damaged tag is an error in its place.
///
/// # Errors
/// The store's.
pub fn tags(store: &Arc<dyn Store>) -> Result<Vec<(String, Result<Tag>)>> {
    read_tags(&Objects { store: Arc::clone(store) })
}

/// Reads all tags, by name.
pub(crate) fn read_tags(objects: &Objects) -> Result<Vec<(String, Result<Tag>)>> {
    let mut tags = Vec::new();
    for object in objects.list_all(TAGS)? {
        // Other files in the folder are not tags.
        let Ok(Reference::Tag(name)) = Reference::parse(&object.name) else { continue };
        let read = match not_a_tag(&object) {
            Some(why) => Err(objects.damaged(&tag_object(&name), why)),
            None => read_tag(objects, &name),
        };
        match read {
            Ok(Some((tag, _))) => tags.push((name, Ok(tag))),
            // One that is deleted meanwhile is none.
            Ok(None) => {}
            Err(error) if error.is_broken_object() => tags.push((name, Err(error))),
            Err(error) => return Err(error),
        }
    }
    tags.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(tags)
}

/// Roots of shards that are read and written at the same time.
const REQUESTS: usize = 32;

/// The reason why an entry of the folder is not read as a tag. It has a tag's name, so somebody relies on it.
fn not_a_tag(entry: &Listed) -> Option<Bad> {
    if !entry.is_object {
        return Some("is not a file");
    }
    (entry.bytes > Tag::MAX_BYTES as u64).then_some("is too large for a tag")
}

/// Makes a tag name the version of `from`. Returns the version that it named before. One that names another
/// version is replaced with `force` only.
///
/// # Errors
/// [`Error::TagExists`]; [`Error::OtherVolume`]; [`Error::Condemned`]; [`Error::TagMoved`]; a version with
/// missing packs; the store's. The tag is then as it was.
pub fn set_tag(
    store: &Arc<dyn Store>,
    name: &str,
    from: &Reference,
    now: i64,
    force: bool,
) -> Result<Option<Hash>> {
    let objects = Objects { store: Arc::clone(store) };
    let shown = || format!("{}#{name}", store.name());
    let version = match from {
        Reference::Version(version) => *version,
        Reference::Tag(from) => {
            let missing = || Error::NoTag(format!("{}#{from}", store.name()));
            read_tag(&objects, from)?.ok_or_else(missing)?.0.version
        }
    };
    let found = read_tag(&objects, name)?;
    let before = found.as_ref().map(|(tag, _)| tag.version);
    if before == Some(version) {
        return Ok(before);
    }
    if before.is_some() && !force {
        return Err(Error::TagExists(shown()));
    }
    let fetcher = Fetcher::new(objects.clone(), None, ReadOptions::MEMORY_BYTES);
    let (manifest, root, _) =
        Manifest::open_root(&fetcher, Named { version, most: MAX_ROOT_BYTES, root: None })?;
    let facts = manifest.root.facts;
    if let Some((present, _)) = &found
        && present.uuid != facts.uuid
    {
        let there = uuid::Uuid::from_bytes(present.uuid).to_string();
        return Err(Error::OtherVolume { tag: shown(), there });
    }
    let tag = Tag { version, root_bytes: root.len() as u32, uuid: facts.uuid, published: now };
    let content = tag.encode(&root);
    if let Some(join) = &manifest.root.join {
        let seen = condemned::spare(&objects, &version, &HashSet::new())?;
        let renewed = renew(&fetcher, join, None, &|_, _| true)?;
        condemned::secure_join(&objects, seen, root, &renewed)?;
        replace_tag(&objects, name, &tag, content, found.map(|(_, stamp)| stamp))?;
        return Ok(before);
    }
    let mut packs = HashSet::new();
    add_packs(&fetcher, &manifest, &mut packs, &|| true)?;
    // As a publisher does: the list first, then what is there.
    let seen = condemned::spare(&objects, &version, &packs)?;
    let listed = objects.list(packs::FOLDER)?;
    let there: HashSet<Hash> = listed.iter().filter_map(|object| Hash::parse(&object.name)).collect();
    if let Some(missing) = packs.iter().find(|pack| !there.contains(pack)) {
        return Err(objects.failed(&packs::object(missing), StoreError::Missing));
    }
    condemned::secure(&objects, seen, root, &packs)?;
    replace_tag(&objects, name, &tag, content, found.map(|(_, stamp)| stamp))?;
    Ok(before)
}

/// Writes the roots of all shards of a join again, but of those that `needed` has: then each census counts
/// what they name as needed. Returns their versions.
pub(crate) fn renew(
    fetcher: &Fetcher,
    join: &Join,
    needed: Option<&Join>,
    progress: &dyn Fn(u64, u64) -> bool,
) -> Result<BTreeSet<Hash>> {
    let versions = |join: &Join| join.shards.iter().map(|shard| shard.version).collect::<BTreeSet<Hash>>();
    let mut renewed = versions(join);
    for version in needed.into_iter().flat_map(versions) {
        renewed.remove(&version);
    }
    let all: Vec<Hash> = renewed.iter().copied().collect();
    for (done, part) in all.chunks(REQUESTS).enumerate() {
        if !progress((done * REQUESTS) as u64, all.len() as u64) {
            return Err(Error::Interrupted);
        }
        let objects = &fetcher.objects;
        let done = threads::map(REQUESTS, part.to_vec(), |version| {
            let object = root::object(&version);
            let bytes = objects.read_named(&object, &version, MAX_ROOT_BYTES as u64)?;
            objects.store.write(&object, bytes).map_err(|error| objects.failed(&object, error))
        });
        done.into_iter().collect::<Result<()>>()?;
    }
    Ok(renewed)
}

/// Replaces a tag that is still the one that was read. `content` is its encoding.
pub(crate) fn replace_tag(
    objects: &Objects,
    name: &str,
    tag: &Tag,
    content: Vec<u8>,
    stamp: Option<Stamp>,
) -> Result<()> {
    match objects.store.replace(&tag_object(name), stamp.as_ref(), content) {
        Ok(()) => Ok(()),
        // The answer to an attempt that succeeded may have been lost: then another attempt finds the tag
        // changed, or there was none.
        Err(StoreError::Changed | StoreError::Failed(_)) if is_tag(objects, name, tag) => Ok(()),
        Err(StoreError::Changed) => Err(Error::TagMoved(format!("{}#{name}", objects.store.name()))),
        Err(error) => Err(objects.failed(&tag_object(name), error)),
    }
}

fn is_tag(objects: &Objects, name: &str, tag: &Tag) -> bool {
    matches!(read_tag(objects, name), Ok(Some((present, _))) if present == *tag)
}

/// Deletes a tag, and returns the version that it named; `None` for a damaged one. The version stays until it
/// is pruned.
///
/// # Errors
/// [`Error::NoTag`]; the store's.
pub fn delete_tag(store: &Arc<dyn Store>, name: &str) -> Result<Option<Hash>> {
    let objects = Objects { store: Arc::clone(store) };
    let missing = || Error::NoTag(format!("{}#{name}", store.name()));
    let is_damaged = |error: &Error| {
        let is_it = |object: &Listed| object.name == name && not_a_tag(object).is_some();
        error.is_broken_object() || objects.list_all(TAGS).is_ok_and(|tags| tags.iter().any(is_it))
    };
    let before = match read_tag(&objects, name) {
        Ok(found) => Some(found.ok_or_else(missing)?.0.version),
        Err(error) if is_damaged(&error) => None,
        Err(error) => return Err(error),
    };
    let object = tag_object(name);
    store.delete(&object).map_err(|error| objects.failed(&object, error))?;
    Ok(before)
}

/// Adds the packs that a version names. After an error those of the pages before it are there. `goes_on` is
/// asked for each page.
pub(crate) fn add_packs(
    fetcher: &Fetcher,
    manifest: &Manifest,
    packs: &mut HashSet<Hash>,
    goes_on: &dyn Fn() -> bool,
) -> Result<()> {
    packs.extend(manifest.root.pages.iter().map(|page| page.stored.pack.name));
    manifest.walk(fetcher, |_, _, parsed| {
        if !goes_on() {
            return Err(Error::Interrupted);
        }
        match parsed {
            Page::Leaf(pieces) => packs.extend(pieces.iter().map(|piece| piece.stored.pack.name)),
            Page::Inner(pages) => packs.extend(pages.iter().map(|page| page.stored.pack.name)),
        }
        Ok(())
    })
}
