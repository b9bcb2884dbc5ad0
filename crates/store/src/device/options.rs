//! How a file or a raw device is opened.

/// Whether something is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Where the host has it.
    #[default]
    Auto,
    /// Not even where the host has it.
    Never,
}

/// How [`FileDevice::open_with`](crate::FileDevice::open_with) opens. The default is for writing, with all that the host has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// For writing as well, and then for this owner alone.
    pub write: bool,
    /// Direct I/O: the device reads into the caller's memory and writes from it, past the host's page cache.
    pub direct: Choice,
    /// io_uring: many requests are in flight at once, from one thread.
    pub io_uring: Choice,
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions { write: true, direct: Choice::Auto, io_uring: Choice::Auto }
    }
}
