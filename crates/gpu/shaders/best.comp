#version 460
// Lists the paths with at least some score, and those that are undecided: an invocation for 32 paths. Its
// twin is `twin/best.rs`.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer Scores { uint score[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Best {
    BestHeader header;
    RankedPath path[];
};

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint lanes = gl_WorkGroupSize.x;
    // The workgroup's paths, of which neighbouring invocations take neighbouring ones.
    uint first = (invocation() - lane) * STRIDE_PATHS + lane;
    uint least = RankProgram(p.text).least;
    fuel = p.fuel;
    uint listed = 0u;
    for (uint k = 0u; k < STRIDE_PATHS && burn(); k++) {
        uint path = first + k * lanes;
        bool is_listed = path < p.count && Scores(p.starts).score[path] >= least;
        listed |= (is_listed ? 1u : 0u) << k;
    }
    if (listed == 0u) {
        return;
    }
    uint to = atomicAdd(Best(p.answers).header.count, uint(bitCount(listed)), gl_ScopeQueueFamily, 0, 0);
    while (listed != 0u && burn()) {
        uint path = first + uint(findLSB(listed)) * lanes;
        listed &= listed - 1u;
        if (to < p.room) {
            Best(p.answers).path[to++] = RankedPath(path, Scores(p.starts).score[path]);
        }
    }
}
