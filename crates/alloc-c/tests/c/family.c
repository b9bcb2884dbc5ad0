// Every function of the family, with odd arguments. Prints nothing when all is well.
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int faults;

#define MUST(what)                                                            \
    do {                                                                      \
        if (!(what)) {                                                        \
            printf("line %d: not so: %s (errno %d)\n", __LINE__, #what, errno); \
            faults++;                                                         \
        }                                                                     \
    } while (0)

#define IS_MULTIPLE(p, of) ((uintptr_t)(p) % (of) == 0)

// The C library may not have these.
__attribute__((weak)) void free_sized(void *, size_t);
__attribute__((weak)) void free_aligned_sized(void *, size_t, size_t);

// Sizes about every limit that the heap has: words, tables, the largest class, units, mappings.
static const size_t SIZES[] = {0, 1, 7, 8, 9, 15, 16, 17, 24, 40, 63, 64, 65, 100, 255, 256, 257, 1000, 1023, 1024, 1025, 1040,
    4095, 4096, 4097, 30000, 32767, 32768, 32769, 65536, 262144 - 256, 262144 - 255, 262144, 262145, 1000000, 5000000,
    (64 << 20) - 256, (64 << 20) + 1, 100 << 20};
#define COUNT (sizeof SIZES / sizeof SIZES[0])

static void fill(unsigned char *p, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++) p[i] = (unsigned char)(seed + i * 7);
}

static int is_filled(const unsigned char *p, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++)
        if (p[i] != (unsigned char)(seed + i * 7)) return 0;
    return 1;
}

static void sizes(size_t most) {
    void *all[COUNT];
    size_t count = 0;
    while (count < COUNT && SIZES[count] <= most) count++;
    for (size_t i = 0; i < count; i++) {
        all[i] = malloc(SIZES[i]);
        MUST(all[i] != NULL);
        MUST(IS_MULTIPLE(all[i], SIZES[i] > 8 ? 16 : 8));
        MUST(malloc_usable_size(all[i]) >= SIZES[i]);
        fill(all[i], malloc_usable_size(all[i]), (unsigned)i);
    }
    for (size_t i = 0; i < count; i++) {
        MUST(is_filled(all[i], malloc_usable_size(all[i]), (unsigned)i));
        errno = 77;
        free(all[i]);
        MUST(errno == 77);
    }
    void *one = malloc(0), *other = malloc(0);
    MUST(one != NULL && other != NULL && one != other);
    free(one);
    free(other);
    errno = 77;
    free(NULL);
    MUST(errno == 77);
    MUST(malloc_usable_size(NULL) == 0);
}

static void too_much(void) {
    static const size_t HUGE[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4095, SIZE_MAX - 4096, SIZE_MAX - (256 << 10), (size_t)PTRDIFF_MAX + 1,
        PTRDIFF_MAX, PTRDIFF_MAX - (1 << 20)};
    char *kept = malloc(100);
    fill((unsigned char *)kept, 100, 5);
    for (size_t i = 0; i < sizeof HUGE / sizeof HUGE[0]; i++) {
        size_t size = HUGE[i];
        errno = 0;
        MUST(malloc(size) == NULL && errno == ENOMEM);
        errno = 0;
        MUST(calloc(1, size) == NULL && errno == ENOMEM);
        errno = 0;
        MUST(realloc(NULL, size) == NULL && errno == ENOMEM);
        errno = 0;
        MUST(realloc(kept, size) == NULL && errno == ENOMEM);
        errno = 0;
        MUST(reallocarray(kept, size, 1) == NULL && errno == ENOMEM);
        errno = 0;
        MUST(aligned_alloc(64, size) == NULL && errno == ENOMEM);
        errno = 0;
        MUST(memalign(1 << 20, size) == NULL && errno == ENOMEM);
        errno = 0;
        MUST(valloc(size) == NULL && errno == ENOMEM);
        errno = 0;
        MUST(pvalloc(size) == NULL && errno == ENOMEM);
        void *place = kept;
        errno = 77;
        MUST(posix_memalign(&place, 64, size) == ENOMEM && place == kept && errno == 77);
    }
    static const size_t PAIRS[][2] = {{SIZE_MAX, 2}, {2, SIZE_MAX}, {(size_t)1 << 32, (size_t)1 << 32}, {SIZE_MAX / 2 + 1, 2}, {SIZE_MAX / 3 + 1, 3},
        {SIZE_MAX, SIZE_MAX}};
    for (size_t i = 0; i < sizeof PAIRS / sizeof PAIRS[0]; i++) {
        errno = 0;
        MUST(calloc(PAIRS[i][0], PAIRS[i][1]) == NULL && errno == ENOMEM);
        errno = 0;
        MUST(reallocarray(kept, PAIRS[i][0], PAIRS[i][1]) == NULL && errno == ENOMEM);
        errno = 0;
        MUST(reallocarray(NULL, PAIRS[i][0], PAIRS[i][1]) == NULL && errno == ENOMEM);
    }
    MUST(is_filled((unsigned char *)kept, 100, 5));
    free(kept);
}

