// Threads that load a library, let it allocate, unload it, and free what it made.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 200 };

static const char *path;

static void *work(void *unused) {
    for (size_t round = 1; round <= ROUNDS; round++) {
        void *library = dlopen(path, RTLD_NOW);
        if (library == NULL) {
            puts(dlerror());
            exit(3);
        }
        char *(*make)(size_t) = (char *(*)(size_t))dlsym(library, "make");
        char *made = make(round * 50);
        if (made[0] != 43 || made[round * 50 - 1] != 43) exit(4);
        // Names nothing: what went wrong is kept in memory of this thread.
        if (dlopen("/does/not/exist.so", RTLD_NOW) != NULL || dlsym(library, "no such name") != NULL) exit(5);
        if (dlclose(library) != 0) exit(6);
        free(made);
    }
    return unused;
}

int main(int count, char **arguments) {
    alarm(100);
    if (count != 2) return 2;
    path = arguments[1];
    for (int round = 0; round < 3; round++) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    }
    puts("loaded");
    return 0;
}
