// The number of an invocation, and its fuel: the rounds of all loops that it has left.

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