static void zeros(size_t most) {
    for (size_t i = 0; i < COUNT && SIZES[i] <= most; i++) {
        // The same memory again, which is not zero any more. Several: a large one may be another range.
        for (int round = 0; round < (SIZES[i] > 1000000 ? 2 : 4); round++) {
            unsigned char *p = calloc(1, SIZES[i]);
            MUST(p != NULL);
            size_t bad = 0;
            for (size_t j = 0; j < SIZES[i]; j++) bad += p[j] != 0;
            MUST(bad == 0);
            memset(p, 0xa5, SIZES[i]);
            free(p);
            if (round % 2 == 0) malloc_trim(0);
        }
    }
    void *one = calloc(0, 8), *other = calloc(8, 0);
    MUST(one != NULL && other != NULL && one != other);
    free(one);
    free(other);
}

static void alignments(void) {
    for (size_t align = 1; align <= (size_t)64 << 20; align *= 2) {
        for (size_t i = 0; i < COUNT; i++) {
            size_t size = SIZES[i];
            if (size > (align > 4096 ? 33000 : 1000000)) continue;
            void *place[4] = {memalign(align, size), NULL, aligned_alloc(align, size), NULL};
            int result = posix_memalign(&place[1], align, size);
            MUST(align < sizeof(void *) ? result == EINVAL && place[1] == NULL : result == 0);
            for (int j = 0; j < 3; j++) {
                if (j == 1 && align < sizeof(void *)) continue;
                MUST(place[j] != NULL && IS_MULTIPLE(place[j], align));
                MUST(malloc_usable_size(place[j]) >= size);
                fill(place[j], size, (unsigned)(i + j));
            }
            for (int j = 0; j < 3; j++) {
                if (place[j] == NULL) continue;
                MUST(is_filled(place[j], size, (unsigned)(i + j)));
                unsigned char *grown = realloc(place[j], size + 1000);
                MUST(grown != NULL && is_filled(grown, size, (unsigned)(i + j)));
                free(grown);
            }
        }
    }
    static const size_t ODD[] = {0, 3, 5, 12, 24, 48, 100, 4097, SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 + 2};
    for (size_t i = 0; i < sizeof ODD / sizeof ODD[0]; i++) {
        void *place = &faults;
        errno = 77;
        MUST(posix_memalign(&place, ODD[i], 100) == EINVAL && place == &faults && errno == 77);
        errno = 0;
        MUST(aligned_alloc(ODD[i], 100) == NULL && errno == EINVAL);
    }
    // Powers of two that no memory has.
    for (size_t align = (size_t)1 << 48; align != 0; align *= 2) {
        void *place = &faults;
        MUST(posix_memalign(&place, align, 100) == ENOMEM && place == &faults);
        errno = 0;
        MUST(memalign(align, 100) == NULL && errno == ENOMEM);
        errno = 0;
        MUST(aligned_alloc(align, SIZE_MAX - 100) == NULL && errno == ENOMEM);
    }
    // memalign rounds up, as that of the GNU C library.
    void *p = memalign(48, 100);
    MUST(p != NULL && IS_MULTIPLE(p, 64));
    free(p);
    errno = 0;
    MUST(memalign(SIZE_MAX / 2 + 2, 100) == NULL && errno == EINVAL);
    for (size_t i = 0; i < COUNT; i++) {
        void *page = valloc(SIZES[i]), *pages = pvalloc(SIZES[i]);
        MUST(page != NULL && IS_MULTIPLE(page, 4096));
        MUST(pages != NULL && IS_MULTIPLE(pages, 4096));
        MUST(malloc_usable_size(pages) >= (SIZES[i] + 4095) / 4096 * 4096);
        free(page);
        free(pages);
    }
}

static void resizes(void) {
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < COUNT; j++) {
            size_t from = SIZES[i], to = SIZES[j];
            if (from > 300000 || to > 300000) continue;
            unsigned char *p = realloc(NULL, from);
            MUST(p != NULL);
            fill(p, from, (unsigned)i);
            p = realloc(p, to);
            if (to == 0) {
                MUST(p == NULL);
                continue;
            }
            MUST(p != NULL && IS_MULTIPLE(p, to > 8 ? 16 : 8));
            MUST(is_filled(p, from < to ? from : to, (unsigned)i));
            MUST(malloc_usable_size(p) >= to);
            fill(p, to, 3);
            free(p);
        }
    }
    // Through a mapping of its own, there and back.
    unsigned char *p = malloc(1000);
    fill(p, 1000, 1);
    MUST((p = realloc(p, 100 << 20)) != NULL && is_filled(p, 1000, 1));
    fill(p, 100 << 20, 2);
    MUST((p = realloc(p, 200 << 20)) != NULL && is_filled(p, 100 << 20, 2));
    MUST((p = realloc(p, 3000)) != NULL && is_filled(p, 3000, 2));
    MUST((p = reallocarray(p, 100, 50)) != NULL && is_filled(p, 3000, 2));
    MUST(reallocarray(p, 0, 50) == NULL);
    MUST(free_sized != NULL && free_aligned_sized != NULL);
    if (free_sized != NULL && free_aligned_sized != NULL) {
        free_sized(malloc(100), 100);
        free_aligned_sized(aligned_alloc(64, 128), 64, 128);
        free_sized(NULL, 0);
    }
    MUST(malloc_trim(0) == 1 && malloc_trim(1 << 20) == 1);
}

static void *in_thread(void *unused) {
    sizes(300000);
    zeros(300000);
    return unused;
}

int main(void) {
    sizes(SIZE_MAX);
    too_much();
    zeros(SIZE_MAX);
    alignments();
    resizes();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) MUST(pthread_create(&threads[i], NULL, in_thread, NULL) == 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("%d faults\n", faults);
    return faults != 0;
}
