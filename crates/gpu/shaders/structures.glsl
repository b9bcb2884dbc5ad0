// Generated from src/structures.rs (UPDATE_SHADERS=1 cargo test -p lanefs-gpu --test it shaders::).

// Parameters of a dispatch. Their address is all that is pushed.
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer Parameters {
    // Seed of the volume's hashes.
    uvec4 seed;
    // Address of the mirror's table: an address for each chunk of the volume, 0 for a chunk without a
    // copy.
    uint64_t chunks;
    // Chunks of the volume.
    uint64_t chunk_count;
    // Address of a word for each chunk of the volume: the number of its copy.
    uint64_t copies;
    // Address of a version for each block of the mirror.
    uint64_t versions;
    // Address of the directory cache.
    uint64_t cache;
    // Address of the list that the invocations work on: `PathRange` for each path, positions, requests.
    uint64_t starts;
    // Address of text, or of a block that only some kernels have.
    uint64_t text;
    // Address of the results; those of lookups have an `AnswersHeader`.
    uint64_t answers;
    // Address of the headers of the lists that kernels fill for later kernels: WALKS, FILLS, LEARNS.
    uint64_t lists;
    // Address of the numbers of the paths that must be walked.
    uint64_t walks;
    // Address of the fill requests.
    uint64_t fills;
    // Address of the learn requests.
    uint64_t learns;
    // Address of `HostHeader` and the answers after it, for `pack` and `columns`.
    uint64_t for_host;
    // Address of the directory-path table: its buckets.
    uint64_t dir_table;
    // Address of the table's records.
    uint64_t dir_records;
    // Address of the inode numbers of directories; 0: the texts of the batch are whole paths. Else each
    // is a name in one of these directories.
    uint64_t dirs;
    // Address of the number of the directory of each name; 0: all lie in the first.
    uint64_t dir_of;
    // Inode number of the root directory; for `find` of the directory of inodes without a name.
    uint64_t root;
    // Inode number of the directory where relative paths begin; for `warm` the position of the first
    // block.
    uint64_t base;
    // Elements of the list at `starts`, or blocks.
    uint count;
    // Bytes of an inode.
    uint inode_size;
    // 1: symbolic links at the end of a path are followed.
    uint follow;
    // Buckets of the directory cache; 0 without one.
    uint buckets;
    // Buckets of the directory-path table; 0 without one.
    uint dir_buckets;
    // Units of 32 bytes that there are for records, and one before them.
    uint dir_units;
    // Epoch of the directory tree, never 0: entries of the table that have another one count for
    // nothing.
    uint epoch;
    // Versions at `versions`.
    uint version_count;
    // Fill requests that there is room for; for `find` units of output.
    uint room;
    // Rounds of all loops of an invocation.
    uint fuel;
    // 1: the dispatch resumes the lookups that the last one left unfinished, and no others.
    uint resume;
    // 1: permissions are checked, for the user and the groups below.
    uint is_checked;
    // The user.
    uint uid;
    // The user's group.
    uint gid;
    // Supplementary groups in use.
    uint group_count;
    // Number of the dispatch, of which 12 bits claim a slot of a table: the invocation that puts them
    // there may write the slot.
    uint claim;
    // Attributes that `columns` writes, a bit for each: `COLUMN_MODE` and others.
    uint wanted;
    // Elements of each column.
    uint stride;
    // Supplementary groups.
    uint groups[64];
};

// A path in the text of a batch.
struct PathRange {
    // Offset in the text.
    uint start;
    // Length in bytes.
    uint bytes;
};

// Header of the results of the lookups.
struct AnswersHeader {
    // Lookups that another dispatch must resume.
    uint unfinished;
    // Unused.
    uint spare[3];
};

// Header of the answers as the host gets them.
struct HostHeader {
    // Lookups that another dispatch must resume.
    uint unfinished;
    // Unused.
    uint spare[3];
};

// Answers to 32 paths, a bit for each.
struct PackedAnswers {
    // The path names an inode.
    uint found;
    // The host must decide, or the lookup is not finished.
    uint open;
};

