//! The invariants that a check verifies: each has a stable name and one sentence for people.

/// One invariant of the format.
pub(in crate::check) struct Invariant {
    /// Stable name in kebab-case.
    pub(in crate::check) name: &'static str,
    /// The fault, where the invariant is broken.
    pub(in crate::check) broken: &'static str,
}

macro_rules! invariants {
    ($($id:ident = $name:literal, $broken:literal;)*) => {
        $(pub(in crate::check) const $id: Invariant = Invariant { name: $name, broken: $broken };)*
        /// Names of all invariants.
        #[cfg(test)]
        pub(in crate::check) const ALL: &[&str] = &[$($name),*];
    };
}

invariants! {
    SUPERBLOCK_COPY = "superblock-copy", "the two copies of the superblock are not both good and equal";
    SUPERBLOCK_STATE = "superblock-state", "the superblock gives the volume a state that does not exist";
    JOURNAL = "journal", "the journal cannot be used; an empty one takes its place";
    FREE_BLOCKS = "free-blocks", "the volume's count of free blocks is wrong";
    INODE_COUNT = "inode-count", "the volume's count of inodes is wrong";
    ROOT_DIRECTORY = "root-directory", "the root directory is missing";
    ORPHAN_DIRECTORY = "orphan-directory", "the orphan directory is missing";
    ORPHAN_ENTRY = "orphan-entry", "an entry of the orphan directory is not named by its inode's number; the entry goes";
    ORPHAN_NAMED = "orphan-named", "an inode that has a name or a link count is listed as an orphan; the entry goes";
    ORPHAN_NOT_EMPTY = "orphan-not-empty", "a directory with entries is listed as an orphan; the entry goes";

    GROUP_CHECKSUM = "group-checksum", "a block of the group table does not verify";
    GROUP_OWNER = "group-owner", "a block of the group table has another group's number";
    GROUP_FREE = "group-free", "the count of free blocks differs from the bitmap";
    GROUP_END = "group-end", "blocks past the end of the volume are marked free";
    GROUP_METADATA = "group-metadata", "the mask of metadata chunks is wrong";
    GROUP_ROOM = "group-room", "a metadata chunk's bit in the mask of those with free blocks is wrong";
    GROUP_INODE_ROOM = "group-inode-room", "a metadata chunk's bit in the mask of those with free inodes is wrong";
    BLOCK_NOT_MARKED = "block-not-marked", "blocks in use are marked free";
    BLOCK_LEAKED = "block-leaked", "blocks are marked used that belong to nothing";

    CHUNK_CHECKSUM = "chunk-checksum", "the table of a metadata chunk does not verify";
    CHUNK_USED = "chunk-used", "a metadata chunk's count of used blocks is wrong";
    CHUNK_EMPTY = "chunk-empty", "a metadata chunk without a used block was not freed";
    CHUNK_ENTRY_KIND = "chunk-entry-kind", "a chunk table gives a block another kind than it has";
    CHUNK_ENTRY_OWNER = "chunk-entry-owner", "a chunk table gives a block another owner than it has";
    CHUNK_ENTRY_USED = "chunk-entry-used", "a chunk table's count of inodes in use is wrong";
    CHUNK_ENTRY_ZERO = "chunk-entry-zero", "a chunk table gives a block a checksum, a count or reserved bytes that it cannot have";
    METADATA_LEAKED = "metadata-leaked", "a metadata block is marked used that belongs to nothing";

    SUMS_CHECKSUM = "sums-checksum", "a block of checksums of file data does not verify; up to 1,008 blocks have none from now on";
    SUMS_OWNER = "sums-owner", "a block of checksums names another group or another index in it; up to 1,008 blocks have none from now on";
    SUMS_MISSING = "sums-missing", "a group in use has no blocks of checksums; its file data have none from now on";

    INODE_CHECKSUM = "inode-checksum", "an inode does not verify and is lost";
    INODE_MODE = "inode-mode", "the file type is unknown; it becomes a regular file";
    INODE_FLAGS = "inode-flags", "flags that do not fit the inode";
    INODE_SIZE = "inode-size", "the size does not fit the inode's type";
    INODE_END = "inode-end", "written blocks lie past the end of the file, which now includes them; those of a link go";
    INODE_GENERATION = "inode-generation", "an inode in use has the generation 0; it becomes 1";
    INODE_MAP = "inode-map", "a file map where there can be none, or of impossible depth";
    INODE_RDEV = "inode-rdev", "a parent or device number in an inode that can have none";
    INODE_BLOCKS = "inode-blocks", "the count of blocks that the inode owns is wrong";
    INODE_TAIL = "inode-tail", "the bytes of the inode after its content or its extents are not zero";
    EXTENT_COUNT = "extent-count", "more extents than the inode has room for";
    LINK_COUNT = "link-count", "the link count is wrong";
    PARENT = "parent", "the directory names another parent than it is in";
    INODE_UNREACHABLE = "inode-unreachable", "no directory names the inode; it belongs into lost+found";
    DIRECTORY_CYCLE = "directory-cycle", "directories that contain each other; one belongs into lost+found";
    DIRECTORY_LINKED_TWICE = "directory-linked-twice", "an entry for a directory that has another one; it goes";

    MAP_POINTER = "map-pointer", "an invalid pointer in the file map; a hole takes its place";
    EXTENT_RANGE = "extent-range", "an extent is empty, or not after the one before it; a hole takes its place";
    MAP_OUTSIDE = "map-outside", "a pointer past the end of the volume; a hole takes its place";
    MAP_EMPTY = "map-empty", "a block of pointers without a pointer";
    DATA_IN_METADATA = "data-in-metadata", "file data in a metadata chunk; a hole takes its place";
    METADATA_PLACE = "metadata-place", "a metadata block outside the metadata chunks is named; the name goes";
    BLOCK_OWNED_TWICE = "block-owned-twice", "a block belongs to something else; a hole takes its place here";
    POINTERS_CHECKSUM = "pointers-checksum", "a block of pointers does not verify; the data below it are lost";

    XATTR_CHECKSUM = "xattr-checksum", "a block of attributes does not verify; attributes are lost";
    XATTR_OWNER = "xattr-owner", "a block of attributes belongs to another inode; attributes are lost";
    XATTR_LENGTH = "xattr-length", "a block of attributes has an impossible length; attributes are lost";
    ACL_FLAG = "acl-flag", "the flags of access control lists do not fit the attributes";
    ACL_FORMAT = "acl-format", "an access control list is not valid, or is not allowed here; it goes";
    ACL_MODE = "acl-mode", "an access control list has other permissions than the mode";
    XATTR_FORMAT = "xattr-format", "the attributes contradict themselves; some are lost";

    DIRECTORY_SIZE = "directory-size", "the end of the directory's file map is wrong";
    DIRECTORY_ROOT = "directory-root", "the root of the hash tree does not fit the directory";
    LEAF_CHECKSUM = "leaf-checksum", "a leaf block does not verify; entries of the directory may be lost";
    LEAF_OWNER = "leaf-owner", "a leaf block names another directory as its owner";
    LEAF_PLACE = "leaf-place", "a leaf block names another index in the file map";
    LEAF_BITMAP = "leaf-bitmap", "the bitmap of a leaf block does not fit its entries";
    LEAF_FREE = "leaf-free", "a leaf block's count of free units is wrong";
    ROOM_LIST = "room-list", "the list of leaf blocks with room is broken";
    ENTRY_NAME = "entry-name", "an entry's name is none; the entry goes";
    ENTRY_HASH = "entry-hash", "an entry's hash is not that of its name";
    ENTRY_COUNT = "entry-count", "an ordinary entry counts entries, or a dummy has a type";
    ENTRY_DUPLICATE = "entry-duplicate", "a name is there twice; one goes";
    ENTRY_INODE = "entry-inode", "an entry names no inode in use; the entry goes";
    ENTRY_TYPE = "entry-type", "an entry gives another type than the inode has";
    LIST_LINK = "list-link", "the list of entries is broken";
    LIST_CYCLE = "list-cycle", "the list of entries runs in a circle";
    LIST_MISSING = "list-missing", "entries are not in the list";
    REGION_ORDER = "region-order", "the regions of the list are not in order of hash from 0 on";
    REGION_HASH = "region-hash", "an entry's hash lies outside its region";
    REGION_COUNT = "region-count", "a region's count of entries is wrong";
    REGION_SIZE = "region-size", "a region has more than 256 entries, and not all of one hash";
    REGION_INDEX = "region-index", "tree, dummies and region index blocks name each other wrongly";
    TREE_CHECKSUM = "tree-checksum", "a tree block does not verify";
    TREE_OWNER = "tree-owner", "a tree block names another directory as its owner";
    TREE_LEVEL = "tree-level", "a tree block has a wrong level";
    TREE_COUNT = "tree-count", "a tree block has an impossible number of children";
    TREE_FORM = "tree-form", "a tree block has a child of a wrong form";
    TREE_ORDER = "tree-order", "the lowest hashes in a tree block are not in order";
    INDEX_CHECKSUM = "index-checksum", "a region index block does not verify";
    INDEX_OWNER = "index-owner", "a region index block names another directory as its owner";
    INDEX_SLOTS = "index-slots", "a region index block does not have its entries of the region once each";
    INDEX_PROBE = "index-probe", "a region index block holds an entry where no lookup finds it";
    INDEX_UNINDEXED = "index-unindexed", "a region index block has a wrong count of entries without a slot";
    SMALL_INDEX = "small-index", "the index in the directory's inode does not fit its entries";
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn names_are_unique_and_in_kebab_case() {
        let mut sorted = ALL.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), ALL.len());
        assert!(ALL.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
    }
}
