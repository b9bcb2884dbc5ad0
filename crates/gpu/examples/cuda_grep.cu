// Counts a word in many files by a kernel that opens and reads them, with lanefs_device.h. The same source is
// for CUDA, HIP and, to try it without a GPU, the host and llvmpipe:
//
//     nvcc -std=c++17 -O3 -I crates/gpu/include -o cuda_grep crates/gpu/examples/cuda_grep.cu
//     hipcc -std=c++17 -O3 -I crates/gpu/include -o cuda_grep -x hip crates/gpu/examples/cuda_grep.cu
//     c++ -std=c++17 -O3 -I crates/gpu/include -o cuda_grep -x c++ crates/gpu/examples/cuda_grep.cu
//     cargo run --release -p lanefs-gpu --example export_to -- IMAGE PATHS WORD ./cuda_grep
//
// `export_to` owns the volume and the device's memory. It passes descriptors of a mirror and of a table of
// files by the variables LANEFS_MIRROR and LANEFS_FILES (descriptor, bytes of the allocation, offset, bytes to
// map), brings missed files on the line `bring`, and compares the line `found`.

#include "lanefs_device.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#if defined(__HIPCC__) || defined(__HIP__)
#include <hip/hip_runtime.h>
#define GPU(name) hip##name
#define KERNEL __global__
#elif defined(__CUDACC__)
#include <cuda_runtime.h>
#define GPU(name) cuda##name
#define KERNEL __global__
#else
#include <sys/mman.h>
#include <sys/stat.h>
#define KERNEL
#endif

namespace {

// State of a path between two runs of the kernel.
enum state : uint32_t { OPEN, DONE, FAILED };

struct counts {
    unsigned long long words, files, bytes;
};

LANEFS_FUNCTION void add(unsigned long long *to, unsigned long long value) {
#ifdef LANEFS_ON_DEVICE
    atomicAdd(to, value);
#else
    *to += value;
#endif
}

// Counts a word in a file; false where the file is not on the device yet.
LANEFS_FUNCTION lanefs_code count_in(const lanefs_view *view, const lanefs_files *files, uint64_t ino,
                                     const char *word, uint32_t length, counts *found) {
    // Windows overlap by all of the word but a byte. (A word has 64 bytes at most.)
    uint8_t window[256];
    uint64_t offset = 0;
    for (;;) {
        int64_t count = lanefs_read(view, files, ino, offset, window, sizeof window);
        if (count < 0) {
            return (lanefs_code)-count;
        }
        for (int64_t at = 0; at + length <= count; at++) {
            uint32_t same = 0;
            while (same < length && window[at + same] == (uint8_t)word[same]) {
                same++;
            }
            found->words += same == length;
        }
        if (count < (int64_t)sizeof window) {
            found->bytes += offset + (uint64_t)count;
            return LANEFS_SUCCESS;
        }
        offset += sizeof window - (length - 1);
    }
}

LANEFS_FUNCTION void search(const void *mirror, uint64_t mirror_bytes, void *table, uint64_t table_bytes,
                            const char *text, const uint64_t *ends, uint32_t i, const char *word,
                            uint32_t length, uint32_t *states, counts *sum) {
    lanefs_view view;
    lanefs_files files;
    if (states[i] != OPEN || lanefs_open(mirror, mirror_bytes, &view) != LANEFS_SUCCESS
        || lanefs_open_files(table, table_bytes, &files) != LANEFS_SUCCESS) {
        return;
    }
    uint64_t begin = i == 0 ? 0 : ends[i - 1];
    lanefs_found found = lanefs_lookup(&view, text + begin, ends[i] - begin);
    counts own = {0, 1, 0};
    lanefs_code code = found.code;
    if (code == LANEFS_SUCCESS) {
        code = count_in(&view, &files, found.ino, word, length, &own);
    }
    if (code == LANEFS_SUCCESS) {
        add(&sum->words, own.words);
        add(&sum->files, own.files);
        add(&sum->bytes, own.bytes);
    }
    states[i] = code == LANEFS_SUCCESS ? DONE : code == LANEFS_NOT_RESIDENT ? OPEN : FAILED;
}

KERNEL void search_all(const void *mirror, uint64_t mirror_bytes, void *table, uint64_t table_bytes,
                       const char *text, const uint64_t *ends, uint32_t path_count, const char *word,
                       uint32_t length, uint32_t *states, counts *sum) {
#ifdef LANEFS_ON_DEVICE
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < path_count) {
        search(mirror, mirror_bytes, table, table_bytes, text, ends, i, word, length, states, sum);
    }
#else
    for (uint32_t i = 0; i < path_count; i++) {
        search(mirror, mirror_bytes, table, table_bytes, text, ends, i, word, length, states, sum);
    }
#endif
}

[[noreturn]] void fail(const std::string &what) {
    std::fprintf(stderr, "cuda_grep: %s\n", what.c_str());
    std::exit(2);
}