// Result of a lookup. An unfinished one has CODE_UNFINISHED, above it the links followed (8 bits) and
// the flags STATE_HAS_SLASH, STATE_IS_KNOWN, STATE_IS_PLAIN; the offset where the text continues; and
// the directory.
struct LookupAnswer {
    // CODE_SUCCESS, or why not.
    uint code;
    // Number of the file's type, 0 without a file.
    uint kind;
    // Inode number, 0 without a file.
    uint64_t ino;
};

// Header of a list that one kernel fills and another works on. Its first three words are the workgroups
// of the other, as Vulkan reads them.
struct ListHeader {
    // Workgroups for the elements that there is room for.
    uint groups;
    // 1.
    uint groups_y;
    // 1.
    uint groups_z;
    // Elements; those beyond the room are not written.
    uint count;
};

// An entry that a lookup found in the tree, for `fill` to put into the directory cache.
struct FillRequest {
    // Inode number of the directory.
    uint64_t dir;
    // Position of the entry.
    uint64_t entry;
};

// The path of a directory that a lookup has walked, for `learn` to put into the directory-path table.
struct LearnRequest {
    // Inode number of the directory.
    uint64_t dir;
    // Number of a path in the batch that begins with it.
    uint path;
    // Bytes of that path before the slash that ends the directory's.
    uint bytes;
};

// A search, as `find` evaluates it.
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer FilterProgram {
    // Name: states that are on at first.
    uint64_t start;
    // Name: states that stay on.
    uint64_t stays;
    // Name: states that must be on at the end.
    uint64_t end;
    // Lowest size.
    uint64_t size_min;
    // Highest size.
    uint64_t size_max;
    // Earliest time, its sign bit turned, so that unsigned numbers are in order.
    uint64_t time_min;
    // Latest time, its sign bit turned.
    uint64_t time_max;
    // Returns a bit for each type.
    uint kinds;
    // WANTS_ATTRIBUTES, WANTS_DIRECTORIES.
    uint wants;
    // States that each byte leads on from.
    uint64_t leads[256];
};

// Patterns, as `scan` finds them: machines of 64 states, a row of states for each pattern.
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer ScanProgram {
    // Machines in use.
    uint count;
    // Unused.
    uint spare;
    // First state of each pattern.
    uint64_t starts[4];
    // Last state of each pattern.
    uint64_t ends[4];
    // States that stay on as long as their bytes come.
    uint64_t repeats[4];
    // States that a pattern may skip.
    uint64_t optional[4];
    // The state before each row of states that may be skipped.
    uint64_t before[4];
    // The last state of each such row.
    uint64_t last[4];
    // States that each byte leads to, for one machine after the other.
    uint64_t leads[1024];
};

// A portion of a text, for `hash_text`.
struct PortionRecord {
    // Its number in the text.
    uint number;
    // Its length in bytes. With IS_ROOT the text has no other portion.
    uint bytes;
};

// Two chaining values that `hash_join` joins.
struct JoinRecord {
    // Portion whose place has the left value, and will have that of both.
    uint left;
    // Portion whose place has the right value. With IS_ROOT the text has no others.
    uint right;
};

// First unit of an entry that `find` gives; the entry's own units follow, without their first.
struct FindRecord {
    // Inode number of the directory; with LEAF_UNDECIDED the position of the leaf block.
    uint64_t dir;
    // Block of the leaf in the directory (from bit 16 on), unit of the entry (8 bits), flags (8 bits).
    uint64_t order;
};

// A block of a directory's file map, for `leaves`.
struct LeafRequest {
    // Root of the map, as the inode has it.
    uint64_t map;
    // Number of the block, with the depth of the map above it (from LEAF_DEPTH_SHIFT on).
    uint64_t block;
};

// A name to be found by `seek`.
struct SeekRequest {
    // Inode number of the directory; 0: only the hash is wanted.
    uint64_t dir;
    // Offset of the name in the text.
    uint start;
    // Length of the name in bytes.
    uint bytes;
};

// Result of `seek`.
struct SeekAnswer {
    // Root of a directory that has only the region of the hash: form, and position of the leaf or
    // index block.
    uint64_t home;
    // Position of the region's dummy.
    uint64_t dummy;
    // Position of the entry; 0 without one.
    uint64_t at;
    // Inode number of the entry.
    uint64_t ino;
    // Hash of the name.
    uint hash;
    // Entries of the region.
    uint count;
    // Number of the entry's type.
    uint kind;
    // 1: the kernel could decide.
    uint is_certain;
};

