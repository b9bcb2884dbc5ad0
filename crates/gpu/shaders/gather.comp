#version 460
// Sorts the entries that stay of a task's regions by hash and position: a workgroup each. For tasks with
// one head it also links them again, in their old order, after the added entries. Its twin is
// `twin/gather.rs`.

#extension GL_GOOGLE_include_directive : require
#define SHARES_MEMORY
#include "prelude.glsl"
#include "change.glsl"

// Entries that stay, in the order in which they were found, and sorted.
shared uint found;
shared uint64_t found_at[REGION_MAX];
shared uint found_hash[REGION_MAX];
shared uint64_t sorted_at[REGION_MAX];
// Entries whose link leads out of the regions.
shared uint tails;

const uint lanes = gl_WorkGroupSize.x;
uint lane() {
    return gl_LocalInvocationID.x;
}

EntryRecord added_at(uint i) {
    return Entries(change().added).entry[i];
}

HeadRecord first_head(TaskRecord task) {
    return Heads(change().heads).head[task.heads];
}

bool has_one_head(TaskRecord task) {
    return task.heads_end - task.heads == 1u;
}

// Keeps an entry of a source, unless it is removed.
void take(TaskRecord task, uint64_t at) {
    if (is_removed(task, at)) {
        return;
    }
    uint i = atomicAdd(found, 1u);
    if (i < REGION_MAX) {
        found_at[i] = at;
    }
}

void take_small(TaskRecord task, uint64_t leaf) {
    uint tags = p.inode_size == 128u ? SMALL_TAGS_128 : SMALL_TAGS_256;
    uint entries = p.inode_size == 128u ? SMALL_ENTRIES_128 : SMALL_ENTRIES_256;
    bool resident = true;
    for (uint i = lane(); i < entries && burn(); i += lanes) {
        uint byte = tags + entries + i;
        uint unit = word_at(task.inode + byte / 4u * 4u, resident) >> (byte % 4u * 8u) & 0xffu;
        if (unit != 0u) {
            take(task, leaf + uint64_t(unit) * UNIT);
        }
    }
    require(resident);
}

void take_region(TaskRecord task, uint64_t index) {
    dummy_of(index);
    bool resident = true;
    // The index must have all entries of the region.
    require(word_at(index + INDEX_UNINDEXED, resident) == 0u);
    for (uint i = lane(); i < BUCKETS * BUCKET_SLOTS && burn(); i += lanes) {
        uint64_t at = (quad_at(index + INDEX_SLOTS + uint64_t(i) * 8UL, resident) >> SLOT_SHIFT) * UNIT;
        if (at != 0UL) {
            take(task, at);
        }
    }
    require(resident);
}

void collect(TaskRecord task) {
    for (uint s = task.sources; s < task.sources_end && burn(); s++) {
        uint64_t source = Quads(change().sources).quad[s];
        uint form = uint(source % BLOCK);
        if (form == FORM_SMALL) {
            take_small(task, source - form);
        } else {
            take_region(task, source - form);
        }
    }
}

void read_hashes(uint count) {
    for (uint i = lane(); i < count && burn(); i += lanes) {
        found_hash[i] = hash_at(found_at[i]);
    }
}

// The index of an entry is the number of those below it.
void sort(TaskRecord task, uint count) {
    for (uint i = lane(); i < count && burn(); i += lanes) {
        uint64_t at = found_at[i];
        uint hash = found_hash[i];
        uint rank = 0u;
        for (uint k = 0u; k < count && burn(); k++) {
            rank += is_below(found_hash[k], found_at[k], hash, at) ? 1u : 0u;
            // An entry that is named twice.
            require(k == i || found_at[k] != at || found_hash[k] != hash);
        }
        sorted_at[rank] = at;
        MadeEntries(change().items).entry[task.items + rank] = EntryRecord(at, hash, 0u);
    }
}

// Returns the dummy of the first region, 0 in a directory without entries.
uint64_t old_dummy(TaskRecord task) {
    if (task.sources == task.sources_end) {
        return 0UL;
    }
    uint64_t source = Quads(change().sources).quad[task.sources];
    uint form = uint(source % BLOCK);
    if (form != FORM_SMALL) {
        return dummy_of(source - form);
    }
    uint64_t dummy = source - form + LEAF_SIZE;
    require(is_dummy(dummy));
    return dummy;
}

