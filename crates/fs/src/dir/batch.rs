//! Tasks on the hash regions of directories: what there is, and what is to be. An engine carries them out.

use lanefs_format::FileKind;

/// Where a directory has the names of a hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// Nowhere: it has no entries.
    #[default]
    Empty,
    /// In its one leaf block, at this position, with the index in the inode.
    Small(u64),
    /// In the region whose index block is at this position.
    Region(u64),
}

/// What there is of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    /// Hash of the name.
    pub hash: u32,
    /// Where it is, or would be.
    pub home: Home,
    /// Position of the dummy that opens the region, 0 without one, and how many entries it counts.
    pub dummy: u64,
    /// Entries in the region.
    pub count: u32,
    /// The entry: its position, the inode that it names, and the type.
    pub entry: Option<(u64, u64, FileKind)>,
}

/// An entry that is to be in a directory, in units that are its own already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Added {
    /// Hash of its name.
    pub hash: u32,
    /// Its position.
    pub at: u64,
}

/// A region as it is to be.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Number of its task, and its number in it.
    pub task: u32,
    /// Number of the region in its task, ascending with the hash.
    pub number: u32,
    /// Position of its dummy.
    pub dummy: u64,
    /// Position of its index block; 0 where the index is to be in the directory's inode.
    pub index: u64,
    /// The index block is a new one, all zeros; else it is the one that the first source of the task names.
    pub is_new: bool,
}

/// Some entries of a directory that become one region or several.
///
/// With one head what stays keeps its order in the list, behind what is added; with several, all are linked anew in the order of
/// hash and position.
#[derive(Clone, Debug)]
pub struct Task {
    /// Position of the directory's inode.
    pub inode: u64,
    /// Regions that there are, neighbours in ascending order: a range of [`Batch::sources`]; none in a directory without entries.
    pub sources: (u32, u32),
    /// Entries of these that go, and dummies of all of them but the first: a range of [`Batch::removed`].
    pub removed: (u32, u32),
    /// What is added: a range of [`Batch::added`].
    pub added: (u32, u32),
    /// Regions that there are to be, at least one: a range of [`Batch::heads`].
    pub heads: (u32, u32),
    /// Entries that stay.
    pub stay: u32,
    /// Lowest hash of the first region.
    pub lowest: u32,
}

/// A region that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Of a small directory: its leaf block.
    Small(u64),
    /// Its index block.
    Region(u64),
}

/// Tasks, and what they name: ranges are first and end.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The tasks, each on regions of its own.
    pub tasks: Vec<Task>,
    /// Of each task, in ascending order of hash.
    pub sources: Vec<Source>,
    /// Of each task, in ascending order of position.
    pub removed: Vec<u64>,
    /// Of each task, in ascending order.
    pub added: Vec<Added>,
    /// Of each task, in ascending order of number.
    pub heads: Vec<Head>,
}

/// A region as it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// Lowest hash that belongs to it.
    pub lowest: u32,
    /// Entries in it, 256 at most.
    pub count: u32,
}