// Lists of a batch of changes, for `gather`, `merge` and `build`.
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer ChangeLists {
    // Address of `TaskRecord` for each task.
    uint64_t tasks;
    // Address of the regions that are replaced: positions, each with the form of a directory's root.
    uint64_t sources;
    // Address of the positions of removed entries and dummies, ascending in each task.
    uint64_t removed;
    // Address of `EntryRecord` for each added entry, ascending in each task.
    uint64_t added;
    // Address of `HeadRecord` for each new region.
    uint64_t heads;
    // Address of the entries that stay, sorted, as `gather` writes them.
    uint64_t items;
    // Address of the entries that stay and are added, sorted, as `merge` writes them.
    uint64_t merged;
    // Address of the position that follows each task's entries in the list, as `gather` writes it.
    uint64_t ends;
    // Address of `BuiltRecord` for each new region.
    uint64_t built;
    // Address of `WordsHeader` and the words after it.
    uint64_t words;
    // Tasks.
    uint task_count;
    // New regions of all tasks.
    uint head_count;
    // Entries that stay and are added, of all tasks.
    uint merged_count;
    // Words that there is room for.
    uint room;
};

// A task: regions that are rebuilt together. Ranges are first and end in the lists.
struct TaskRecord {
    // Position of the directory's inode.
    uint64_t inode;
    // First region that is replaced.
    uint sources;
    // End of those.
    uint sources_end;
    // First removed entry.
    uint removed;
    // End of those.
    uint removed_end;
    // First added entry.
    uint added;
    // End of those.
    uint added_end;
    // First new region.
    uint heads;
    // End of those.
    uint heads_end;
    // First entry of the task among those that stay.
    uint items;
    // First entry of the task among those that stay and are added.
    uint merged;
    // Entries that stay.
    uint stay;
    // Lowest hash of the first region.
    uint lowest;
};

// A new region.
struct HeadRecord {
    // Position of its dummy.
    uint64_t dummy;
    // Position of its index block; 0 for a small directory.
    uint64_t index;
    // Number of its task.
    uint task;
    // Its number in the task.
    uint number;
    // 1: the index block is new, so its bytes in the mirror count for nothing.
    uint is_new;
    // Unused.
    uint spare;
};

// An entry of a directory's list.
struct EntryRecord {
    // Position.
    uint64_t at;
    // Hash.
    uint hash;
    // Unused.
    uint spare;
};

// Facts about a region that `build` built.
struct BuiltRecord {
    // Lowest hash.
    uint lowest;
    // Entries.
    uint count;
};

// Header of the words that a batch of changes writes.
struct WordsHeader {
    // Words of the batch; those beyond the room are not written.
    uint count;
    // Not 0: an invocation could not decide, so nothing of the batch counts.
    uint is_bad;
    // Unused.
    uint spare[2];
};

// 8 bytes that the volume writes.
struct ChangedWord {
    // Position.
    uint64_t at;
    // Value.
    uint64_t value;
};

// Letters of fuzzy terms, as `score` finds them: a row for each, and the least score that `best` lists.
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer RankProgram {
    // The first row of each term.
    uint starts;
    // The last row of each term.
    uint ends;
    // Least score that `best` lists, at least 1.
    uint least;
    // Unused.
    uint spare;
    // For each byte of a path the rows that it matches, its bonuses, and its class.
    uint64_t letters[256];
};

// Paths that lie woven, as `score` reads them.
struct PathBundle {
    // Address of their words: the first words of all paths, then the second ones.
    uint64_t words;
    // Length of each path in bytes, 0 after the last one; above MAX_RANKED_PATH the host decides.
    uint lengths[32];
};

// Header of the list of `best`.
struct BestHeader {
    // Paths that are listed; those beyond the room are not written.
    uint count;
    // Unused.
    uint spare;
};

// A path and its score.
struct RankedPath {
    // Number of the path.
    uint number;
    // Its score, or SCORE_UNDECIDED.
    uint score;
};

layout(push_constant, std430) uniform Push {
    Parameters p;
};
