//! The import that the row `import-tree` measures, which a caller may replace.

use crate::measure::stop::Stop;
use std::path::Path;
use std::sync::Arc;

/// Request for an import.
pub struct ImportRequest<'a> {
    /// File for the new volume; it does not exist yet.
    pub image: &'a Path,
    /// Size of the volume, with room for the tree.
    pub size_bytes: u64,
    /// Directory whose contents are imported, its own file system only, as `cp -ax` does.
    pub source: &'a Path,
    /// Flag that ends the import early.
    pub stop: &'a Stop,
}

/// Function that makes a volume, imports a tree, and returns when all data is durable and the volume closed:
/// the number of imported names, or an error text.
pub type Import = Arc<dyn Fn(&ImportRequest<'_>) -> Result<u64, String> + Send + Sync>;
