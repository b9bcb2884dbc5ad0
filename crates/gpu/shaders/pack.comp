#version 460
// Packs the answers to lookups for a host that asks only whether paths exist: an invocation for each 32 of
// them. So two bits a path come down, and not an answer. Its twin is `twin/pack.rs`.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "answers.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly buffer Packed {
    HostHeader header;
    PackedAnswers answers[];
};

PackedAnswers pack(uint first, uint count) {
    PackedAnswers bits = PackedAnswers(0u, 0u);
    for (uint k = 0u; k < count; k++) {
        uint code = Answers(p.answers).answer[first + k].code;
        bool is_open = (code & 0xffu) == CODE_UNFINISHED || code == CODE_NOT_RESIDENT;
        bits.found |= code == CODE_SUCCESS ? 1u << k : 0u;
        bits.open |= is_open ? 1u << k : 0u;
    }
    return bits;
}

void main() {
    uint i = invocation();
    if (i == 0u) {
        Packed(p.for_host).header.unfinished = Answers(p.answers).header.unfinished;
    }
    uint first = i * 32u;
    if (first < p.count) {
        Packed(p.for_host).answers[i] = pack(first, min(p.count - first, 32u));
    }
}
