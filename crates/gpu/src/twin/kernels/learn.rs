//! Twin of `shaders/learn.comp`.

use crate::shared::query::LookupQuery;
use crate::shared::structures::LearnRequest;
use crate::twin::headers::dir_table::{DirPath, DirTable};

/// Puts the paths of directories that lookups have walked into a directory-path table.
pub fn learn<P: AsRef<[u8]>>(
    query: &LookupQuery,
    table: &mut DirTable,
    paths: &[P],
    requests: &[LearnRequest],
) {
    if table.buckets() == 0 {
        return;
    }
    for request in requests {
        let (ino, path) = directory_of(paths, request);
        table.put(query.seed, &DirPath { start: query.start_of(path), path }, ino);
    }
}

/// Returns the directory that a request names: its inode number and its path, which is empty where no path
/// has the number.
pub fn directory_of<'p, P: AsRef<[u8]>>(paths: &'p [P], request: &LearnRequest) -> (u64, &'p [u8]) {
    let path = paths.get(request.path as usize).map_or(&[][..], AsRef::as_ref);
    (request.dir, path.get(..request.bytes as usize).unwrap_or(&[]))
}
