#version 460
// Merges the entries that stay of a task with those that are added, by hash and position: an invocation for
// each entry. Its twin is `twin/merge.rs`.

#extension GL_GOOGLE_include_directive : require
#define SHARES_MEMORY
#include "prelude.glsl"
#include "change.glsl"

// Counts the entries of a sorted list below an entry; none of them may be the same.
uint rank_in(uint64_t list, uint from, uint to, EntryRecord element) {
    uint low = from;
    uint high = to;
    while (low < high && burn()) {
        uint middle = low + (high - low) / 2u;
        EntryRecord resident = Entries(list).entry[middle];
        if (is_below(resident.hash, resident.at, element.hash, element.at)) {
            low = middle + 1u;
        } else {
            require(resident.hash != element.hash || resident.at != element.at);
            high = middle;
        }
    }
    return low - from;
}

// Returns the task with entry `i`: the last one that does not begin after it.
TaskRecord task_of(uint i) {
    uint low = 0u;
    uint high = change().task_count;
    while (high - low > 1u && burn()) {
        uint middle = low + (high - low) / 2u;
        if (Tasks(change().tasks).task[middle].merged <= i) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return Tasks(change().tasks).task[low];
}

void main() {
    uint i = invocation();
    if (i >= change().merged_count) {
        return;
    }
    fuel = p.fuel;
    TaskRecord task = task_of(i);
    uint number = i - task.merged;
    bool stays = number < task.stay;
    uint64_t items = change().items;
    uint64_t added = change().added;
    EntryRecord element;
    uint rank;
    if (stays) {
        element = Entries(items).entry[task.items + number];
        rank = number + rank_in(added, task.added, task.added_end, element);
    } else {
        number -= task.stay;
        element = Entries(added).entry[task.added + number];
        rank = number + rank_in(items, task.items, task.items + task.stay, element);
    }
    MadeEntries(change().merged).entry[task.merged + rank] = element;
    finish();
}
