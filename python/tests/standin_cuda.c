// A stand-in for CUDA's driver, for tests without a GPU: the entry points that lanefs.cuda calls. It maps the
// memory of llvmpipe, whose descriptor is that of a file, and appends each call to the file of the variable
// LANEFS_STANDIN_LOG. LANEFS_STANDIN_UUID names its device 1, and LANEFS_STANDIN_FAIL a call that fails.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_CONTEXT = 201 };

struct handle_desc {
    int type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
    } handle;
    unsigned long long size;
    unsigned int flags;
    unsigned int reserved[16];
};

struct semaphore_desc {
    int type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
        const void *other;
    } handle;
    unsigned int flags;
    unsigned int reserved[16];
};

struct wait_params {
    struct {
        struct {
            unsigned long long value;
        } fence;
        union {
            void *fence;
            unsigned long long reserved;
        } other;
        struct {
            unsigned long long key;
            unsigned int timeout_ms;
        } keyed;
        unsigned int reserved[10];
    } params;
    unsigned int flags;
    unsigned int reserved[16];
};

struct buffer_desc {
    unsigned long long offset;
    unsigned long long size;
    unsigned int flags;
    unsigned int reserved[16];
};

// An imported memory. The file of llvmpipe begins with its size and the offset of the memory.
struct memory {
    uint8_t *file;
    size_t file_bytes;
    size_t start;
    size_t bytes;
};

static int is_initialized, depth;

static int say(const char *call, unsigned long long one, unsigned long long two) {
    const char *log = getenv("LANEFS_STANDIN_LOG"), *fails = getenv("LANEFS_STANDIN_FAIL");
    if (log != NULL) {
        FILE *file = fopen(log, "a");
        if (file != NULL) {
            fprintf(file, "%s %llu %llu\n", call, one, two);
            fclose(file);
        }
    }
    if (fails != NULL && strcmp(fails, call) == 0) {
        return INVALID_VALUE;
    }
    return is_initialized || strcmp(call, "cuInit") == 0 ? SUCCESS : NOT_INITIALIZED;
}

int cuInit(unsigned int flags) {
    int code = say("cuInit", flags, 0);
    is_initialized = code == SUCCESS;
    return code;
}

int cuGetErrorString(int code, const char **text) {
    *text = code == INVALID_VALUE ? "invalid argument" : "another error";
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    *count = 2;
    return say("cuDeviceGetCount", 0, 0);
}

int cuDeviceGet(int *device, int number) {
    *device = 10 + number;
    return number == 0 || number == 1 ? say("cuDeviceGet", number, 0) : INVALID_VALUE;
}

int cuDeviceGetUuid(uint8_t uuid[16], int device) {
    const char *text = getenv("LANEFS_STANDIN_UUID");
    memset(uuid, 0, 16);
    for (int i = 0; device == 11 && text != NULL && i < 16; i++) {
        unsigned int byte = 0;
        sscanf(text + 2 * i, "%2x", &byte);
        uuid[i] = (uint8_t)byte;
    }
    return say("cuDeviceGetUuid", device, 0);
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = (void *)(uintptr_t)(device + 1000);
    return say("cuDevicePrimaryCtxRetain", device, 0);
}

int cuCtxPushCurrent_v2(void *context) {
    depth += context == (void *)(uintptr_t)1011;
    return context == (void *)(uintptr_t)1011 ? SUCCESS : INVALID_VALUE;
}

int cuCtxPopCurrent_v2(void **context) {
    *context = NULL;
    return depth-- > 0 ? SUCCESS : NO_CONTEXT;
}

int cuCtxSynchronize(void) { return depth > 0 ? say("cuCtxSynchronize", 0, 0) : NO_CONTEXT; }

int cuImportExternalMemory(struct memory **made, const struct handle_desc *desc) {
    struct stat status;
    int code = say("cuImportExternalMemory", desc->size, desc->flags);
    if (code != SUCCESS || depth < 1 || desc->type != 1 || fstat(desc->handle.fd, &status) != 0) {
        return code != SUCCESS ? code : INVALID_VALUE;
    }
    struct memory *memory = calloc(1, sizeof *memory);
    memory->file_bytes = (size_t)status.st_size;
    memory->file = mmap(NULL, memory->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, desc->handle.fd, 0);
    if (memory->file == MAP_FAILED) {
        free(memory);
        return INVALID_VALUE;
    }
    memcpy(&memory->start, memory->file + sizeof memory->start, sizeof memory->start);
    if (memory->start > memory->file_bytes || memory->file_bytes - memory->start < desc->size) {
        return INVALID_VALUE;
    }
    memory->bytes = memory->file_bytes - memory->start;
    // The driver takes the descriptor over.
    close(desc->handle.fd);
    *made = memory;
    return SUCCESS;
}

int cuExternalMemoryGetMappedBuffer(unsigned long long *address, struct memory *memory,
                                    const struct buffer_desc *desc) {
    int code = say("cuExternalMemoryGetMappedBuffer", desc->offset, desc->size);
    if (code != SUCCESS || depth < 1 || desc->offset + desc->size > memory->bytes) {
        return code != SUCCESS ? code : INVALID_VALUE;
    }
    *address = (unsigned long long)(uintptr_t)(memory->file + memory->start + desc->offset);
    return SUCCESS;
}

int cuMemFree_v2(unsigned long long address) {
    return depth > 0 ? say("cuMemFree_v2", address != 0, 0) : NO_CONTEXT;
}

int cuDestroyExternalMemory(struct memory *memory) {
    munmap(memory->file, memory->file_bytes);
    free(memory);
    return say("cuDestroyExternalMemory", 0, 0);
}

// A semaphore is any descriptor here; the log has the values that streams wait for.
int cuImportExternalSemaphore(int **made, const struct semaphore_desc *desc) {
    int code = say("cuImportExternalSemaphore", (unsigned long long)desc->type, desc->flags);
    struct stat status;
    if (code != SUCCESS || depth < 1 || desc->type != 9 || fstat(desc->handle.fd, &status) != 0) {
        return code != SUCCESS ? code : INVALID_VALUE;
    }
    *made = malloc(sizeof **made);
    **made = desc->handle.fd;
    return SUCCESS;
}

int cuWaitExternalSemaphoresAsync(int *const *semaphores, const struct wait_params *params, unsigned int count,
                                  void *stream) {
    struct stat status;
    if (depth < 1 || count != 1 || fstat(**semaphores, &status) != 0 || params->flags != 0) {
        return INVALID_VALUE;
    }
    return say("cuWaitExternalSemaphoresAsync", params->params.fence.value, (uintptr_t)stream);
}

int cuDestroyExternalSemaphore(int *semaphore) {
    close(*semaphore);
    free(semaphore);
    return depth > 0 ? say("cuDestroyExternalSemaphore", 0, 0) : NO_CONTEXT;
}
