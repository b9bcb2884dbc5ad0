// Threads whose last destructors allocate and free, also in rounds after the heap's own ran.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEYS = 60, THREADS = 200, AT_ONCE = 8 };

static pthread_key_t keys[KEYS];
static atomic_int calls;

struct left {
    int number, rounds;
    char *text;
};

static void last(void *value) {
    struct left *old = value;
    calls++;
    for (size_t i = 0; i < (size_t)old->number * 30; i++)
        if (old->text[i] != (char)old->number) abort();
    // All destructors run again, up to four times, while there are values.
    if (--old->rounds > 0) {
        struct left *new = malloc(sizeof *new);
        *new = *old;
        new->text = calloc(1, (size_t)old->number * 30 + 1);
        memset(new->text, old->number, (size_t)old->number * 30);
        pthread_setspecific(keys[old->number], new);
    }
    free(old->text);
    free(old);
    free(malloc(100000));
}

static void *work(void *unused) {
    for (int i = 0; i < KEYS; i++) {
        struct left *one = malloc(sizeof *one);
        *one = (struct left){i, i % 5, malloc((size_t)i * 30 + 1)};
        memset(one->text, i, (size_t)i * 30);
        pthread_setspecific(keys[i], one);
    }
    return unused;
}

int main(void) {
    alarm(100);
    for (int i = 0; i < KEYS; i++)
        if (pthread_key_create(&keys[i], last) != 0) return 2;
    for (int round = 0; round < THREADS / AT_ONCE; round++) {
        pthread_t threads[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++)
            if (pthread_create(&threads[i], NULL, work, NULL) != 0) return 3;
        for (int i = 0; i < AT_ONCE; i++) pthread_join(threads[i], NULL);
    }
    // Rounds of 0 and 1 call a destructor once, others as often as they say.
    int expected = THREADS * KEYS / 5 * (1 + 1 + 2 + 3 + 4);
    printf("%d calls\n", calls - expected);
    return calls != expected;
}
