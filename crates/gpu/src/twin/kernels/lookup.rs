//! Twin of `shaders/lookup.comp`.

use crate::shared::limits::MAX_PATH_BYTES;
use crate::twin::headers::cache::cached;
use crate::twin::headers::dir_table::{DirPath, known_directory};
use crate::twin::headers::fuel::Fuel;
use crate::twin::headers::memory::Memory;
use crate::twin::headers::name::ShortName;
use crate::twin::kernels::walk::{Requests, ResumePoint, walk};
use lanefs::format::{Code, FileKind, MAX_NAME};

pub use crate::shared::query::{LookupQuery, PathResult};

/// Resolves a path: by the directory-path table and the directory cache, or by a walk in as many dispatches
/// as it takes. Adds what later kernels have to do to `requests`.
pub fn lookup<M: Memory>(
    memory: &M,
    query: &LookupQuery,
    path: &[u8],
    requests: &mut Requests,
) -> PathResult {
    answer(memory, query, path, shortcut(memory, query, path, None), requests)
}

/// Looks up a name in a directory, as [`lookup`] resolves a path. [`Code::NotResident`] for a text that is
/// not a name.
pub fn lookup_name<M: Memory>(
    memory: &M,
    query: &LookupQuery,
    dir: u64,
    name: &[u8],
    requests: &mut Requests,
) -> PathResult {
    if name.is_empty() {
        // The host gives it a length that no kernel takes.
        requests.walks += 1;
        return PathResult::failed(Code::NotResident);
    }
    answer(memory, query, name, shortcut(memory, query, name, Some(dir)), requests)
}

/// Returns the answer of `lookup`, or that of `walk`.
fn answer<M: Memory>(
    memory: &M,
    query: &LookupQuery,
    path: &[u8],
    answered: Result<PathResult, ResumePoint>,
    requests: &mut Requests,
) -> PathResult {
    match answered {
        Ok(found) => found,
        Err(state) => {
            requests.walks += 1;
            walk(memory, query, path, state, requests)
        }
    }
}

/// Returns the offset of the last name of a path; its end, where it has no name or one that is too long.
fn last_name(path: &[u8]) -> usize {
    // The kernel reads some words: from the one with the last byte on.
    let begin = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    if path.len() - begin > MAX_NAME { path.len() } else { begin }
}

/// Returns the answer, or the state in which `walk` begins. A text with a directory is a name in it.
fn shortcut<M: Memory>(
    memory: &M,
    query: &LookupQuery,
    path: &[u8],
    dir: Option<u64>,
) -> Result<PathResult, ResumePoint> {
    if path.is_empty() || path.len() > MAX_PATH_BYTES {
        return Err(ResumePoint::default());
    }
    let start = dir.unwrap_or_else(|| query.start_of(path));
    let whole = ResumePoint { dir: start, is_known: true, is_plain: true, ..ResumePoint::default() };
    if query.user.is_some() {
        return Err(whole);
    }
    let begin = last_name(path);
    let name = &path[begin..];
    let is_odd = matches!(name, b"" | b"." | b"..");
    if dir.is_some() && (is_odd || begin != 0) {
        return Ok(PathResult::failed(Code::NotResident));
    }
    if is_odd {
        return Err(whole);
    }
    let mut dir = start;
    if begin > 1 {
        let above = DirPath { start, path: &path[..begin - 1] };
        dir = known_directory(memory, query.seed, &above).ok_or(whole)?;
    }
    let open = ResumePoint { at: begin, dir, is_known: true, ..ResumePoint::default() };
    // The kernel has no fuel, and its loops few rounds.
    let entry = cached(memory, &Fuel::new(0), dir, &ShortName::new(query.seed, name)).ok_or(open)?;
    if entry.kind == FileKind::Symlink as u32 && query.follow {
        return Err(open);
    }
    Ok(PathResult { code: Code::Success, kind: entry.kind, ino: entry.ino })
}