struct descriptor {
    int fd;
    unsigned long long allocation_bytes, offset, bytes;
};

descriptor descriptor_of(const char *name) {
    descriptor one = {};
    const char *text = std::getenv(name);
    if (text == nullptr
        || std::sscanf(text, "%d %llu %llu %llu", &one.fd, &one.allocation_bytes, &one.offset, &one.bytes)
               != 4) {
        fail(std::string(name) + " is missing: run this by export_to");
    }
    return one;
}

#ifdef GPU
template <class Code> void check(Code code, const char *call) {
    if (code != 0) {
        fail(std::string(call) + ": " + GPU(GetErrorString)(code));
    }
}
#define CHECK(call) check(call, #call)

// Memory of the device that another program has exported.
uint8_t *imported(const descriptor &one) {
    GPU(ExternalMemoryHandleDesc) handle = {};
    handle.type = GPU(ExternalMemoryHandleTypeOpaqueFd);
    handle.handle.fd = one.fd;
    handle.size = one.allocation_bytes;
    GPU(ExternalMemory_t) memory;
    CHECK(GPU(ImportExternalMemory)(&memory, &handle));
    GPU(ExternalMemoryBufferDesc) part = {};
    part.offset = one.offset;
    part.size = one.bytes;
    void *address = nullptr;
    CHECK(GPU(ExternalMemoryGetMappedBuffer)(&address, memory, &part));
    return (uint8_t *)address;
}

template <class T> T *on_device(const std::vector<T> &values) {
    T *memory = nullptr;
    CHECK(GPU(Malloc)((void **)&memory, values.size() * sizeof(T) + 1));
    CHECK(GPU(Memcpy)(memory, values.data(), values.size() * sizeof(T), GPU(MemcpyHostToDevice)));
    return memory;
}
#else
// llvmpipe's memory is a file that begins with its size and the offset of the memory.
uint8_t *imported(const descriptor &one) {
    struct stat status;
    if (fstat(one.fd, &status) != 0) {
        fail("a descriptor without a file");
    }
    void *file = mmap(nullptr, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, one.fd, 0);
    if (file == MAP_FAILED) {
        fail("memory that cannot be mapped: without CUDA and HIP this is for llvmpipe");
    }
    size_t start = 0;
    std::memcpy(&start, (uint8_t *)file + sizeof start, sizeof start);
    return (uint8_t *)file + start + one.offset;
}

template <class T> T *on_device(const std::vector<T> &values) { return (new std::vector<T>(values))->data(); }
#endif

} // namespace

int main(int count, char **arguments) {
    if (count != 3) {
        fail("arguments: PATHS WORD");
    }
    std::ifstream list(arguments[1]);
    std::vector<char> text, word(arguments[2], arguments[2] + std::strlen(arguments[2]));
    std::vector<uint64_t> ends;
    for (std::string path; std::getline(list, path);) {
        text.insert(text.end(), path.begin(), path.end());
        ends.push_back(text.size());
    }
    if (word.empty() || word.size() > 64) {
        fail("a word has 1 to 64 bytes");
    }
    descriptor mirror = descriptor_of("LANEFS_MIRROR"), table = descriptor_of("LANEFS_FILES");
    uint8_t *at_mirror = imported(mirror), *at_table = imported(table);
    uint32_t paths = (uint32_t)ends.size(), length = (uint32_t)word.size();
    std::vector<uint32_t> states(paths, OPEN);
    char *its_text = on_device(text), *its_word = on_device(word);
    uint64_t *its_ends = on_device(ends);
    uint32_t *its_states = on_device(states);
    counts sum = {}, *its_sum = on_device(std::vector<counts>{sum});
    double seconds = 0;
    uint32_t runs = 0;
    for (std::string answer = "1"; paths != 0 && std::atoi(answer.c_str()) > 0;) {
        auto begin = std::chrono::steady_clock::now();
#ifdef GPU
        search_all<<<(paths + 127) / 128, 128>>>(at_mirror, mirror.bytes, at_table, table.bytes, its_text,
                                                 its_ends, paths, its_word, length, its_states, its_sum);
        CHECK(GPU(GetLastError)());
        CHECK(GPU(DeviceSynchronize)());
        CHECK(GPU(Memcpy)(&sum, its_sum, sizeof sum, GPU(MemcpyDeviceToHost)));
#else
        search_all(at_mirror, mirror.bytes, at_table, table.bytes, its_text, its_ends, paths, its_word,
                   length, its_states, its_sum);
        sum = *its_sum;
#endif
        seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        runs++;
        // The host brings the files that were missed, and answers with their number.
        std::cout << "bring" << std::endl;
        if (!std::getline(std::cin, answer)) {
            fail("export_to has ended");
        }
    }
    std::cout << "found " << sum.words << ' ' << sum.files << ' ' << sum.bytes << ' ' << runs << ' '
              << seconds << std::endl;
    return 0;
}
