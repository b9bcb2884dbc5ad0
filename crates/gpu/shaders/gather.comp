#version 460
// What stays of the regions of a task, by hash and position: a workgroup each. Of tasks with one head it also links it anew, in its old
// order, behind what is added. Its twin is `twin/gather.rs`.

#extension GL_GOOGLE_include_directive : require
#define SHARES_MEMORY
#include "prelude.glsl"
#include "change.glsl"

// What stays, in the order in which it was found, and sorted.
shared uint found;
shared uint64_t found_at[REGION_MAX];
shared uint found_hash[REGION_MAX];
shared uint64_t sorted_at[REGION_MAX];
// Entries behind which the list goes on outside of the regions.
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

// What is found in a source stays, unless it goes.
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
    bool there = true;
    for (uint i = lane(); i < entries && burn(); i += lanes) {
        uint byte = tags + entries + i;
        uint unit = word_at(task.inode + byte / 4u * 4u, there) >> (byte % 4u * 8u) & 0xffu;
        if (unit != 0u) {
            take(task, leaf + uint64_t(unit) * UNIT);
        }
    }
    need(there);
}

void take_region(TaskRecord task, uint64_t index) {
    dummy_of(index);
    bool there = true;
    for (uint i = lane(); i < BUCKETS * BUCKET_SLOTS && burn(); i += lanes) {
        uint64_t at = (quad_at(index + INDEX_SLOTS + uint64_t(i) * 8UL, there) >> SLOT_SHIFT) * UNIT;
        if (at != 0UL) {
            take(task, at);
        }
    }
    need(there);
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

// The place of each is how many are below it.
void sort(TaskRecord task, uint count) {
    for (uint i = lane(); i < count && burn(); i += lanes) {
        uint64_t at = found_at[i];
        uint hash = found_hash[i];
        uint rank = 0u;
        for (uint k = 0u; k < count && burn(); k++) {
            rank += is_below(found_hash[k], found_at[k], hash, at) ? 1u : 0u;
            // One that is named twice.
            need(k == i || found_at[k] != at || found_hash[k] != hash);
        }
        sorted_at[rank] = at;
        MadeEntries(change().items).entry[task.items + rank] = EntryRecord(at, hash, 0u);
    }
}

// The dummy that there is, 0 in a directory without entries.
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
    need(is_dummy(dummy));
    return dummy;
}

// Does the list go on outside of the regions here?
bool leads_out(uint64_t to) {
    return to == 0UL || is_dummy(to);
}

// Writes a link where it becomes another one.
void set(uint64_t at, uint link, uint64_t to) {
    if (link_of(at, link) != to) {
        put(at + link, to);
    }
}

// What comes in front of what stays: the last that is added, or the dummy.
uint64_t last_in_front(TaskRecord task) {
    return task.added < task.added_end ? added_at(task.added_end - 1u).at : first_head(task).dummy;
}

void relink(TaskRecord task, uint count, uint64_t old) {
    for (uint i = lane(); i < count && burn(); i += lanes) {
        uint64_t at = sorted_at[i];
        uint64_t next = beyond(task, at, ENTRY_NEXT);
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
            uint64_t previous = beyond(task, at, ENTRY_PREVIOUS);
            set(at, ENTRY_PREVIOUS, previous == old ? last_in_front(task) : previous);
        }
    }
}

// Links the dummy with what comes behind it, and, where nothing stays, what follows with what comes in front.
void open(TaskRecord task, uint count, uint64_t first) {
    uint64_t dummy = first_head(task).dummy;
    uint64_t to = task.added < task.added_end ? added_at(task.added).at : first;
    if (task.sources == task.sources_end) {
        put(dummy + ENTRY_NEXT, to);
    } else {
        set(dummy, ENTRY_NEXT, to);
    }
    if (count == 0u && first != 0UL) {
        set(first, ENTRY_PREVIOUS, last_in_front(task));
    }
    if (task.added < task.added_end) {
        put(added_at(task.added_end - 1u).at + ENTRY_NEXT, first);
    }
}

// Links what is added, in order, behind the dummy.
void link_added(TaskRecord task) {
    uint64_t before = first_head(task).dummy;
    for (uint i = task.added + lane(); i < task.added_end && burn(); i += lanes) {
        put(added_at(i).at + ENTRY_PREVIOUS, i == task.added ? before : added_at(i - 1u).at);
        if (i + 1u < task.added_end) {
            put(added_at(i).at + ENTRY_NEXT, added_at(i + 1u).at);
        }
    }
}

void main() {
    // More workgroups than tasks come here too: nobody leaves before the last barrier.
    bool is_task = workgroup() < change().task_count;
    TaskRecord task = Tasks(change().tasks).task[is_task ? workgroup() : 0u];
    fuel = p.fuel;
    if (lane() == 0u) {
        found = 0u;
        tails = 0u;
    }
    together();
    if (is_task) {
        collect(task);
    }
    together();
    need(!is_task || found == task.stay);
    uint count = is_task && found == task.stay ? task.stay : 0u;
    read_hashes(count);
    together();
    sort(task, count);
    together();
    uint64_t old = is_task ? old_dummy(task) : 0UL;
    if (is_task) {
        relink(task, count, old);
    }
    together();
    if (is_task && lane() == 0u) {
        bool has_sources = task.sources < task.sources_end;
        uint64_t first = has_sources ? beyond(task, old, ENTRY_NEXT) : 0UL;
        need(!has_sources || first_head(task).dummy == old);
        // The dummy leads to what stays, if something does, and else to what follows.
        need(leads_out(first) == (count == 0u) && tails == (count == 0u ? 0u : 1u));
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
        end();
    }
}
