//! Rebuilds of hash regions: the present regions, and the required ones. An engine carries them out.

use lanefs_format::FileKind;

/// Location of the names with a hash in a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// None: the directory has no entries.
    #[default]
    Empty,
    /// The only leaf block, at this position, with the index in the inode.
    Small(u64),
    /// The region whose index block is at this position.
    Region(u64),
}

/// Result of the lookup of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    /// Hash of the name.
    pub hash: u32,
    /// Location of the name, whether it exists or not.
    pub home: Home,
    /// Position of the dummy entry that opens the region, 0 without one.
    pub dummy: u64,
    /// Entries in the region.
    pub count: u32,
    /// Position of the entry, its inode and its type, where the name exists.
    pub entry: Option<(u64, u64, FileKind)>,
}

/// An entry to add to a directory, in units that are allocated for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Added {
    /// Hash of its name.
    pub hash: u32,
    /// Its position.
    pub at: u64,
}

/// A required region.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Number of its task.
    pub task: u32,
    /// Number of the region in its task, ascending with the hash.
    pub number: u32,
    /// Position of its dummy.
    pub dummy: u64,
    /// Position of its index block; 0 where the index is in the directory's inode.
    pub index: u64,
    /// The index block is new and zero; else it is the one of the first source of the task.
    pub is_new: bool,
}

/// A rebuild of some neighbouring regions of a directory as one region or several.
///
/// With one head, the entries that stay keep their order in the list, after the added ones. With several,
/// all are linked again in the order of hash and position.
#[derive(Clone, Debug)]
pub struct Task {
    /// Position of the directory's inode.
    pub inode: u64,
    /// Present regions, neighbours in ascending order: a range of [`Batch::sources`]; empty in a directory
    /// without entries.
    pub sources: (u32, u32),
    /// Entries to remove, and the dummy entries of all present regions but the first: a range of
    /// [`Batch::removed`].
    pub removed: (u32, u32),
    /// Entries to add: a range of [`Batch::added`].
    pub added: (u32, u32),
    /// Required regions, at least one: a range of [`Batch::heads`].
    pub heads: (u32, u32),
    /// Number of entries that stay.
    pub stay: u32,
    /// Lowest hash of the first region.
    pub lowest: u32,
}

/// A present region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A small directory, by its leaf block.
    Small(u64),
    /// A region, by its index block.
    Region(u64),
}

/// Tasks and their lists. A range is the first element and the end.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The tasks, each on regions of its own.
    pub tasks: Vec<Task>,
    /// Present regions, by task in ascending order of hash.
    pub sources: Vec<Source>,
    /// Positions of entries to remove, by task in ascending order.
    pub removed: Vec<u64>,
    /// Entries to add, by task in ascending order.
    pub added: Vec<Added>,
    /// Required regions, by task in ascending order of number.
    pub heads: Vec<Head>,
}

/// A region that was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// Lowest hash that belongs to it.
    pub lowest: u32,
    /// Number of its entries, 256 at most.
    pub count: u32,
}
