// Answers to lookups.

layout(buffer_reference, std430, buffer_reference_align = 16) restrict buffer Answers {
    AnswersHeader header;
    LookupAnswer answer[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Paths { PathRange path[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer Indexes { uint index[]; };

LookupAnswer failed(uint code) {
    return LookupAnswer(code, 0u, 0UL);
}
