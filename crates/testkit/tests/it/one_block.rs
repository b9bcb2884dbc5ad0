//! One bad metadata block costs what it described, and no more: the volume still opens for reading, no answer
//! is wrong, and a repair restores everything that other blocks tell.

use lanefs::format::{BLOCK, BlockKind, CHUNK, JOURNAL_HEADERS};
use lanefs::{
    Access, Caller, Code, Error, Ino, OpenOptions, Resolution, ResolveOptions, Volume, WrongBlock,
    WrongContent,
};
use lanefs_testkit::mutate::{Editor, MetadataBlock, MutationBase, bases};
use lanefs_testkit::naive::{Entry, Naive, Tree};
use lanefs_testkit::seeded::Seeded;
use std::collections::BTreeSet;

const OWNER: Caller = Caller::OWNER;

/// The parts of a file that a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// The inode, found by its path.
    Inode,
    /// The bytes of a file, the target of a link, or the list of a directory.
    Content,
    Xattrs,
}

type Losses = BTreeSet<(Vec<u8>, Part)>;

/// How much may differ from the sound volume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// A block is bad: errors that say so.
    Damaged,
    /// A repair has removed what was lost.
    Repaired,
}

impl Measure {
    /// Takes a result. `None` is a loss.
    fn take<T>(self, path: &[u8], result: lanefs::Result<T>) -> Result<Option<T>, String> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Error::Damaged { .. } | Error::WrongData { .. }) if self == Measure::Damaged => Ok(None),
            Err(error) if self == Measure::Damaged => Err(format!("{}: {error}", path.escape_ascii())),
            Err(_) => Ok(None),
        }
    }
}

/// Everything of a sound tree that a volume no longer tells. A wrong answer is an error.
fn losses(volume: &Volume, tree: &Tree, measure: Measure) -> Result<Losses, String> {
    let mut losses = Losses::new();
    let options = ResolveOptions { follow: false, attributes: true, ..ResolveOptions::default() };
    let paths: Vec<&[u8]> =
        tree.entries.keys().map(|path| if path.is_empty() { b"/" } else { &path[..] }).collect();
    let answers = volume.resolve_batch(&options, &paths).map_err(|error| format!("no answers: {error}"))?;
    for ((path, entry), answer) in tree.entries.iter().zip(answers) {
        let Some(ino) = inode(answer, path, entry, measure)? else {
            losses.insert((path.clone(), Part::Inode));
            continue;
        };
        if !has_content(volume, tree, path, entry, ino, measure)? {
            losses.insert((path.clone(), Part::Content));
        }
        let xattrs = measure.take(path, xattrs(volume, ino))?;
        let sound: Vec<_> = entry.attributes.clone().into_iter().collect();
        match xattrs {
            // The tree has an inode's attributes under its first name only.
            Some(xattrs) if xattrs == sound || sound.is_empty() => {}
            Some(_) if measure == Measure::Damaged => {
                return Err(format!("{}: wrong attributes", path.escape_ascii()));
            }
            _ => drop(losses.insert((path.clone(), Part::Xattrs))),
        }
    }
    Ok(losses)
}

fn inode(answer: Resolution, path: &[u8], entry: &Entry, measure: Measure) -> Result<Option<Ino>, String> {
    match (answer.code, answer.attr, measure) {
        (Code::Success, Some(attr), _) if answer.ino == Some(Ino(entry.ino)) => {
            let same = (attr.mode(), attr.links, attr.uid, attr.gid)
                == (entry.mode, entry.links, entry.owner.0, entry.owner.1);
            if same || measure == Measure::Repaired {
                Ok(Some(attr.ino))
            } else {
                Err(format!("{}: {attr:?}", path.escape_ascii()))
            }
        }
        (Code::InvariantViolated, ..) | (_, _, Measure::Repaired) => Ok(None),
        (code, ..) => Err(format!("{}: {code:?}", path.escape_ascii())),
    }
}

