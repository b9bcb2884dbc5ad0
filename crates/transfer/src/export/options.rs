//! Options of an export.

/// Options of an export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// A complete new file replaces a file of the host with the same name. Without this the old file stays
    /// and is a problem. Directories merge either way.
    pub overwrite: bool,
    /// Number of threads; `None` for twice the cores.
    pub threads: Option<usize>,
    /// True to make everything durable before the export returns.
    pub sync: bool,
}

impl Default for ExportOptions {
    fn default() -> Self {
        ExportOptions { overwrite: false, threads: None, sync: true }
    }
}
