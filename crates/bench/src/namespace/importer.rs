//! The import that the row `import-tree` measures, which a caller may replace.

use crate::stop::Stop;
use std::path::Path;
use std::sync::Arc;

/// What an import is asked for.
pub struct ImportRequest<'a> {
    /// File to make a volume in; it does not exist yet.
    pub image: &'a Path,
    /// Size to make the volume with: room enough for the tree.
    pub size_bytes: u64,
    /// Directory whose content is imported, its own file system only (as `cp -ax` does).
    pub source: &'a Path,
    /// Set when the import is to end early.
    pub stop: &'a Stop,
}

/// Makes a volume, imports a tree, and returns once everything is durable and the volume closed: the number of names
/// imported, or what went wrong in words.
pub type Import = Arc<dyn Fn(&ImportRequest<'_>) -> Result<u64, String> + Send + Sync>;