fn has_content(
    volume: &Volume,
    tree: &Tree,
    path: &[u8],
    entry: &Entry,
    ino: Ino,
    measure: Measure,
) -> Result<bool, String> {
    const KIND: u16 = 0o170_000;
    let same = match entry.mode & KIND {
        0o040_000 => return lists(volume, tree, path, ino, measure),
        0o120_000 => {
            let sound = entry.content.iter().flat_map(|(_, bytes)| bytes.clone()).collect::<Vec<u8>>();
            measure.take(path, volume.readlink(ino))?.map(|target| target == sound)
        }
        _ => {
            let mut same = Some(true);
            for (offset, sound) in &entry.content {
                let mut bytes = vec![0; sound.len()];
                let read = measure.take(path, volume.read(&OWNER, ino, *offset, &mut bytes))?;
                same = same.and_then(|same| Some(same && read? == sound.len() && bytes == *sound));
            }
            same
        }
    };
    match same {
        Some(false) if measure == Measure::Damaged => Err(format!("{}: wrong content", path.escape_ascii())),
        same => Ok(same == Some(true)),
    }
}

/// Compares the list of a directory. After a repair it may have names more (lost+found), and lack those of
/// inodes that are lost.
fn lists(volume: &Volume, tree: &Tree, path: &[u8], ino: Ino, measure: Measure) -> Result<bool, String> {
    let Some(found) = measure.take(path, volume.readdir(&OWNER, ino, 0, usize::MAX))? else {
        return Ok(false);
    };
    let found: BTreeSet<(Vec<u8>, u64)> = found.into_iter().map(|entry| (entry.name, entry.ino.0)).collect();
    let prefix = [path, b"/"].concat();
    let below = tree.entries.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
    let sound: BTreeSet<(Vec<u8>, u64)> = below
        .filter(|(path, _)| path.len() > prefix.len() && !path[prefix.len()..].contains(&b'/'))
        .map(|(path, entry)| (path[prefix.len()..].to_vec(), entry.ino))
        .collect();
    match measure {
        Measure::Damaged if found == sound => Ok(true),
        Measure::Damaged => Err(format!("{}: a wrong list", path.escape_ascii())),
        Measure::Repaired => Ok(true),
    }
}

fn xattrs(volume: &Volume, ino: Ino) -> lanefs::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut all = Vec::new();
    for name in volume.listxattr(ino)? {
        let value = volume.getxattr(&OWNER, ino, &name)?;
        all.push((name, value));
    }
    all.sort();
    Ok(all)
}

/// Tells whether a bad block may cost a part of what a path leads to.
fn may_cost(base: &MutationBase, block: MetadataBlock, tree: &Tree, path: &[u8], part: Part) -> bool {
    let bytes = base.image.block(block.at);
    let owner = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
    // The inodes on the way, that of the path last.
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
    let ends: Vec<usize> = ends.chain([path.len()]).collect();
    let way: Vec<u64> = ends.iter().map(|end| tree.entries[&path[..*end]].ino).collect();
    let (own, above) = (way[way.len() - 1], &way[..way.len() - 1]);
    let inode_bytes = base.image.superblock.inode_size.bytes();
    let is_in_block = |ino: &u64| ino * inode_bytes / BLOCK * BLOCK == block.at;
    let chunk_has_pointers_of = |ino: u64| {
        let of_chunk = base.image.metadata.iter().filter(|other| other.at / CHUNK == block.at / CHUNK);
        of_chunk.into_iter().any(|other| other.kind == BlockKind::Pointers && is_owned(base, *other, ino))
    };
    match block.kind {
        BlockKind::Superblock | BlockKind::Group | BlockKind::Journal => false,
        BlockKind::Inodes => way.iter().any(is_in_block),
        // Entries of the directory, and its list.
        BlockKind::Leaf => above.contains(&owner) || own == owner && part == Part::Content,
        // Ways to entries of the directory.
        BlockKind::Tree | BlockKind::Index => above.contains(&owner),
        // Checksums of pointer blocks.
        BlockKind::ChunkHeader => part == Part::Content && chunk_has_pointers_of(own),
        BlockKind::Pointers => part == Part::Content && is_owned(base, block, own),
        BlockKind::Xattr => part == Part::Xattrs && own == owner,
        // Checksums of file data.
        BlockKind::Sums => part == Part::Content,
    }
}

fn is_owned(base: &MutationBase, block: MetadataBlock, ino: u64) -> bool {
    let at = (block.entry % BLOCK) as usize + 8;
    let table = base.image.block(block.entry / BLOCK * BLOCK);
    u64::from_le_bytes(table[at..at + 8].try_into().expect("eight bytes")) == ino
}

