// Forks while threads allocate without pause, small objects and large ones. Children allocate, free objects
// of the parent, start a thread, and exit.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ALL = THREADS + 2, KEPT = 200 };

static atomic_int stop;
static char *kept[KEPT];
static _Atomic(char *) given[THREADS];

static size_t size_of(unsigned *seed) {
    *seed = *seed * 1103515245 + 12345;
    unsigned r = *seed >> 8;
    return r % 64 == 0 ? r % 600000 : r % 2000;
}

static void churn(unsigned seed, int rounds, int number) {
    char *mine[64] = {0};
    for (int round = 0; round < rounds && !(number >= 0 && stop); round++) {
        int i = (int)(seed >> 4) & 63;
        size_t size = size_of(&seed) + 1;
        free(mine[i]);
        mine[i] = malloc(size);
        if (mine[i] == NULL) abort();
        mine[i][0] = mine[i][size - 1] = (char)i;
        // An object that the next thread frees.
        if (number >= 0 && round % 7 == 0) free(atomic_exchange(&given[(number + 1) % THREADS], malloc(size)));
    }
    for (int i = 0; i < 64; i++) free(mine[i]);
}

static void *work(void *number) {
    churn((unsigned)(size_t)number + 1, 2000000000, (int)(size_t)number);
    return NULL;
}

static void *brief(void *seed) {
    churn((unsigned)(size_t)seed, 300, -1);
    return NULL;
}

// Takes and gives back what lies behind all heaps, with a lock, as often as it can.
static void *large(void *unused) {
    while (!stop) {
        char *all[8];
        for (int i = 0; i < 8; i++) all[i] = malloc((size_t)(i + 1) << 18);
        for (int i = 0; i < 8; i++) free(all[i]);
    }
    return unused;
}

static void *comes_and_goes(void *unused) {
    for (size_t i = 0; !stop; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, brief, (void *)i) != 0) abort();
        pthread_join(thread, NULL);
    }
    return unused;
}

static void child(int number) {
    // A hanging child is ended. The limit is far above the time that a slow machine needs.
    alarm(600);
    for (int i = 0; i < KEPT; i += 2) {
        if (kept[i][0] != (char)i) _exit(3);
        free(kept[i]);
    }
    churn((unsigned)number, 1500, -1);
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, brief, (void *)(i + (size_t)number)) != 0) _exit(4);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    if (number % 50 == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            churn((unsigned)number, 1000, -1);
            _exit(0);
        }
        int status;
        if (waitpid(grandchild, &status, 0) != grandchild || status != 0) _exit(5);
    }
    _exit(0);
}

int main(int count, char **arguments) {
    alarm(100);
    int forks = count == 2 ? atoi(arguments[1]) : 300;
    for (int i = 0; i < KEPT; i++) {
        kept[i] = malloc((size_t)i * 37 + 1);
        memset(kept[i], i, (size_t)i * 37 + 1);
    }
    pthread_t threads[ALL];
    for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    pthread_create(&threads[THREADS], NULL, comes_and_goes, NULL);
    pthread_create(&threads[THREADS + 1], NULL, large, NULL);
    int bad = 0;
    for (int i = 0; i < forks; i++) {
        pid_t pid = fork();
        if (pid == 0) child(i);
        int status;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            printf("fork %d: status %x\n", i, (unsigned)status);
            // One that hangs is enough.
            if (++bad == 3) break;
        }
    }
    stop = 1;
    for (int i = 0; i < ALL; i++) pthread_join(threads[i], NULL);
    printf("%d of %d children failed\n", bad, forks);
    return bad != 0;
}
