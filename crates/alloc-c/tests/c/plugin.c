// Loaded and unloaded by loads.c: a constructor, a destructor and thread-local memory.
#include <stdlib.h>
#include <string.h>

static char *held;
static __thread char local[3000] = {1};

__attribute__((constructor)) static void begin(void) {
    held = malloc(5000);
    memset(held, 42, 5000);
}

__attribute__((destructor)) static void end(void) { free(held); }

char *make(size_t size) {
    char *made = malloc(size);
    memset(made, local[0] + held[0], size);
    local[0] = 1;
    return made;
}