/// True for a block of the log of a journal that was closed: it means nothing.
fn is_old_log(base: &MutationBase, block: MetadataBlock) -> bool {
    let superblock = &base.image.superblock;
    let log =
        superblock.journal + JOURNAL_HEADERS * BLOCK..superblock.journal + superblock.journal_blocks * BLOCK;
    log.contains(&block.at)
}

/// The kinds of which a repair restores everything: they repeat what other blocks tell.
fn is_repeated(kind: BlockKind) -> bool {
    use BlockKind::*;
    matches!(kind, Superblock | Group | ChunkHeader | Journal | Tree | Index | Sums)
}

fn open(editor: &Editor<'_>, access: Access) -> lanefs::Result<Volume> {
    let device = Box::new(editor.clone().into_device(&mut Seeded::new(0)));
    Volume::open_device(device, OpenOptions { access, ..OpenOptions::default() })
}

fn try_block(base: &MutationBase, tree: &Tree, block: MetadataBlock) -> Result<(), String> {
    let mut editor = Editor::new(&base.image);
    // Half of the bytes are others.
    editor.edit(block.at).iter_mut().step_by(2).for_each(|byte| *byte = !*byte);
    let volume = open(&editor, Access::Read).map_err(|error| format!("it does not open: {error}"))?;
    let lost = losses(&volume, tree, Measure::Damaged)?;
    let scrubbed = volume.scrub(0, &mut |_, _| true).map_err(|error| format!("no scrub: {error}"))?;
    drop(volume);
    let wrong = WrongBlock { at: block.at, content: WrongContent::Metadata(block.kind) };
    if !scrubbed.wrong.contains(&wrong) && !is_old_log(base, block) {
        return Err(format!("a scrub does not find it, but {:?}", scrubbed.wrong));
    }
    for (path, part) in &lost {
        if !may_cost(base, block, tree, path, *part) {
            return Err(format!("it costs the {part:?} of {}", path.escape_ascii()));
        }
    }
    let volume = open(&editor, Access::Repair).map_err(|error| format!("no repair: {error}"))?;
    let report = volume.check(true, &|_, _| {}).map_err(|error| format!("no repair: {error}"))?;
    if let Some(left) = report.findings.iter().find(|finding| !finding.repaired) {
        return Err(format!("left by the repair: {left:?}"));
    }
    let report = volume.check(false, &|_, _| {}).map_err(|error| format!("no check: {error}"))?;
    if let Some(finding) = report.findings.first() {
        return Err(format!("found after the repair: {finding:?}"));
    }
    for (path, part) in losses(&volume, tree, Measure::Repaired)? {
        if is_repeated(block.kind) || !may_cost(base, block, tree, &path, part) {
            return Err(format!("the repair costs the {part:?} of {}", path.escape_ascii()));
        }
    }
    Ok(())
}

/// At most a number of blocks of each kind, evenly spread; fewer where the tree is large.
fn some_of_each_kind(base: &MutationBase, tree: &Tree) -> Vec<MetadataBlock> {
    let most: usize = if tree.entries.len() > 5000 { 2 } else { 12 };
    let mut chosen = Vec::new();
    for kind in BlockKind::ALL {
        let all: Vec<_> = base.image.metadata.iter().filter(|block| block.kind == kind).collect();
        chosen.extend(all.iter().step_by(all.len().div_ceil(most).max(1)).map(|block| **block));
    }
    chosen
}

#[test]
fn one_bad_block_costs_what_it_described_and_no_more() {
    let (mut failures, mut tried) = (Vec::new(), BTreeSet::new());
    // (A journal that is needed describes all changes that only it has; the crash tests try those.)
    let bases = bases().expect("sound volumes can be made");
    for base in bases.iter().filter(|base| base.name != "crashed-256") {
        let bytes = base.image.bytes();
        let tree = Naive::open(&&bytes[..]).and_then(|reader| reader.tree()).expect("a sound volume");
        for block in some_of_each_kind(base, &tree) {
            tried.insert(block.kind as u8);
            if let Err(text) = try_block(base, &tree, block) {
                failures.push(format!("{}, {:?} at {:#x}: {text}", base.name, block.kind, block.at));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(tried, BlockKind::ALL.map(|kind| kind as u8).into(), "every kind of block was tried");
}
