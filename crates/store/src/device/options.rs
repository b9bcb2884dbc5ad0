//! Options for opening a file or a raw device.

/// A choice whether a feature of the host is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Used where the host has it.
    #[default]
    Auto,
    /// Not used.
    Never,
}

/// Options of [`FileDevice::open_with`](crate::FileDevice::open_with). The default is for writing, with all
/// features of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Open for writing as well, and exclusively.
    pub write: bool,
    /// Direct I/O: the device reads into the caller's memory and writes from it, bypassing the host's page
    /// cache.
    pub direct: Choice,
    /// io_uring: many requests are in flight at once, from one thread.
    pub io_uring: Choice,
    /// Permissions (of 0777) that a file which is made gets, whatever the umask is; `None`: 0666 without
    /// those of the umask.
    pub mode: Option<u16>,
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions { write: true, direct: Choice::Auto, io_uring: Choice::Auto, mode: None }
    }
}
