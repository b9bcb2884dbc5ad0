#version 460
// Counts how many paths have each score: an invocation for 32 paths. Its twin is `twin/tally.rs`.

#extension GL_GOOGLE_include_directive : require
#define SHARES_MEMORY
#include "prelude.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer Scores { uint score[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Tally { uint count[]; };

// The counts of a workgroup.
shared uint counts[SCORE_BUCKETS];

// Returns the bucket of a score. The first one counts the paths that are undecided: without a match there is
// no score of 0.
uint bucket(uint score) {
    return score == SCORE_UNDECIDED ? 0u : min(score, SCORE_BUCKETS - 1u);
}

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint lanes = gl_WorkGroupSize.x;
    // The workgroup's paths, of which neighbouring invocations take neighbouring ones.
    uint first = (invocation() - lane) * STRIDE_PATHS + lane;
    fuel = p.fuel;
    for (uint b = lane; b < SCORE_BUCKETS && burn(); b += lanes) {
        counts[b] = 0u;
    }
    barrier();
    for (uint k = 0u; k < STRIDE_PATHS && burn(); k++) {
        uint path = first + k * lanes;
        uint score = path < p.count ? Scores(p.starts).score[path] : 0u;
        if (score != 0u) {
            atomicAdd(counts[bucket(score)], 1u);
        }
    }
    barrier();
    for (uint b = lane; b < SCORE_BUCKETS && burn(); b += lanes) {
        if (counts[b] != 0u) {
            atomicAdd(Tally(p.answers).count[b], counts[b]);
        }
    }
}
