//! Probes of the kernels that resolve paths and fill the directory cache.

use super::known::{KnownPaths, wrong};
use crate::error::Result;
use crate::kernels::context::DeviceContext;
use crate::kernels::{COLUMNS, FILL, LEARN, LOOKUP, PACK, WALK, WARM};
use crate::lookups::mirrored::{MirrorOptions, Mirrored};
use crate::shared::column_layout::ColumnLayout;
use crate::shared::layout::CACHED_NAME_BYTES;
use crate::shared::query::PathResult;
use crate::twin;
use crate::twin::host::HostCopy;
use lanefs::format::{Code, FileKind};
use lanefs::{Caller, Column, ColumnSet, NameSet, RenameMode, ResolveOptions, SetAttr, Volume, XattrMode};

/// Entries of a thousand that may be missing in a cache that has room for all: some lose a race for the slots
/// of all of their homes. (A software device loses hardly any; how many a GPU loses, on which thousands of
/// names come at the same time, was not measured since there are eight homes. More cost time, and no answer.)
const MISSING: usize = 100;

/// An access control list: owner rwx, user 9 ---, group --x, mask --x, others --x.
const LIST: [u8; 44] = [
    2, 0, 0, 0, //
    1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, //
    2, 0, 0, 0, 9, 0, 0, 0, //
    4, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, //
    16, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, //
    32, 0, 1, 0, 0xff, 0xff, 0xff, 0xff,
];

pub(crate) fn walk(context: &DeviceContext, volume: &Volume, known: &KnownPaths) -> Result<()> {
    let mirrored = Mirrored::new(context, volume, &MirrorOptions { cache: 0.0, ..MirrorOptions::default() })?;
    known.ask(&mirrored, WALK)?;
    // Permission to search a directory: its owner, its group, others.
    let caller = Caller::OWNER;
    for (i, perm) in [0o100, 0o010, 0o001].into_iter().enumerate() {
        let name = format!("for {perm:o}");
        let made = volume.mkdir(&caller, volume.root(), name.as_bytes(), perm)?.ino;
        volume.create_file(&caller, made, b"file", 0)?;
        let owned = SetAttr { uid: Some(7), gid: Some(8), ..SetAttr::default() };
        volume.setattr(&caller, made, &owned)?;
        for (class, user) in
            [(0, (7, 8, [0, 0])), (1, (9, 8, [0, 0])), (1, (9, 9, [5, 8])), (2, (9, 9, [5, 7]))]
        {
            let caller = Caller::user(user.0, user.1, &user.2);
            let query = mirrored.query(&ResolveOptions { caller, ..ResolveOptions::default() });
            let found = mirrored.lookup_directly(&query, &[format!("/{name}/file")])?.0;
            let expected = if class == i { Code::Success } else { Code::AccessDenied };
            if found.iter().any(|found| found.code != expected) {
                return wrong(WALK, format!("{user:?} in a directory {name}: {found:?}"));
            }
        }
        volume.remove_all_with(&caller, volume.root(), name.as_bytes(), |_, done| done)?;
    }
    let made = volume.mkdir(&caller, volume.root(), b"listed", 0o711)?.ino;
    volume.create_file(&caller, made, b"file", 0)?;
    volume.setxattr(&caller, made, b"system.posix_acl_access", &LIST, XattrMode::Set)?;
    for (caller, expected) in
        [(Caller::user(9, 9, &[]), Code::NotResident), (Caller::user(0, 0, &[]), Code::Success)]
    {
        let query = mirrored.query(&ResolveOptions { caller, ..ResolveOptions::default() });
        let found = mirrored.lookup_directly(&query, &["/listed/file".to_owned()])?.0;
        if found.iter().any(|found| found.code != expected) {
            return wrong(WALK, format!("in a directory with an access control list: {found:?}"));
        }
    }
    volume.remove_all_with(&caller, volume.root(), b"listed", |_, done| done)?;
    Ok(())
}