// Tells whether a link leads out of the regions.
bool leads_out(uint64_t to) {
    return to == 0UL || is_dummy(to);
}

// Writes a link where it changes.
void set(uint64_t at, uint link, uint64_t to) {
    if (link_of(at, link) != to) {
        write_word(at + link, to);
    }
}

// Returns the predecessor of the entries that stay: the last added one, or the dummy.
uint64_t last_in_front(TaskRecord task) {
    return task.added < task.added_end ? added_at(task.added_end - 1u).at : first_head(task).dummy;
}

void relink(TaskRecord task, uint count, uint64_t old) {
    for (uint i = lane(); i < count && burn(); i += lanes) {
        uint64_t at = sorted_at[i];
        uint64_t next = follow(task, at, ENTRY_NEXT);
        bool is_tail = leads_out(next);
        if (is_tail) {
            atomicAdd(tails, 1u);
            MadeQuads(change().ends).quad[workgroup()] = next;
        }
        if (has_one_head(task)) {
            set(at, ENTRY_NEXT, next);
            if (is_tail && next != 0UL) {
                set(next, ENTRY_PREVIOUS, at);
            }
            uint64_t previous = follow(task, at, ENTRY_PREVIOUS);
            set(at, ENTRY_PREVIOUS, previous == old ? last_in_front(task) : previous);
        }
    }
}

// Links the dummy with its successor, and, where no entry stays, the position that follows with its
// predecessor.
void open(TaskRecord task, uint count, uint64_t first) {
    uint64_t dummy = first_head(task).dummy;
    uint64_t to = task.added < task.added_end ? added_at(task.added).at : first;
    if (task.sources == task.sources_end) {
        write_word(dummy + ENTRY_NEXT, to);
    } else {
        set(dummy, ENTRY_NEXT, to);
    }
    if (count == 0u && first != 0UL) {
        set(first, ENTRY_PREVIOUS, last_in_front(task));
    }
    if (task.added < task.added_end) {
        write_word(added_at(task.added_end - 1u).at + ENTRY_NEXT, first);
    }
}

// Links the added entries, in order, after the dummy.
void link_added(TaskRecord task) {
    uint64_t before = first_head(task).dummy;
    for (uint i = task.added + lane(); i < task.added_end && burn(); i += lanes) {
        write_word(added_at(i).at + ENTRY_PREVIOUS, i == task.added ? before : added_at(i - 1u).at);
        if (i + 1u < task.added_end) {
            write_word(added_at(i).at + ENTRY_NEXT, added_at(i + 1u).at);
        }
    }
}

void main() {
    // A dispatch may have more workgroups than tasks: no invocation returns before the last barrier.
    bool is_task = workgroup() < change().task_count;
    TaskRecord task = Tasks(change().tasks).task[is_task ? workgroup() : 0u];
    fuel = p.fuel;
    if (lane() == 0u) {
        found = 0u;
        tails = 0u;
    }
    workgroup_barrier();
    if (is_task) {
        collect(task);
    }
    workgroup_barrier();
    require(!is_task || found == task.stay);
    uint count = is_task && found == task.stay ? task.stay : 0u;
    read_hashes(count);
    workgroup_barrier();
    sort(task, count);
    workgroup_barrier();
    uint64_t old = is_task ? old_dummy(task) : 0UL;
    if (is_task) {
        relink(task, count, old);
    }
    workgroup_barrier();
    if (is_task && lane() == 0u) {
        bool has_sources = task.sources < task.sources_end;
        uint64_t first = has_sources ? follow(task, old, ENTRY_NEXT) : 0UL;
        require(!has_sources || first_head(task).dummy == old);
        // The dummy leads to the entries that stay, or, without any, to the position that follows.
        require(leads_out(first) == (count == 0u) && tails == (count == 0u ? 0u : 1u));
        if (has_one_head(task)) {
            open(task, count, first);
        }
        if (count == 0u) {
            MadeQuads(change().ends).quad[workgroup()] = first;
        }
    }
    if (is_task && has_one_head(task)) {
        link_added(task);
    }
    if (is_task) {
        finish();
    }
}
