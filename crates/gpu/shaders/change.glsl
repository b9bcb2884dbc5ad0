// What the kernels that change directories have in common. They read the mirror and write words and where these belong; the volume
// writes them to itself. Its twin is `twin/links.rs`.

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

// Something that this invocation met makes no sense, or is not there: nothing of the batch counts.
bool is_bad = false;

void need(bool holds) {
    if (!holds) {
        is_bad = true;
    }
}

// Writes 8 bytes, which belong at a position.
void put(uint64_t at, uint64_t value) {
    ChangedWords to = ChangedWords(change().words);
    uint i = atomicAdd(to.header.count, 1u);
    if (i < change().room) {
        to.word[i] = ChangedWord(at, value);
    }
}

// The last thing that each invocation does.
void end() {
    if (is_bad || fuel == 0u) {
        atomicOr(ChangedWords(change().words).header.is_bad, 1u);
    }
}

uint workgroup() {
    return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

// All of the workgroup come here, and see what the others wrote to shared memory.
void together() {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
}

bool is_below(uint hash, uint64_t at, uint other_hash, uint64_t other_at) {
    return hash < other_hash || hash == other_hash && at < other_at;
}

#define IS_BELOW(k) (low + k * part < high && list.quad[low + k * part] <= at ? 1u : 0u)
#define IS_AT(k) (low + k < high && list.quad[low + k] == at)

// Is a position among those that go? Seven are compared at a time: walks along what goes are long, and reads wait for one another.
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

// The address of an entry or a dummy; 0 where there can be none.
uint64_t entry_address(uint64_t at) {
    uint64_t inside = at % BLOCK;
    bool fits = at % UNIT == 0UL && inside >= LEAF_SIZE && inside + ENTRY_SIZE <= BLOCK;
    uint64_t address = fits ? address_of(at) : 0UL;
    need(address != 0UL);
    return address;
}

uint64_t link_of(uint64_t at, uint link) {
    uint64_t address = entry_address(at);
    return address == 0UL ? 0UL : Quads(address + link).quad[0];
}

// Length of the name, and what else lies in its word.
uint rest_of(uint64_t at) {
    uint64_t address = entry_address(at);
    return address == 0UL ? 0xffffffffu : Words(address + ENTRY_HASH).word[1];
}

bool is_dummy(uint64_t at) {
    return (rest_of(at) & 0xffu) == 0u;
}

// The hash of an entry, which is no dummy.
uint hash_at(uint64_t at) {
    uint rest = rest_of(at);
    need((rest & 0xffu) != 0u && rest >> 16 == 0u);
    uint64_t address = entry_address(at);
    return address == 0UL ? 0u : Words(address + ENTRY_HASH).word[0];
}

// Where a link leads, past all that goes.
uint64_t beyond(TaskRecord task, uint64_t at, uint link) {
    uint64_t to = link_of(at, link);
    for (uint k = task.removed; k <= task.removed_end && burn(); k++) {
        if (to == 0UL || !is_removed(task, to)) {
            return to;
        }
        to = link_of(to, link);
    }
    need(false);
    return 0UL;
}

// The dummy that the index block of a region names.
uint64_t dummy_of(uint64_t index) {
    bool there = index % BLOCK == 0UL;
    uint head = there ? word_at(index, there) : 0u;
    uint64_t dummy = there ? quad_at(index + INDEX_DUMMY, there) : 0UL;
    need(there && (head & 0xffu) == BLOCK_INDEX && is_dummy(dummy));
    return dummy;
}
