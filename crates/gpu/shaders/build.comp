#version 460
// Builds the index of a region, and, for tasks with several heads, its part of the list: a workgroup for
// each head. Its twin is `twin/build.rs`.

#extension GL_GOOGLE_include_directive : require
#define SHARES_MEMORY
#include "prelude.glsl"
#include "change.glsl"

const uint SLOTS = BUCKETS * BUCKET_SLOTS;
const uint NONE = 0xffffffffu;
const uint ALL_TAKEN = (1u << BUCKET_SLOTS) - 1u;

layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer BuiltRegions { BuiltRecord region[]; };

// Entries of the region.
shared uint64_t element_at[REGION_MAX];
shared uint element_hash[REGION_MAX];
// The new index, and for each bucket a bit for each slot in use.
shared uint64_t slots[SLOTS];
shared uint taken[BUCKETS];
// Entries that overflow their bucket, as a list in order: the first, and the next of each.
shared uint first_left[BUCKETS];
shared uint next_left[REGION_MAX];

const uint lanes = gl_WorkGroupSize.x;
uint lane() {
    return gl_LocalInvocationID.x;
}

EntryRecord merged_at(uint i) {
    return Entries(change().merged).entry[i];
}

// Returns the first entry of a task's region: regions have about the same size, and entries with the same
// hash share one.
uint cut(TaskRecord task, uint number) {
    uint count = task.stay + (task.added_end - task.added);
    uint i = uint(uint64_t(number) * uint64_t(count) / uint64_t(task.heads_end - task.heads));
    while (i > 0u && i < count && merged_at(task.merged + i - 1u).hash == merged_at(task.merged + i).hash && burn()) {
        i--;
    }
    return i;
}

uint home_of(uint hash) {
    return (hash & 0xffffu) * BUCKETS >> 16;
}

uint64_t slot_of(uint i) {
    return element_at[i] / UNIT << SLOT_SHIFT | uint64_t(element_hash[i] & 0xffffu);
}

uint64_t old_slot(HeadRecord head, uint i) {
    bool resident = true;
    uint64_t slot = quad_at(head.index + INDEX_SLOTS + uint64_t(i) * 8UL, resident);
    require(resident);
    return slot;
}

// Writes tags and units of a small directory into its inode.
void small(TaskRecord task, HeadRecord head, uint count) {
    uint tags = p.inode_size == 128u ? SMALL_TAGS_128 : SMALL_TAGS_256;
    uint entries = p.inode_size == 128u ? SMALL_ENTRIES_128 : SMALL_ENTRIES_256;
    require(count <= entries);
    for (uint i = lane(); i < count && i < entries; i += lanes) {
        require(element_at[i] / BLOCK == head.dummy / BLOCK);
    }
    for (uint q = lane(); q < entries / 4u && burn(); q += lanes) {
        uint64_t value = 0UL;
        for (uint k = 0u; k < 8u && burn(); k++) {
            uint byte = 8u * q + k;
            uint i = byte % entries;
            if (i < count) {
                uint unit = uint(element_at[i] % BLOCK / UNIT);
                value |= uint64_t(byte < entries ? element_hash[i] >> 24 : unit) << (8u * k);
            }
        }
        write_word(task.inode + tags + uint64_t(q) * 8UL, value);
    }
}

// Fills a bucket with its entries; an entry that lies there already keeps its slot.
void fill_bucket(HeadRecord head, uint bucket, uint count) {
    uint base = bucket * BUCKET_SLOTS;
    uint used = 0u;
    for (uint i = 0u; i < BUCKET_SLOTS; i++) {
        slots[base + i] = head.is_new != 0u ? 0UL : old_slot(head, base + i);
    }
    slots[base] &= ~uint64_t(SLOT_OVERFLOW);
    for (uint e = 0u; e < count && head.is_new == 0u && burn(); e++) {
        if (home_of(element_hash[e]) != bucket) {
            continue;
        }
        uint64_t slot = slot_of(e);
        next_left[e] = NONE;
        for (uint i = 0u; i < BUCKET_SLOTS; i++) {
            if (slots[base + i] == slot) {
                used |= 1u << i;
                next_left[e] = e;
            }
        }
    }
    for (uint i = 0u; i < BUCKET_SLOTS; i++) {
        slots[base + i] = (used >> i & 1u) != 0u ? slots[base + i] : 0UL;
    }
    uint first = NONE;
    uint last = NONE;
    for (uint e = 0u; e < count && burn(); e++) {
        // An entry that keeps its slot is its own successor.
        if (home_of(element_hash[e]) != bucket || head.is_new == 0u && next_left[e] == e) {
            continue;
        }
        if (used != ALL_TAKEN) {
            uint i = uint(findLSB(~used));
            used |= 1u << i;
            slots[base + i] = slot_of(e);
            continue;
        }
        next_left[e] = NONE;
        if (first == NONE) {
            first = e;
        } else {
            next_left[last] = e;
        }
        last = e;
    }
    taken[bucket] = used;
    first_left[bucket] = first;
}

