// What a batch's kernels are told: a block of memory, whose address is all that is pushed.

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer Parameters {
    // The mirror: an address for each chunk of the volume, and behind them the number of each one's copy.
    uint64_t chunks;
    uint64_t chunk_count;
    // A version for each block of the mirror.
    uint64_t versions;
    // The directory cache.
    uint64_t cache;
    // Two words for each path: where it begins in the text, a multiple of 4, and its length.
    uint64_t starts;
    uint64_t text;
    uint64_t answers;
    // Where the first INODE_SIZE bytes of each inode found go; 0 where nobody asked for them.
    uint64_t cores;
    // What went through the tree: a count, and from the 16th byte on directories and entries.
    uint64_t notes;
    uint64_t root;
    uint64_t base;
    uint64_t groups;
    uvec4 seed;
    uint count;
    uint inode_size;
    uint follow;
    // Of the cache; 0 for none.
    uint buckets;
    // Versions that there are, notes that there is room for.
    uint version_count;
    uint note_room;
    // Rounds of all loops of an invocation.
    uint fuel;
    // Goes on with what the last dispatch did not finish.
    uint resume;
    // Permissions are checked, of this user in these groups.
    uint is_checked;
    uint uid;
    uint gid;
    uint group_count;
    // Number of this dispatch: who puts it into a place of the cache may write there.
    uint claim;
};

layout(push_constant, std430) uniform Push {
    Parameters p;
};

// Number of this invocation.
uint invocation() {
    return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
}

// What is left of the rounds. Where it is nothing, loops have ended early, and nothing that they gave counts.
uint fuel = 0u;

void spend(uint rounds) {
    fuel -= min(fuel, rounds);
}

// One more round?
bool burn() {
    if (fuel == 0u) {
        return false;
    }
    fuel--;
    return true;
}
