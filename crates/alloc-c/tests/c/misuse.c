// Does one thing that no program may do, named by the first argument; prints "survived" if the library did
// not find it.
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { SIZE = 40, OTHERS = 300 };

static char *others[2 * OTHERS], fixed[1 << 20], small_fixed[16];

// Frees so many objects of the same size that a magazine overflows.
static void free_others(int from) {
    for (int i = from; i < from + OTHERS; i++) free(others[i]);
}

// Allocates an object of a fresh size class: the thread takes the objects that other threads freed.
static void take_inbox(void) { free(malloc(20000)); }

static void *free_in_thread(void *object) {
    free(object);
    return NULL;
}

static void *free_twice_in_thread(void *object) {
    free(object);
    free(object);
    return NULL;
}

static void in_thread(void *(*work)(void *), void *object) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, object) != 0) exit(3);
    pthread_join(thread, NULL);
}

int main(int count, char **arguments) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (count != 2) return 2;
    // printf must not allocate: after a tick the library would find a misuse there; the test expects none.
    static char buffer[BUFSIZ];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    for (int i = 0; i < 2 * OTHERS; i++) others[i] = malloc(SIZE);
    char *object = malloc(SIZE), large_local[1 << 20], *what = arguments[1];
    // The compiler must not know the object of an address.
    char *volatile address = object;
    memset(object, 'x', SIZE);
    if (strcmp(what, "nothing") == 0) {
        in_thread(free_in_thread, object);
        take_inbox();
        free_others(0);
        free_others(OTHERS);
        free(malloc(1 << 20));
    } else if (strcmp(what, "free-twice-and-end") == 0) {
        free(object);
        free(address);
    } else if (strcmp(what, "free-twice") == 0) {
        free(object);
        free(address);
        free_others(0);
    } else if (strcmp(what, "free-twice-late") == 0) {
        free(object);
        free_others(0);
        free(address);
        free_others(OTHERS);
    } else if (strcmp(what, "free-twice-there") == 0) {
        free(object);
        in_thread(free_in_thread, address);
        take_inbox();
        free_others(0);
    } else if (strcmp(what, "free-late-there") == 0) {
        free(object);
        free_others(0);
        in_thread(free_in_thread, address);
        take_inbox();
    } else if (strcmp(what, "free-there-then-here") == 0) {
        in_thread(free_in_thread, object);
        take_inbox();
        free(address);
        free_others(0);
    } else if (strcmp(what, "free-twice-in-thread") == 0) {
        in_thread(free_twice_in_thread, address);
        take_inbox();
    } else if (strcmp(what, "free-large-twice") == 0) {
        address = malloc(1 << 20);
        memset(address, 'x', 1 << 20);
        free(address);
        free(address);
    } else if (strcmp(what, "free-mapped-twice") == 0) {
        address = malloc(100 << 20);
        free(address);
        free(address);
    } else if (strcmp(what, "free-stack") == 0) {
        memset(large_local, 'x', sizeof large_local);
        address = large_local + sizeof large_local / 2;
        free(address);
    } else if (strcmp(what, "free-small-stack") == 0) {
        address = (char *)&none;
        free(address);
    } else if (strcmp(what, "free-static") == 0) {
        memset(fixed, 'x', sizeof fixed);
        address = fixed + sizeof fixed / 2;
        free(address);
    } else if (strcmp(what, "free-small-static") == 0) {
        address = small_fixed;
        free(address);
    } else if (strcmp(what, "free-mapping") == 0) {
        address = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        address += 1 << 19;
        free(address);
    } else if (strcmp(what, "free-null-and-8") == 0) {
        address = (char *)8;
        free(address);
    } else if (strcmp(what, "free-middle") == 0) {
        address = object + 8;
        free(address);
        free_others(0);
    } else if (strcmp(what, "free-header") == 0) {
        // Inside the header of the object's unit.
        address = (char *)((size_t)object & ~(size_t)((256 << 10) - 1)) + 16;
        free(address);
        free_others(0);
    } else if (strcmp(what, "free-middle-there") == 0) {
        address = object + 8;
        in_thread(free_in_thread, address);
        take_inbox();
    } else if (strcmp(what, "free-large-middle") == 0) {
        address = (char *)malloc(1 << 20) + 1000;
        free(address);
    } else if (strcmp(what, "free-large-far") == 0) {
        address = malloc(1 << 20);
        memset(address, 'x', 1 << 20);
        address += 500000;
        free(address);
    } else if (strcmp(what, "free-mapped-middle") == 0) {
        address = malloc(100 << 20);
        address += 50 << 20;
        free(address);
    } else if (strcmp(what, "resize-static") == 0) {
        memset(fixed, 'x', sizeof fixed);
        address = fixed + sizeof fixed / 2;
        address = realloc(address, 100);
    } else if (strcmp(what, "measure-static") == 0) {
        address = fixed + sizeof fixed / 2;
        if (malloc_usable_size(address) == 1) return 4;
    } else if (strcmp(what, "free-forged") == 0) {
        // A sound header elsewhere, made with the library's private knowledge.
        size_t unit = 256 << 10, from = (size_t)object & ~(unit - 1), to = ((size_t)fixed + unit - 1) & ~(unit - 1);
        memcpy((void *)to, (void *)from, 256);
        ((size_t *)to)[2] ^= from ^ to;
        address = (char *)(to + ((size_t)object - from));
        free(address);
    } else if (strcmp(what, "resize-freed") == 0) {
        free(object);
        address = realloc(address, 1000);
    } else if (strcmp(what, "write-behind") == 0) {
        address[SIZE] = 1;
        free(object);
    } else if (strcmp(what, "write-far-behind") == 0) {
        memset(address, 'x', SIZE + 20);
        free(object);
    } else if (strcmp(what, "write-behind-and-measure") == 0) {
        address[SIZE] = 1;
        if (malloc_usable_size(object) == 0) return 4;
    } else if (strcmp(what, "write-freed") == 0) {
        free(object);
        address[0] = 1;
        for (int i = 0; i < OTHERS; i++) others[i] = malloc(SIZE);
    } else if (strcmp(what, "write-freed-end") == 0) {
        free(object);
        address[SIZE - 1] = 1;
        for (int i = 0; i < OTHERS; i++) others[i] = malloc(SIZE);
    } else if (strcmp(what, "write-freed-there") == 0) {
        in_thread(free_in_thread, object);
        memcpy(address, "a longer text", 13);
        take_inbox();
    } else {
        return 5;
    }
    puts("survived");
    return 0;
}