// Puts entries that overflow their bucket into the next bucket with a free slot, and marks the buckets that
// they pass.
void spill() {
    for (uint home = 0u; home < BUCKETS && burn(); home++) {
        uint bucket = home;
        for (uint e = first_left[home]; e != NONE && burn(); e = next_left[e]) {
            while (taken[bucket] == ALL_TAKEN && burn()) {
                slots[bucket * BUCKET_SLOTS] |= uint64_t(SLOT_OVERFLOW);
                bucket = (bucket + 1u) % BUCKETS;
            }
            // The bucket has a free slot, unless the fuel ran out.
            uint i = min(uint(findLSB(~taken[bucket])), BUCKET_SLOTS - 1u);
            taken[bucket] |= 1u << i;
            slots[bucket * BUCKET_SLOTS + i] = slot_of(e);
        }
    }
}

void write_slots(HeadRecord head) {
    for (uint i = lane(); i < SLOTS && burn(); i += lanes) {
        uint64_t old = head.is_new != 0u ? 0UL : old_slot(head, i);
        if (old != slots[i]) {
            write_word(head.index + INDEX_SLOTS + uint64_t(i) * 8UL, slots[i]);
        }
    }
}

// Links the region's part of the list, in order, between its dummy and the next one.
void link(TaskRecord task, HeadRecord head, uint from, uint count) {
    bool is_last = head.number + 1u == task.heads_end - task.heads;
    uint64_t after = Quads(change().ends).quad[head.task];
    uint next_head = min(task.heads + head.number + 1u, task.heads_end - 1u);
    uint64_t end = is_last ? after : Heads(change().heads).head[next_head].dummy;
    for (uint i = lane(); i < count && burn(); i += lanes) {
        write_word(element_at[i] + ENTRY_PREVIOUS, i == 0u ? head.dummy : element_at[i - 1u]);
        write_word(element_at[i] + ENTRY_NEXT, i + 1u == count ? end : element_at[i + 1u]);
    }
    if (lane() == 0u && count > 0u) {
        write_word(head.dummy + ENTRY_NEXT, element_at[0]);
        require(head.number == 0u || from > 0u);
        if (head.number > 0u && from > 0u) {
            write_word(head.dummy + ENTRY_PREVIOUS, merged_at(task.merged + from - 1u).at);
        }
        if (is_last && after != 0UL) {
            write_word(after + ENTRY_PREVIOUS, element_at[count - 1u]);
        }
    }
}

void main() {
    // A dispatch may have more workgroups than heads: no invocation returns before the last barrier.
    bool is_head = workgroup() < change().head_count;
    HeadRecord head = Heads(change().heads).head[is_head ? workgroup() : 0u];
    TaskRecord task = Tasks(change().tasks).task[head.task];
    fuel = p.fuel;
    uint heads = task.heads_end - task.heads;
    uint from = is_head ? cut(task, head.number) : 0u;
    uint to = is_head ? cut(task, head.number + 1u) : 0u;
    bool fits = from <= to && to - from <= REGION_MAX && (to > from || heads == 1u);
    require(!is_head || fits);
    uint count = is_head && fits ? to - from : 0u;
    for (uint i = lane(); i < count && burn(); i += lanes) {
        EntryRecord element = merged_at(task.merged + from + i);
        element_at[i] = element.at;
        element_hash[i] = element.hash;
    }
    workgroup_barrier();
    bool has_block = is_head && head.index != 0UL;
    if (is_head && !has_block) {
        small(task, head, count);
    }
    for (uint bucket = lane(); bucket < BUCKETS && has_block && burn(); bucket += lanes) {
        fill_bucket(head, bucket, count);
    }
    workgroup_barrier();
    if (has_block && lane() == 0u) {
        spill();
    }
    workgroup_barrier();
    if (has_block) {
        write_slots(head);
    }
    if (is_head && heads > 1u) {
        link(task, head, from, count);
    }
    if (is_head && lane() == 0u) {
        uint lowest = head.number == 0u || count == 0u ? task.lowest : element_hash[0];
        BuiltRegions(change().built).region[workgroup()] = BuiltRecord(lowest, count);
    }
    if (is_head) {
        finish();
    }
}
