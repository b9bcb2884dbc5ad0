//! The rows: what has changed in the tree.

/// Rows of a tree that is followed.
pub(super) const NEW: &str = "sync-new";
pub(super) const SAME: &str = "sync-same";
pub(super) const COLD: &str = "sync-same-cold";
pub(super) const CHANGED: &str = "sync-changed";
pub(super) const MEMORY: &str = "sync-memory";

/// Rows of a publication that follows.
pub(super) const PUBLISH: &str = "sync-publish";
pub(super) const PUBLISH_CHANGED: &str = "sync-publish-changed";
pub(super) const PUBLISH_APPENDED: &str = "sync-publish-appended";
pub(super) const PUBLISH_RENAMED: &str = "sync-publish-renamed";

/// One file of so many changes.
pub(super) const CHANGED_ONE_OF: usize = 100;

/// Goals: time of rsync where nothing or little has changed; most of the time of a walk that only asks for
/// attributes; time of an import of all; memory beside so much for each file of the largest directory; bytes
/// that are published beside the changed ones, and beside all where a directory is renamed.
pub(super) const GOAL_RSYNC: f64 = 4.0;
pub(super) const GOAL_FLOOR: f64 = 1.3;
pub(super) const GOAL_NEW: f64 = 1.0;
pub(super) const GOAL_MEMORY_BYTES: f64 = (64 << 20) as f64;
pub(super) const GOAL_NAME_BYTES: f64 = 40.0;
pub(super) const GOAL_PUBLISHED: f64 = 2.0;
pub(super) const GOAL_RENAMED: f64 = 0.02;

pub(super) const FOLLOWED: [&str; 5] = [NEW, SAME, COLD, CHANGED, MEMORY];
pub(super) const PUBLISHED: [&str; 4] = [PUBLISH, PUBLISH_CHANGED, PUBLISH_APPENDED, PUBLISH_RENAMED];

/// Lists every row, in the order measured.
pub fn row_names() -> Vec<String> {
    FOLLOWED.into_iter().chain(PUBLISHED).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::documented::assert_documented;

    #[test]
    fn the_documentation_names_every_row() {
        assert_documented(row_names());
    }
}
