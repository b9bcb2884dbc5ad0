// Code of all kernels that change directories. They read the mirror and write words with their positions,
// which the volume writes to itself. Its twin is `twin/links.rs`.

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Tasks { TaskRecord task[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Heads { HeadRecord head[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Entries { EntryRecord entry[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer MadeEntries { EntryRecord entry[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer MadeQuads { uint64_t quad[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer ChangedWords {
    WordsHeader header;
    ChangedWord word[];
};

ChangeLists change() {
    return ChangeLists(p.text);
}

// This invocation met a structure that makes no sense, or is absent: no word of the batch counts.
bool is_bad = false;

void require(bool holds) {
    if (!holds) {
        is_bad = true;
    }
}

// Adds a word of 8 bytes for a position.
void write_word(uint64_t at, uint64_t value) {
    ChangedWords to = ChangedWords(change().words);
    uint i = atomicAdd(to.header.count, 1u);
    if (i < change().room) {
        to.word[i] = ChangedWord(at, value);
    }
}

// Reports a failed invocation; the last call of each.
void finish() {
    if (is_bad || fuel == 0u) {
        atomicOr(ChangedWords(change().words).header.is_bad, 1u);
    }
}

uint workgroup() {
    return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

// Waits for the whole workgroup; each invocation then sees the writes of the others to shared memory.
void workgroup_barrier() {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
}

bool is_below(uint hash, uint64_t at, uint other_hash, uint64_t other_at) {
    return hash < other_hash || hash == other_hash && at < other_at;
}

#define IS_BELOW(k) (low + k * part < high && list.quad[low + k * part] <= at ? 1u : 0u)
#define IS_AT(k) (low + k < high && list.quad[low + k] == at)

// Tells whether a position is removed. Compares seven at a time: walks along removed entries are long, and
// reads wait for one another.
bool is_removed(TaskRecord task, uint64_t at) {
    Quads list = Quads(change().removed);
    uint low = task.removed;
    uint high = task.removed_end;
    while (high - low > 8u && burn()) {
        uint part = (high - low + 7u) / 8u;
        low += part * (IS_BELOW(1u) + IS_BELOW(2u) + IS_BELOW(3u) + IS_BELOW(4u) + IS_BELOW(5u) + IS_BELOW(6u) + IS_BELOW(7u));
        high = min(high, low + part);
    }
    return IS_AT(0u) || IS_AT(1u) || IS_AT(2u) || IS_AT(3u) || IS_AT(4u) || IS_AT(5u) || IS_AT(6u) || IS_AT(7u);
}

// Returns the address of an entry or a dummy; 0 where none can lie.
uint64_t entry_address(uint64_t at) {
    uint64_t inside = at % BLOCK;
    bool fits = at % UNIT == 0UL && inside >= LEAF_SIZE && inside + ENTRY_SIZE <= BLOCK;
    uint64_t address = fits ? address_of(at) : 0UL;
    require(address != 0UL);
    return address;
}

uint64_t link_of(uint64_t at, uint link) {
    uint64_t address = entry_address(at);
    return address == 0UL ? 0UL : Quads(address + link).quad[0];
}

// Returns the word with the length of the name.
uint name_word(uint64_t at) {
    uint64_t address = entry_address(at);
    return address == 0UL ? 0xffffffffu : Words(address + ENTRY_HASH).word[1];
}

bool is_dummy(uint64_t at) {
    return (name_word(at) & 0xffu) == 0u;
}

// Returns the hash of an entry, which is no dummy.
uint hash_at(uint64_t at) {
    uint rest = name_word(at);
    require((rest & 0xffu) != 0u && rest >> 16 == 0u);
    uint64_t address = entry_address(at);
    return address == 0UL ? 0u : Words(address + ENTRY_HASH).word[0];
}

// Follows a link past all removed entries.
uint64_t follow(TaskRecord task, uint64_t at, uint link) {
    uint64_t to = link_of(at, link);
    for (uint k = task.removed; k <= task.removed_end && burn(); k++) {
        if (to == 0UL || !is_removed(task, to)) {
            return to;
        }
        to = link_of(to, link);
    }
    require(false);
    return 0UL;
}

// Returns the dummy that the index block of a region names.
uint64_t dummy_of(uint64_t index) {
    bool resident = index % BLOCK == 0UL;
    uint head = resident ? word_at(index, resident) : 0u;
    uint64_t dummy = resident ? quad_at(index + INDEX_DUMMY, resident) : 0UL;
    require(resident && (head & 0xffu) == BLOCK_INDEX && is_dummy(dummy));
    return dummy;
}
