//! The changes that batches can contain, as far as their paths say.

use crate::batches::bulk::change::Change;
use crate::vocabulary::path;
use crate::vocabulary::types::RenameMode;
use lanefs_format::MAX_NAME;

/// Returns true for a change whose paths consist of plain names.
pub(in crate::batches::bulk) fn is_plain(change: &Change<'_>) -> bool {
    match change {
        Change::Create { path, .. } | Change::Unlink { path } => is_plain_path(path, false),
        Change::Mkdir { path, .. } | Change::MkdirAll { path, .. } | Change::Rmdir { path } => {
            is_plain_path(path, true)
        }
        Change::Rename { from, to, mode } => {
            matches!(mode, RenameMode::Replace | RenameMode::NoReplace)
                && is_plain_path(from, false)
                && is_plain_path(to, false)
        }
    }
}

fn is_plain_path(path: &[u8], may_end_in_slash: bool) -> bool {
    let is_dots = |at: usize| {
        let begins = at == 0 || path[at - 1] == b'/';
        begins && matches!(path[at..], [b'.'] | [b'.', b'/', ..] | [b'.', b'.'] | [b'.', b'.', b'/', ..])
    };
    path.iter().any(|byte| *byte != b'/')
        && (may_end_in_slash || path.last() != Some(&b'/'))
        && memchr::memchr(0, path).is_none()
        && !memchr::memchr_iter(b'.', path).any(is_dots)
        && (path.len() <= MAX_NAME || path::components(path).all(|name| name.len() <= MAX_NAME))
}
