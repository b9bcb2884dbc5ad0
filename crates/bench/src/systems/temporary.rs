//! Directories among the temporary files.

use crate::error::{Error, Result};
use tempfile::TempDir;

/// Makes a directory, which its value removes.
pub(crate) fn temp_dir() -> Result<TempDir> {
    TempDir::with_prefix("lanefs-bench-").map_err(Error::host("a temporary directory"))
}
