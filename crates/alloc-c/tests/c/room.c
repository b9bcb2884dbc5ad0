// Runs where address space is limited: small objects, large ones, a thread's stack, and a mapping must all
// find room.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *work(void *unused) {
    for (size_t i = 0; i < 1000; i++) {
        char *small = malloc(i * 8 + 1);
        if (small == NULL) exit(3);
        memset(small, 1, i * 8 + 1);
        if (i % 2) free(small);
    }
    return unused;
}

int main(void) {
    work(NULL);
    char *large[2] = {malloc(30 << 20), malloc(30 << 20)};
    if (large[0] == NULL || large[1] == NULL) return 4;
    memset(large[0], 1, 30 << 20);
    if (mmap(NULL, 20 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) return 5;
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) != 0) return 6;
    pthread_join(thread, NULL);
    free(large[0]);
    free(large[1]);
    // As much as there is, in pieces of any kind; then it is given back and there again.
    for (int round = 0; round < 3; round++) {
        static char *all[1000];
        int count = 0;
        while (count < 1000 && (all[count] = malloc((size_t)(count % 7 + 1) << 18)) != NULL) count++;
        if (count < 10) return 7;
        for (int i = 0; i < count; i++) free(all[i]);
    }
    puts("enough");
    return 0;
}