pub(crate) fn lookup(context: &DeviceContext, volume: &Volume, known: &KnownPaths) -> Result<()> {
    let mirrored = Mirrored::new(context, volume, &MirrorOptions::default())?;
    known.ask(&mirrored, LOOKUP)?;
    let again = known.ask(&mirrored, LOOKUP)?;
    let short = known.paths.iter().zip(&known.answers).filter(|(path, answer)| {
        answer.code == Code::Success
            && path.strip_prefix("/many/").is_some_and(|name| name.len() <= CACHED_NAME_BYTES)
    });
    let (all, short) = (known.paths.len(), short.count());
    let has_tables = mirrored.cache_bytes() != 0 && mirrored.directory_table_bytes() != 0;
    if has_tables && (again.walks + short).saturating_sub(all) * 1000 > short * MISSING {
        return wrong(
            LOOKUP,
            format!("of {all} paths {} were walked, with {short} in the cache", again.walks),
        );
    }
    ask_names(&mirrored, known)?;
    // Another directory has the path of one that is in the table.
    let (caller, root) = (Caller::OWNER, volume.root());
    let replaced = |from: &str, to: &str| {
        volume.rename_at(&caller, root, from.as_bytes(), root, to.as_bytes(), RenameMode::Replace)
    };
    replaced("few", "other")?;
    let made = volume.mkdir(&caller, root, b"few", 0o755)?.ino;
    let file = volume.create_file(&caller, made, b"file", 0o644)?.ino;
    let query = mirrored.query(&ResolveOptions::default());
    let paths = ["/few/file", "few/file", "/few/link", "/other/file"];
    let found = mirrored.lookup_directly(&query, &paths)?.0;
    volume.remove_all_with(&caller, root, b"few", |_, done| done)?;
    replaced("other", "few")?;
    let codes = [Code::Success, Code::Success, Code::NotFound, Code::Success];
    let is_new = found.iter().take(2).all(|found| found.ino == file.0);
    if !is_new || found.iter().map(|found| found.code).ne(codes) {
        return wrong(LOOKUP, format!("after a directory moved: {found:?}"));
    }
    Ok(())
}

/// Looks up the names of known paths in two directories, which come with the batch, and texts that are not
/// names. First those in one directory, which have no numbers.
fn ask_names(mirrored: &Mirrored<'_>, known: &KnownPaths) -> Result<()> {
    let query = mirrored.query(&ResolveOptions { follow: false, ..ResolveOptions::default() });
    let (mut names, mut expected, mut directories) = (NameSet::new(), Vec::new(), Vec::new());
    for directory in ["/many/", "/few/"] {
        names.enter(directory);
        directories.push(mirrored.volume().resolve(directory)?.ino.0);
        for odd in ["", ".", "..", "file/", "./file", "/file"] {
            names.push(odd);
            expected.push(PathResult::failed(Code::NotResident));
        }
        for (path, answer) in known.paths.iter().zip(&known.answers) {
            let name = path.strip_prefix(directory);
            if let Some(name) = name.filter(|name| !name.is_empty() && !name.contains('/')) {
                names.push(name);
                expected.push(*answer);
            }
        }
        let found = mirrored.names_directly(&query, names.view(), &directories)?.0;
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            if found != expected {
                let name = names.view().names().get(index).unwrap_or(&[]).escape_ascii();
                return wrong(LOOKUP, format!("name {name} in {directory}: {found:?}, not {expected:?}"));
            }
        }
        if found.len() != expected.len() {
            return wrong(LOOKUP, format!("{} answers to {} names", found.len(), expected.len()));
        }
    }
    Ok(())
}

pub(crate) fn fill(context: &DeviceContext, volume: &Volume, known: &KnownPaths) -> Result<()> {
    let mirrored = Mirrored::new(context, volume, &MirrorOptions::default())?;
    let through_tree = known.ask(&mirrored, WALK)?.fills.len();
    let again = known.ask(&mirrored, FILL)?.fills.len();
    if mirrored.cache_bytes() != 0 && again * 1000 > through_tree * MISSING {
        return wrong(FILL, format!("of {through_tree} entries {again} are not in the cache"));
    }
    // An entry that is in the cache but no longer in the volume.
    let (caller, root) = (Caller::OWNER, volume.root());
    let few = volume.lookup(&caller, root, b"few")?.0;
    volume.rename_at(&caller, few, b"file", few, b"another", RenameMode::Replace)?;
    let query = mirrored.query(&ResolveOptions::default());
    let found = mirrored.lookup_directly(&query, &["/few/file", "/few/another"])?.0;
    volume.rename_at(&caller, few, b"another", few, b"file", RenameMode::Replace)?;
    if found.iter().map(|found| found.code).ne([Code::NotFound, Code::Success]) {
        return wrong(FILL, format!("after a rename: {found:?}"));
    }
    Ok(())
}

