// Lists that one kernel fills for another. The other is dispatched with as many workgroups as the header
// says.

layout(buffer_reference, std430, buffer_reference_align = 16) buffer Lists { ListHeader header[3]; };

// Returns the index of a new element, which must not be written where it is not below `room`.
uint reserve(uint list, uint room) {
    uint i = atomicAdd(Lists(p.lists).header[list].count, 1u, gl_ScopeQueueFamily, 0, 0);
    if (i < room && i % gl_WorkGroupSize.x == 0u) {
        atomicAdd(Lists(p.lists).header[list].groups, 1u, gl_ScopeQueueFamily, 0, 0);
    }
    return i;
}

// Returns the number of elements that were written.
uint list_length(uint list, uint room) {
    return min(Lists(p.lists).header[list].count, room);
}
