//! Options of an export.

use crate::on_host::hostdir::FileId;
use crate::running::expansion::DEFAULT_MAX_EXPANSION;

/// Options of an export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// A complete new file replaces a file of the host with the same name. Without this the old file stays
    /// and is a problem. Directories merge either way.
    pub overwrite: bool,
    /// Files of the host that nothing replaces, under any name: the volume's own image, for example.
    pub keep: Vec<FileId>,
    /// Number of threads; `None` for twice the cores.
    pub threads: Option<usize>,
    /// True to make everything durable before the export returns.
    pub sync: bool,
    /// Data at most, as a multiple of the volume's size. An export that needs more stops: the volume is
    /// damaged or hostile. 0: no bound. (The size of a publication is what its maker claims: see
    /// [`bound_expansion`](lanefs::Volume::bound_expansion).)
    pub max_expansion: u32,
}

impl Default for ExportOptions {
    fn default() -> Self {
        ExportOptions {
            overwrite: false,
            keep: Vec::new(),
            threads: None,
            sync: true,
            max_expansion: DEFAULT_MAX_EXPANSION,
        }
    }
}

impl ExportOptions {
    /// The files that a new file may replace.
    pub(crate) fn replaces(&self) -> Replaces<'_> {
        if self.overwrite { Replaces::AllBut(&self.keep) } else { Replaces::None }
    }
}

/// The files of the host that a new file of the same name may replace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Replaces<'o> {
    None,
    AllBut(&'o [FileId]),
}