pub(crate) fn learn(context: &DeviceContext, volume: &Volume, known: &KnownPaths) -> Result<()> {
    let mirrored = Mirrored::new(context, volume, &MirrorOptions::default())?;
    let walked = known.ask(&mirrored, WALK)?.learns.len();
    let again = known.ask(&mirrored, LEARN)?.learns.len();
    if again * 1000 > walked * MISSING {
        return wrong(LEARN, format!("of {walked} paths of directories {again} were not learned"));
    }
    Ok(())
}

pub(crate) fn pack(context: &DeviceContext, volume: &Volume, known: &KnownPaths) -> Result<()> {
    let mirrored = Mirrored::new(context, volume, &MirrorOptions::default())?;
    let query = mirrored.query(&ResolveOptions { follow: false, ..ResolveOptions::default() });
    // The last element is not full, and fewer paths than one has.
    for count in [known.paths.len() / 32 * 32 - 5, 1] {
        let from = known.paths.len() - count;
        let found = mirrored.pack_directly(&query, &known.paths[from..])?.1;
        let expected = twin::kernels::pack::pack(&known.answers[from..]);
        if let Some(i) = (0..expected.len()).find(|i| found.get(*i) != Some(&expected[*i])) {
            let (found, expected) = (found.get(i), &expected[i]);
            return wrong(PACK, format!("bits {i} of {count} paths: {found:?}, not {expected:?}"));
        }
    }
    Ok(())
}

pub(crate) fn columns(context: &DeviceContext, volume: &Volume, known: &KnownPaths) -> Result<()> {
    let (caller, root, device) = (Caller::OWNER, volume.root(), "/device");
    let made = volume.mknod(&caller, root, &device.as_bytes()[1..], FileKind::CharDevice, 0o600, 0x1234)?.ino;
    let last = PathResult { code: Code::Success, kind: FileKind::CharDevice as u32, ino: made.0 };
    let paths: Vec<&str> = known.paths.iter().map(String::as_str).chain([device]).collect();
    let answers: Vec<PathResult> = known.answers.iter().copied().chain([last]).collect();
    let memory = HostCopy::of(volume)?;
    let mirrored = Mirrored::new(context, volume, &MirrorOptions::default())?;
    let query = mirrored.query(&ResolveOptions { follow: false, ..ResolveOptions::default() });
    for wanted in [ColumnSet::ALL, ColumnSet::ENTRIES, ColumnSet::of(&[Column::Size, Column::Mtime])] {
        let layout = ColumnLayout::new(4, wanted);
        let found = mirrored.columns_directly(&query, wanted, &paths)?.1;
        let expected = twin::kernels::columns::columns(&memory, query.inode_size, &layout, &answers);
        for (path, (found, expected)) in paths.iter().zip(found.iter().zip(&expected)) {
            if found != expected {
                return wrong(COLUMNS, format!("{path:?}: {found:?}, not {expected:?}"));
            }
        }
        if found.len() != expected.len() {
            return wrong(COLUMNS, format!("{} rows for {} paths", found.len(), expected.len()));
        }
    }
    volume.remove_all_with(&caller, root, &device.as_bytes()[1..], |_, done| done)?;
    Ok(())
}

pub(crate) fn warm(context: &DeviceContext, volume: &Volume, known: &KnownPaths) -> Result<()> {
    let mirrored = Mirrored::new(context, volume, &MirrorOptions::default())?;
    mirrored.warm()?;
    let missing = known.ask(&mirrored, WARM)?.fills.len();
    if mirrored.cache_bytes() != 0 && missing * 1000 > known.paths.len() * MISSING {
        return wrong(WARM, format!("of {} paths {missing} do not find all in the cache", known.paths.len()));
    }
    Ok(())
}
