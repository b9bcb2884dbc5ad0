//! The structures that the host and the kernels share, each declared once: as a Rust type with a writer and
//! a reader, and as GLSL in `shaders/structures.glsl`, which a test keeps up to date.

pub(crate) mod declare;

use super::layout::{BUNDLE_PATHS, MACHINES};
use super::limits::MAX_GROUPS;
use declare::structures;

pub(crate) use declare::{Field, Vector};

/// Bytes that are pushed: the address of [`Parameters`].
pub(crate) const PUSHED_BYTES: u32 = size_of::<u64>() as u32;

structures! {
    /// Parameters of a dispatch. Their address is all that is pushed.
    buffer(16) Parameters {
        /// Seed of the volume's hashes.
        seed: Vector,
        /// Address of the mirror's table: an address for each chunk of the volume, 0 for a chunk without a
        /// copy.
        chunks: u64,
        /// Chunks of the volume.
        chunk_count: u64,
        /// Address of a word for each chunk of the volume: the number of its copy.
        copies: u64,
        /// Address of a version for each block of the mirror.
        versions: u64,
        /// Address of the directory cache.
        cache: u64,
        /// Address of the list that the invocations work on: `PathRange` for each path, positions, requests.
        starts: u64,
        /// Address of text, or of a block that only some kernels have.
        text: u64,
        /// Address of the results; those of lookups have an `AnswersHeader`.
        answers: u64,
        /// Address of the headers of the lists that kernels fill for later kernels: WALKS, FILLS, LEARNS.
        lists: u64,
        /// Address of the numbers of the paths that must be walked.
        walks: u64,
        /// Address of the fill requests.
        fills: u64,
        /// Address of the learn requests.
        learns: u64,
        /// Address of `HostHeader` and the answers after it, for `pack` and `columns`.
        for_host: u64,
        /// Address of the directory-path table: its buckets.
        dir_table: u64,
        /// Address of the table's records.
        dir_records: u64,
        /// Address of the inode numbers of directories; 0: the texts of the batch are whole paths. Else each
        /// is a name in one of these directories.
        dirs: u64,
        /// Address of the number of the directory of each name; 0: all lie in the first.
        dir_of: u64,
        /// Inode number of the root directory; for `find` of the directory of inodes without a name.
        root: u64,
        /// Inode number of the directory where relative paths begin; for `warm` the position of the first
        /// block.
        base: u64,
        /// Elements of the list at `starts`, or blocks.
        count: u32,
        /// Bytes of an inode.
        inode_size: u32,
        /// 1: symbolic links at the end of a path are followed.
        follow: u32,
        /// Buckets of the directory cache; 0 without one.
        buckets: u32,
        /// Buckets of the directory-path table; 0 without one.
        dir_buckets: u32,
        /// Units of 32 bytes that there are for records, and one before them.
        dir_units: u32,
        /// Epoch of the directory tree, never 0: entries of the table that have another one count for
        /// nothing.
        epoch: u32,
        /// Versions at `versions`.
        version_count: u32,
        /// Fill requests that there is room for; for `find` units of output.
        room: u32,
        /// Rounds of all loops of an invocation.
        fuel: u32,
        /// 1: the dispatch resumes the lookups that the last one left unfinished, and no others.
        resume: u32,
        /// 1: permissions are checked, for the user and the groups below.
        is_checked: u32,
        /// The user.
        uid: u32,
        /// The user's group.
        gid: u32,
        /// Supplementary groups in use.
        group_count: u32,
        /// Number of the dispatch, of which 12 bits claim a slot of a table: the invocation that puts them
        /// there may write the slot.
        claim: u32,
        /// Attributes that `columns` writes, a bit for each: `COLUMN_MODE` and others.
        wanted: u32,
        /// Elements of each column.
        stride: u32,
        /// Supplementary groups.
        groups: [u32; MAX_GROUPS],
    }

    /// A path in the text of a batch.
    record PathRange {
        /// Offset in the text.
        start: u32,
        /// Length in bytes.
        bytes: u32,
    }

    /// Header of the results of the lookups.
    record AnswersHeader {
        /// Lookups that another dispatch must resume.
        unfinished: u32,
        /// Unused.
        spare: [u32; 3],
    }

    /// Header of the answers as the host gets them.
    record HostHeader {
        /// Lookups that another dispatch must resume.
        unfinished: u32,
        /// Unused.
        spare: [u32; 3],
    }

    /// Answers to 32 paths, a bit for each.
    record PackedAnswers {
        /// The path names an inode.
        found: u32,
        /// The host must decide, or the lookup is not finished.
        open: u32,
    }

    /// Result of a lookup. An unfinished one has CODE_UNFINISHED, above it the links followed (8 bits) and
    /// the flags STATE_HAS_SLASH, STATE_IS_KNOWN, STATE_IS_PLAIN; the offset where the text continues; and
    /// the directory.
    record LookupAnswer {
        /// CODE_SUCCESS, or why not.
        code: u32,
        /// Number of the file's type, 0 without a file.
        kind: u32,
        /// Inode number, 0 without a file.
        ino: u64,
    }

    /// Header of a list that one kernel fills and another works on. Its first three words are the workgroups
    /// of the other, as Vulkan reads them.
    record ListHeader {
        /// Workgroups for the elements that there is room for.
        groups: u32,
        /// 1.
        groups_y: u32,
        /// 1.
        groups_z: u32,
        /// Elements; those beyond the room are not written.
        count: u32,
    }

    /// An entry that a lookup found in the tree, for `fill` to put into the directory cache.
    record FillRequest {
        /// Inode number of the directory.
        dir: u64,
        /// Position of the entry.
        entry: u64,
    }

    /// The path of a directory that a lookup has walked, for `learn` to put into the directory-path table.
    record LearnRequest {
        /// Inode number of the directory.
        dir: u64,
        /// Number of a path in the batch that begins with it.
        path: u32,
        /// Bytes of that path before the slash that ends the directory's.
        bytes: u32,
    }

    /// A search, as `find` evaluates it.
    buffer(8) FilterProgram {
        /// Name: states that are on at first.
        start: u64,
        /// Name: states that stay on.
        stays: u64,
        /// Name: states that must be on at the end.
        end: u64,
        /// Lowest size.
        size_min: u64,
        /// Highest size.
        size_max: u64,
        /// Earliest time, its sign bit turned, so that unsigned numbers are in order.
        time_min: u64,
        /// Latest time, its sign bit turned.
        time_max: u64,
        /// Returns a bit for each type.
        kinds: u32,
        /// WANTS_ATTRIBUTES, WANTS_DIRECTORIES.
        wants: u32,
        /// States that each byte leads on from.
        leads: [u64; 256],
    }

    /// Patterns, as `scan` finds them: machines of 64 states, a row of states for each pattern.
    buffer(8) ScanProgram {
        /// Machines in use.
        count: u32,
        /// Unused.
        spare: u32,
        /// First state of each pattern.
        starts: [u64; MACHINES],
        /// Last state of each pattern.
        ends: [u64; MACHINES],
        /// States that stay on as long as their bytes come.
        repeats: [u64; MACHINES],
        /// States that a pattern may skip.
        optional: [u64; MACHINES],
        /// The state before each row of states that may be skipped.
        before: [u64; MACHINES],
        /// The last state of each such row.
        last: [u64; MACHINES],
        /// States that each byte leads to, for one machine after the other.
        leads: [u64; 256 * MACHINES],
    }

    /// A portion of a text, for `hash_text`.
    record PortionRecord {
        /// Its number in the text.
        number: u32,
        /// Its length in bytes. With IS_ROOT the text has no other portion.
        bytes: u32,
    }

    /// Two chaining values that `hash_join` joins.
    record JoinRecord {
        /// Portion whose place has the left value, and will have that of both.
        left: u32,
        /// Portion whose place has the right value. With IS_ROOT the text has no others.
        right: u32,
    }

    /// First unit of an entry that `find` gives; the entry's own units follow, without their first.
    record FindRecord {
        /// Inode number of the directory; with LEAF_UNDECIDED the position of the leaf block.
        dir: u64,
        /// Block of the leaf in the directory (from bit 16 on), unit of the entry (8 bits), flags (8 bits).
        order: u64,
    }

    /// A block of a directory's file map, for `leaves`.
    record LeafRequest {
        /// Root of the map, as the inode has it.
        map: u64,
        /// Number of the block, with the depth of the map above it (from LEAF_DEPTH_SHIFT on).
        block: u64,
    }

    /// A name to be found by `seek`.
    record SeekRequest {
        /// Inode number of the directory; 0: only the hash is wanted.
        dir: u64,
        /// Offset of the name in the text.
        start: u32,
        /// Length of the name in bytes.
        bytes: u32,
    }

    /// Result of `seek`.
    record SeekAnswer {
        /// Root of a directory that has only the region of the hash: form, and position of the leaf or
        /// index block.
        home: u64,
        /// Position of the region's dummy.
        dummy: u64,
        /// Position of the entry; 0 without one.
        at: u64,
        /// Inode number of the entry.
        ino: u64,
        /// Hash of the name.
        hash: u32,
        /// Entries of the region.
        count: u32,
        /// Number of the entry's type.
        kind: u32,
        /// 1: the kernel could decide.
        is_certain: u32,
    }

    /// Lists of a batch of changes, for `gather`, `merge` and `build`.
    buffer(8) ChangeLists {
        /// Address of `TaskRecord` for each task.
        tasks: u64,
        /// Address of the regions that are replaced: positions, each with the form of a directory's root.
        sources: u64,
        /// Address of the positions of removed entries and dummies, ascending in each task.
        removed: u64,
        /// Address of `EntryRecord` for each added entry, ascending in each task.
        added: u64,
        /// Address of `HeadRecord` for each new region.
        heads: u64,
        /// Address of the entries that stay, sorted, as `gather` writes them.
        items: u64,
        /// Address of the entries that stay and are added, sorted, as `merge` writes them.
        merged: u64,
        /// Address of the position that follows each task's entries in the list, as `gather` writes it.
        ends: u64,
        /// Address of `BuiltRecord` for each new region.
        built: u64,
        /// Address of `WordsHeader` and the words after it.
        words: u64,
        /// Tasks.
        task_count: u32,
        /// New regions of all tasks.
        head_count: u32,
        /// Entries that stay and are added, of all tasks.
        merged_count: u32,
        /// Words that there is room for.
        room: u32,
    }

    /// A task: regions that are rebuilt together. Ranges are first and end in the lists.
    record TaskRecord {
        /// Position of the directory's inode.
        inode: u64,
        /// First region that is replaced.
        sources: u32,
        /// End of those.
        sources_end: u32,
        /// First removed entry.
        removed: u32,
        /// End of those.
        removed_end: u32,
        /// First added entry.
        added: u32,
        /// End of those.
        added_end: u32,
        /// First new region.
        heads: u32,
        /// End of those.
        heads_end: u32,
        /// First entry of the task among those that stay.
        items: u32,
        /// First entry of the task among those that stay and are added.
        merged: u32,
        /// Entries that stay.
        stay: u32,
        /// Lowest hash of the first region.
        lowest: u32,
    }

    /// A new region.
    record HeadRecord {
        /// Position of its dummy.
        dummy: u64,
        /// Position of its index block; 0 for a small directory.
        index: u64,
        /// Number of its task.
        task: u32,
        /// Its number in the task.
        number: u32,
        /// 1: the index block is new, so its bytes in the mirror count for nothing.
        is_new: u32,
        /// Unused.
        spare: u32,
    }

    /// An entry of a directory's list.
    record EntryRecord {
        /// Position.
        at: u64,
        /// Hash.
        hash: u32,
        /// Unused.
        spare: u32,
    }

    /// Facts about a region that `build` built.
    record BuiltRecord {
        /// Lowest hash.
        lowest: u32,
        /// Entries.
        count: u32,
    }

    /// Header of the words that a batch of changes writes.
    record WordsHeader {
        /// Words of the batch; those beyond the room are not written.
        count: u32,
        /// Not 0: an invocation could not decide, so nothing of the batch counts.
        is_bad: u32,
        /// Unused.
        spare: [u32; 2],
    }

    /// 8 bytes that the volume writes.
    record ChangedWord {
        /// Position.
        at: u64,
        /// Value.
        value: u64,
    }

    /// Letters of fuzzy terms, as `score` finds them: a row for each, and the least score that `best` lists.
    buffer(8) RankProgram {
        /// The first row of each term.
        starts: u32,
        /// The last row of each term.
        ends: u32,
        /// Least score that `best` lists, at least 1.
        least: u32,
        /// Unused.
        spare: u32,
        /// For each byte of a path the rows that it matches, its bonuses, and its class.
        letters: [u64; 256],
    }

    /// Paths that lie woven, as `score` reads them.
    record PathBundle {
        /// Address of their words: the first words of all paths, then the second ones.
        words: u64,
        /// Length of each path in bytes, 0 after the last one; above MAX_RANKED_PATH the host decides.
        lengths: [u32; BUNDLE_PATHS],
    }

    /// Header of the list of `best`.
    record BestHeader {
        /// Paths that are listed; those beyond the room are not written.
        count: u32,
        /// Unused.
        spare: u32,
    }

    /// A path and its score.
    record RankedPath {
        /// Number of the path.
        number: u32,
        /// Its score, or SCORE_UNDECIDED.
        score: u32,
    }
}

/// Returns the text of `shaders/structures.glsl`.
pub(crate) fn glsl() -> String {
    let mut text = String::from(
        "// Generated from src/structures.rs (UPDATE_SHADERS=1 cargo test -p lanefs-gpu --test it shaders::).\n",
    );
    text += &declarations();
    text += "\nlayout(push_constant, std430) uniform Push {\n    Parameters p;\n};\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structure_that_is_written_is_read_as_it_was() {
        let task = TaskRecord {
            inode: 1 << 40,
            sources: 2,
            heads_end: 9,
            lowest: u32::MAX,
            ..TaskRecord::default()
        };
        let mut bytes = [0; TaskRecord::SIZE];
        task.write(&mut bytes);
        assert_eq!(TaskRecord::read(&bytes), task);
        assert_eq!(bytes[8], 2);
        assert_eq!(TaskRecord::read(&bytes[..TaskRecord::SIZE - 4]).lowest, 0);
    }
}
