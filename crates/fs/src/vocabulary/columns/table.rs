//! The columns that hold attributes. Each module of the folder declares its part of each of them from here.

/// Hands the table to a macro. A row has the name of the column, its variant of
/// [`Column`](super::column::Column), its type, the type of an element in an
/// [`AttributeBlock`](super::block::AttributeBlock), and its value.
macro_rules! attribute_columns {
    ($declare:ident) => {
        $declare! {
            /// Type and permissions as in `st_mode`.
            mode Mode u16 from u32 = |attr: &Attr| attr.mode();
            /// Number of names.
            links Links u32 from u32 = |attr: &Attr| attr.links;
            /// Owner.
            uid Uid u32 from u32 = |attr: &Attr| attr.uid;
            /// Group.
            gid Gid u32 from u32 = |attr: &Attr| attr.gid;
            /// Size in bytes.
            size Size u64 from u64 = |attr: &Attr| attr.size;
            /// Number of blocks (4 KiB).
            blocks Blocks u64 from u64 = |attr: &Attr| attr.blocks;
            /// Device number of a character or block device.
            rdev Rdev u64 from u64 = |attr: &Attr| attr.rdev;
            /// Last change of the content, in nanoseconds since 1970.
            mtime Mtime i64 from i64 = |attr: &Attr| attr.mtime.0;
            /// Last change of the inode, in nanoseconds since 1970.
            ctime Ctime i64 from i64 = |attr: &Attr| attr.ctime.0;
            /// Last access, in nanoseconds since 1970.
            atime Atime i64 from i64 = |attr: &Attr| attr.atime.0;
            /// Creation, in nanoseconds since 1970.
            btime Btime i64 from i64 = |attr: &Attr| attr.btime.0;
            /// Generation of the inode number.
            generation Generation u32 from u32 = |attr: &Attr| attr.generation;
        }
    };
}
pub(super) use attribute_columns;
