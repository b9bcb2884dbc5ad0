// The number of an invocation, and its fuel: the rounds of all loops that it has left.

// Number of this invocation.
uint invocation() {
    return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
}

// Rounds left. With none, loops have ended early, and their results do not count.
uint fuel = 0u;

void spend(uint rounds) {
    fuel -= min(fuel, rounds);
}

// Uses up one round; false where none is left.
bool burn() {
    if (fuel == 0u) {
        return false;
    }
    fuel--;
    return true;
}
