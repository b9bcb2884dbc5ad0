// Texts whose strips are woven: the first words of WOVEN_STRIPS of them lie together, then the second ones.
// So neighbouring invocations, each with a strip, read neighbouring words. Its twin is `twin/woven.rs`.

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer Text { uvec4 word[]; };

// Returns the place of a word of a strip among the words of all. Each strip has `words` of them.
uint woven(uint strip, uint word, uint words) {
    return strip / WOVEN_STRIPS * (WOVEN_STRIPS * words) + word * WOVEN_STRIPS + strip % WOVEN_STRIPS;
}
