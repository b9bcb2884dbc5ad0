// A volume of LaneFS from a kernel of one's own: names, attributes and contents of files, in CUDA C++, HIP
// and host C++17. One header, which needs nothing else. docs/device.md says how a program gets the memory.
//
//     lanefs_view view;
//     if (lanefs_open(mirror, mirror_bytes, &view) == LANEFS_SUCCESS) {
//         lanefs_found found = lanefs_lookup(&view, path, length);
//         int64_t read = lanefs_read(&view, &files, found.ino, 0, buffer, sizeof buffer);
//     }
//
// * Results are the codes of docs/format.md. LANEFS_NOT_RESIDENT says that the device cannot decide: the host
//   has a block that the mirror lacks, or a structure makes no sense. The program asks the host, or reads
//   again after the host has brought the files.
// * No input leads outside the memory that `lanefs_open` and `lanefs_open_files` were given, and each loop
//   has a bound, whatever the bytes there are. Paths and buffers are the caller's.
// * A function with `_warp` is for all lanes of a warp at once, with the same arguments in each: they share
//   the work. Attributes, extents, and the directory and the entry of a listing are each lane's own. A
//   function with `_by` takes another group: a type with `rank`, `size` and `ballot`.
// * The bytes must not change while a kernel reads them; docs/device.md says when they do.
#ifndef LANEFS_DEVICE_H
#define LANEFS_DEVICE_H

// Compilers at run time (NVRTC, which CuPy uses) have no such header.
#if !defined(__CUDACC_RTC__) && !defined(__HIPCC_RTC__)
#include <stdint.h>
#elif !defined(LANEFS_HAS_STDINT)
typedef unsigned char uint8_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef long int64_t;
typedef unsigned long uintptr_t;
#endif

#if defined(__CUDACC__) || defined(__HIPCC__) || defined(__HIP__)
#define LANEFS_FUNCTION __host__ __device__ inline
#define LANEFS_HAS_WARPS 1
#else
#define LANEFS_FUNCTION inline
#endif
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define LANEFS_ON_DEVICE 1
#define LANEFS_UNROLL _Pragma("unroll")
#else
#define LANEFS_UNROLL
#endif

// generated
// Results, by the numbers of docs/format.md.
enum lanefs_code : uint32_t {
    LANEFS_SUCCESS = 0,
    LANEFS_EXISTS = 1,
    LANEFS_TREE_FULL = 2,
    LANEFS_NO_POINTER = 3,
    LANEFS_NOT_FOUND = 4,
    LANEFS_COMPONENT_NOT_FOUND = 5,
    LANEFS_INVALID_POINTER = 6,
    LANEFS_PATH_TOO_LONG = 7,
    LANEFS_INVARIANT_VIOLATED = 8,
    LANEFS_NOT_DIRECTORY = 9,
    LANEFS_NAME_TOO_LONG = 10,
    LANEFS_NOT_RESIDENT = 11,
    LANEFS_NO_SPACE = 12,
    LANEFS_STALE_EPOCH = 13,
    LANEFS_IS_DIRECTORY = 14,
    LANEFS_NOT_EMPTY = 15,
    LANEFS_ACCESS_DENIED = 16,
    LANEFS_NOT_PERMITTED = 17,
    LANEFS_INVALID = 18,
    LANEFS_TOO_MANY_LINKS = 19,
    LANEFS_SYMLINK_LOOP = 20,
    LANEFS_READ_ONLY = 21,
    LANEFS_IO = 22,
    LANEFS_FILE_TOO_LARGE = 23,
    LANEFS_NO_ATTRIBUTE = 24,
    LANEFS_NO_SUCH_RANGE = 25,
    LANEFS_BUFFER_TOO_SMALL = 26,
    LANEFS_UNSUPPORTED = 27,
    LANEFS_ATTRIBUTE_TOO_LARGE = 28,
    LANEFS_STALE_INODE = 29,
    LANEFS_NO_MEMORY = 30,
    LANEFS_BUSY = 31,
    LANEFS_WRONG_DATA = 32,
};

// Types of files.
enum lanefs_kind : uint32_t {
    LANEFS_KIND_FIFO = 1,
    LANEFS_KIND_CHAR_DEVICE = 2,
    LANEFS_KIND_DIRECTORY = 4,
    LANEFS_KIND_BLOCK_DEVICE = 6,
    LANEFS_KIND_FILE = 8,
    LANEFS_KIND_SYMLINK = 10,
    LANEFS_KIND_SOCKET = 12,
};

namespace lanefs_detail {
constexpr uint64_t L_BLOCK = 4096u;
constexpr uint64_t L_CHUNK = 2097152u;
constexpr uint64_t L_UNIT = 16u;
constexpr uint64_t L_POINTER_INDIRECT = 7u;
constexpr uint64_t L_POINTER_BLOCK = 5u;
constexpr uint64_t L_POINTER_TAGS = 127u;
constexpr uint64_t L_CACHED_INO = 17592186044416u;
constexpr uint64_t L_POINTER_UNWRITTEN = 16u;
constexpr uint64_t L_POINTER_MEDIUM = 9u;
constexpr uint64_t L_POINTER_LARGE = 13u;
constexpr uint64_t L_MIRROR_MAGIC = 5281969499251032396u;
constexpr uint64_t L_FILES_MAGIC = 5279999174414057804u;
constexpr uint32_t L_MAX_NAME = 255u;
constexpr uint32_t L_MAX_PATH_BYTES = 16384u;
constexpr uint32_t L_MAX_DEPTH = 8u;
constexpr uint32_t L_MAX_FOLLOWED = 40u;
constexpr uint32_t L_COMPONENT_FUEL = 1000u;
constexpr uint32_t L_MAX_MAP_DEPTH = 5u;
constexpr uint32_t L_MAX_TREE_LEVEL = 5u;
constexpr uint32_t L_TREE_MAX = 255u;
constexpr uint32_t L_REGION_MAX = 256u;
constexpr uint32_t L_BUCKETS = 63u;
constexpr uint32_t L_BUCKET_SLOTS = 8u;
constexpr uint32_t L_SLOT_SHIFT = 17u;
constexpr uint32_t L_SLOT_OVERFLOW = 65536u;
constexpr uint32_t L_ROOT_LEVEL_SHIFT = 2u;
constexpr uint32_t L_ROOT_COUNT_SHIFT = 4u;
constexpr uint32_t L_MODE_TYPE = 61440u;
constexpr uint32_t L_MODE_DIRECTORY = 16384u;
constexpr uint32_t L_MODE_SYMLINK = 40960u;
constexpr uint32_t L_INODE_SIZE = 96u;
constexpr uint32_t L_INODE_INLINE = 1u;
constexpr uint32_t L_INODE_LINKS = 4u;
constexpr uint32_t L_INODE_UID = 8u;
constexpr uint32_t L_INODE_GID = 12u;
constexpr uint32_t L_INODE_BYTES = 16u;
constexpr uint32_t L_INODE_MTIME = 48u;
constexpr uint32_t L_INODE_CTIME = 56u;
constexpr uint32_t L_INODE_ATIME = 64u;
constexpr uint32_t L_INODE_BTIME = 72u;
constexpr uint32_t L_INODE_GENERATION = 80u;
constexpr uint32_t L_INODE_BLOCKS = 88u;
constexpr uint32_t L_INODE_PARENT_OR_DEVICE = 32u;
constexpr uint32_t L_LEAF_SIZE = 80u;
constexpr uint32_t L_LEAF_OWNER = 8u;
constexpr uint32_t L_LEAF_NUMBER = 16u;
constexpr uint32_t L_LEAF_UNITS = 40u;
constexpr uint32_t L_ENTRY_SIZE = 32u;
constexpr uint32_t L_ENTRY_INODE = 16u;
constexpr uint32_t L_ENTRY_HASH = 24u;
constexpr uint32_t L_INDEX_SLOTS = 64u;
constexpr uint32_t L_TREE_HASHES = 16u;
constexpr uint32_t L_TREE_POSITIONS = 2056u;
constexpr uint32_t L_POINTER_SLOT_BITS = 9u;
constexpr uint32_t L_CACHED_NAME_BYTES = 24u;
constexpr uint32_t L_CACHED_NAME_WORDS = 6u;
constexpr uint32_t L_CACHE_TAGS = 0u;
constexpr uint32_t L_CACHE_BLOCKS = 2u;
constexpr uint32_t L_CACHE_VERSIONS = 4u;
constexpr uint32_t L_CACHE_CLAIMS = 6u;
constexpr uint32_t L_CACHE_SLOTS = 8u;
constexpr uint32_t L_CACHE_SLOT_WORDS = 8u;
constexpr uint32_t L_CACHE_BUCKET_WORDS = 24u;
constexpr uint32_t L_CACHE_OVERFLOW = 524288u;
constexpr uint32_t L_CACHE_HOMES = 8u;
constexpr uint32_t L_HOME_BITS = 5u;
constexpr uint32_t L_CACHE_DIR_SHIFT = 44u;
constexpr uint32_t L_CACHE_KIND_SHIFT = 56u;
constexpr uint32_t L_CACHE_LENGTH_SHIFT = 59u;
constexpr uint32_t L_DIR_HASH = 0u;
constexpr uint32_t L_DIR_EPOCH = 1u;
constexpr uint32_t L_DIR_WHERE = 3u;
constexpr uint32_t L_DIR_SLOT_WORDS = 4u;
constexpr uint32_t L_DIR_BUCKET_WORDS = 8u;
constexpr uint32_t L_DIR_HOMES = 8u;
constexpr uint32_t L_DIR_HEADER_WORDS = 4u;
constexpr uint32_t L_DIR_UNIT_WORDS = 8u;
constexpr uint32_t L_DIR_LENGTH_BITS = 10u;
constexpr uint32_t L_DIR_PATH_MAX = 1008u;
constexpr uint32_t L_BLOCK_LEAF = 6u;
constexpr uint32_t L_BLOCK_TREE = 7u;
constexpr uint32_t L_FORM_SMALL = 1u;
constexpr uint32_t L_FORM_REGION = 2u;
constexpr uint32_t L_FORM_TREE = 3u;
constexpr uint32_t L_DIR_ROOT_128 = 104u;
constexpr uint32_t L_SMALL_TAGS_128 = 112u;
constexpr uint32_t L_SMALL_ENTRIES_128 = 8u;
constexpr uint32_t L_DIR_ROOT_256 = 192u;
constexpr uint32_t L_SMALL_TAGS_256 = 200u;
constexpr uint32_t L_SMALL_ENTRIES_256 = 28u;
constexpr uint32_t L_FUEL = 1048576u;
constexpr uint32_t L_MAX_DISPATCHES = 256u;
constexpr uint32_t L_INO_BITS = 52u;
constexpr uint32_t L_INODE_MAP = 24u;
constexpr uint32_t L_INODE_DEPTH_MASK = 3840u;
constexpr uint32_t L_INODE_DEPTH_SHIFT = 8u;
constexpr uint32_t L_INODE_EXTENTS_SHIFT = 12u;
constexpr uint32_t L_EXTENT_SIZE = 16u;
constexpr uint32_t L_EXTENT_POINTER = 0u;
constexpr uint32_t L_EXTENT_FIRST = 8u;
constexpr uint32_t L_EXTENT_BLOCKS = 12u;
constexpr uint32_t L_LEAF_UNIT_COUNT = 256u;
constexpr uint32_t L_DEVICE_VERSION = 1u;
constexpr uint32_t L_FILE_PRESENT = 1u;
constexpr uint32_t L_FILE_NOTED = 2147483648u;
constexpr uint32_t L_MIRROR_HEADER_SIZE = 136u;
constexpr uint32_t L_MIRROR_VERSION = 8u;
constexpr uint32_t L_MIRROR_INODE_SIZE = 12u;
constexpr uint32_t L_MIRROR_BYTES = 16u;
constexpr uint32_t L_MIRROR_GENERATION = 24u;
constexpr uint32_t L_MIRROR_ROOT = 32u;
constexpr uint32_t L_MIRROR_VOLUME_BYTES = 40u;
constexpr uint32_t L_MIRROR_CHUNK_COUNT = 48u;
constexpr uint32_t L_MIRROR_TABLE = 56u;
constexpr uint32_t L_MIRROR_CACHE = 64u;
constexpr uint32_t L_MIRROR_VERSIONS = 72u;
constexpr uint32_t L_MIRROR_DIR_TABLE = 80u;
constexpr uint32_t L_MIRROR_DIR_RECORDS = 88u;
constexpr uint32_t L_MIRROR_BUCKETS = 96u;
constexpr uint32_t L_MIRROR_VERSION_COUNT = 100u;
constexpr uint32_t L_MIRROR_DIR_BUCKETS = 104u;
constexpr uint32_t L_MIRROR_DIR_UNITS = 108u;
constexpr uint32_t L_MIRROR_EPOCH = 112u;
constexpr uint32_t L_MIRROR_SEED = 120u;
constexpr uint32_t L_FILES_HEADER_SIZE = 72u;
constexpr uint32_t L_FILES_VERSION = 8u;
constexpr uint32_t L_FILES_SLOTS = 12u;
constexpr uint32_t L_FILES_BYTES = 16u;
constexpr uint32_t L_FILES_TABLE = 24u;
constexpr uint32_t L_FILES_DATA = 32u;
constexpr uint32_t L_FILES_DATA_BYTES = 40u;
constexpr uint32_t L_FILES_MISSES = 48u;
constexpr uint32_t L_FILES_PROBES = 56u;
constexpr uint32_t L_FILES_MISS_ROOM = 60u;
constexpr uint32_t L_FILES_MISS_COUNT = 64u;
constexpr uint32_t L_FILE_SLOT_SIZE = 32u;
constexpr uint32_t L_FILE_SLOT_INO = 0u;
constexpr uint32_t L_FILE_SLOT_START = 8u;
constexpr uint32_t L_FILE_SLOT_BYTES = 16u;
constexpr uint32_t L_FILE_SLOT_GENERATION = 24u;
constexpr uint32_t L_FILE_SLOT_STATE = 28u;
}  // namespace lanefs_detail
// end

// A mirror: the bytes that the host has exported.
struct lanefs_view {
    const uint8_t *base;
    uint64_t bytes;
    // The mirror generation of the bytes. The host says whether there is a newer one.
    uint64_t generation;
    uint64_t root, chunk_count, table, volume_bytes;
    // The directory cache, the versions of blocks, and the directory-path table; without them no buckets.
    uint64_t cache, versions, dir_table, dir_records;
    uint32_t buckets, version_count, dir_buckets, dir_units, epoch, inode_size;
    uint32_t seed[4];
};

// A device file table: files that were brought to the device, and a list of those that were missed.
struct lanefs_files {
    uint8_t *base;
    uint64_t bytes;
    uint64_t table, data, data_bytes, misses;
    uint32_t slots, probes, miss_room;
};

// Result of a lookup.
struct lanefs_found {
    lanefs_code code;
    // A LANEFS_KIND_ number, and the inode number; 0 without a file.
    uint32_t kind;
    uint64_t ino;
};

// Attributes, as in stat(2). Times are nanoseconds since 1970, sizes bytes, blocks have 4 KiB.
struct lanefs_attributes {
    uint64_t ino, size, blocks, rdev;
    int64_t mtime, ctime, atime, btime;
    uint32_t mode, links, uid, gid, generation;
};

// Blocks that are consecutive in a file and on the volume, in bytes.
struct lanefs_extent {
    uint64_t offset, position, bytes;
    // 1: allocated and never written, so they read as zeros.
    uint32_t unwritten;
};

// A directory that is listed.
struct lanefs_directory {
    uint64_t ino;
    // Continues after the last entry, also in another view: as the cookies of docs/format.md.
    uint64_t cookie;
    // The leaf block that is listed: its position, 0 before the first; the unit that comes next.
    uint64_t leaf;
    uint32_t unit;
};

// An entry of a directory. Its name lies in the mirror, without a NUL at its end.
struct lanefs_entry {
    uint64_t ino, cookie;
    const char *name;
    uint32_t name_length, kind;
};

// Options of lookups.
enum lanefs_options : uint32_t {
    LANEFS_FOLLOW = 0,
    // A symbolic link at the end is the result.
    LANEFS_NO_FOLLOW = 1,
};

// A thread alone.
struct lanefs_thread {
    LANEFS_FUNCTION uint32_t rank() const { return 0; }
    LANEFS_FUNCTION uint32_t size() const { return 1; }
    // Returns a bit for each member of the group. All of them must call it.
    LANEFS_FUNCTION uint64_t ballot(bool is_set) const { return is_set ? 1 : 0; }
};

#ifdef LANEFS_HAS_WARPS
// The lanes of a warp (CUDA) or a wave front (HIP), all of them. Blocks must have a multiple of its size.
struct lanefs_warp {
#ifdef LANEFS_ON_DEVICE
    LANEFS_FUNCTION uint32_t rank() const {
        return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % size();
    }
    LANEFS_FUNCTION uint32_t size() const { return (uint32_t)warpSize; }
    LANEFS_FUNCTION uint64_t ballot(bool is_set) const {
#ifdef __CUDA_ARCH__
        return __ballot_sync(0xffffffffu, is_set);
#else
        return __ballot(is_set);
#endif
    }
#else
    LANEFS_FUNCTION uint32_t rank() const { return 0; }
    LANEFS_FUNCTION uint32_t size() const { return 1; }
    LANEFS_FUNCTION uint64_t ballot(bool is_set) const { return is_set ? 1 : 0; }
#endif
};
#endif

namespace lanefs_detail {

LANEFS_FUNCTION uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
LANEFS_FUNCTION uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

// Number of the lowest bit that is set; there is one.
LANEFS_FUNCTION uint32_t lowest_bit(uint64_t bits) {
#ifdef __CUDA_ARCH__
    return (uint32_t)__ffsll((long long)bits) - 1;
#else
    return (uint32_t)__builtin_ctzll(bits);
#endif
}

LANEFS_FUNCTION uint32_t count_bits(uint64_t bits) {
#ifdef __CUDA_ARCH__
    return (uint32_t)__popcll((long long)bits);
#else
    return (uint32_t)__builtin_popcountll(bits);
#endif
}

// Returns the highest bit of each byte that is 0.
LANEFS_FUNCTION uint32_t zero_bytes(uint32_t word) {
    return ~(((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word | 0x7f7f7f7fu);
}

LANEFS_FUNCTION bool is_kind(uint32_t kind) {
    return kind == LANEFS_KIND_FIFO || kind == LANEFS_KIND_CHAR_DEVICE || kind == LANEFS_KIND_DIRECTORY
           || kind == LANEFS_KIND_BLOCK_DEVICE || kind == LANEFS_KIND_FILE || kind == LANEFS_KIND_SYMLINK
           || kind == LANEFS_KIND_SOCKET;
}

// Tells whether `count` elements of `size` bytes lie at an offset in so many bytes, aligned.
LANEFS_FUNCTION bool is_inside(uint64_t at, uint64_t count, uint64_t size, uint64_t bytes) {
    return at % 16 == 0 && at <= bytes && count <= (bytes - at) / size;
}

// MurmurHash3 for 32 bits (Austin Appleby, public domain), as in shaders/hash.glsl.
LANEFS_FUNCTION uint32_t rotate_left(uint32_t word, uint32_t bits) {
    return word << bits | word >> (32 - bits);
}

LANEFS_FUNCTION uint32_t mix_word(uint32_t hash, uint32_t word) {
    return rotate_left(hash ^ rotate_left(word * 0xcc9e2d51u, 15) * 0x1b873593u, 13) * 5u + 0xe6546b64u;
}

LANEFS_FUNCTION uint32_t end_hash(uint32_t hash, uint32_t bytes) {
    hash ^= bytes;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

LANEFS_FUNCTION uint32_t bucket_number(uint32_t hash, uint32_t buckets) {
    return (uint32_t)((uint64_t)hash * buckets >> 32);
}

LANEFS_FUNCTION uint32_t load32(const uint8_t *at) { return *(const uint32_t *)at; }
LANEFS_FUNCTION uint64_t load64(const uint8_t *at) { return *(const uint64_t *)at; }

// A word that other threads may change.
LANEFS_FUNCTION uint64_t load_shared(const uint64_t *at) {
#ifdef LANEFS_ON_DEVICE
    return *(const volatile uint64_t *)at;
#else
    return __atomic_load_n(at, __ATOMIC_RELAXED);
#endif
}

// Puts a value where there is 0; returns the value that was there.
LANEFS_FUNCTION uint64_t claim(uint64_t *at, uint64_t value) {
#ifdef LANEFS_ON_DEVICE
    return atomicCAS((unsigned long long *)at, 0ull, (unsigned long long)value);
#else
    uint64_t before = 0;
    __atomic_compare_exchange_n(at, &before, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return before;
#endif
}

LANEFS_FUNCTION uint32_t load_shared(const uint32_t *at) {
#ifdef LANEFS_ON_DEVICE
    return *(const volatile uint32_t *)at;
#else
    return __atomic_load_n(at, __ATOMIC_RELAXED);
#endif
}

// Puts a word where there is another one that is known. Of all threads one has success.
LANEFS_FUNCTION bool exchange(uint32_t *at, uint32_t before, uint32_t value) {
#ifdef LANEFS_ON_DEVICE
    return atomicCAS((unsigned int *)at, before, value) == before;
#else
    return __atomic_compare_exchange_n(at, &before, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

LANEFS_FUNCTION uint32_t add_one(uint32_t *at) {
#ifdef LANEFS_ON_DEVICE
    return atomicAdd(at, 1u);
#else
    return __atomic_fetch_add(at, 1u, __ATOMIC_RELAXED);
#endif
}

// Text: the caller's path, or the target of a link in the mirror.
struct text_part {
    const uint8_t *text;
    uint32_t at, end;
};

// Returns the four bytes from an offset on, the first in the lowest bits; those from `end` on are 0.
LANEFS_FUNCTION uint32_t text_word(const uint8_t *text, uint32_t at, uint32_t end) {
    uint32_t word = 0;
    for (uint32_t i = 0; i < 4 && at + i < end; i++) {
        word |= (uint32_t)text[at + i] << (8 * i);
    }
    return word;
}

// A name with its hash (ext4's half-MD4), and by words as the directory cache has it.
struct hashed_name {
    const uint8_t *text;
    uint32_t bytes, hash;
};

LANEFS_FUNCTION uint32_t swap_bytes(uint32_t word) {
    return word << 24 | (word & 0xff00u) << 8 | (word >> 8 & 0xff00u) | word >> 24;
}

LANEFS_FUNCTION uint32_t mix_bits(uint32_t round, uint32_t x, uint32_t y, uint32_t z) {
    return round == 0 ? z ^ (x & (y ^ z)) : round == 1 ? (x & y) + ((x ^ y) & z) : x ^ y ^ z;
}

LANEFS_FUNCTION void half_md4_block(uint32_t s[4], const uint32_t m[8]) {
    // The order of the words and the shifts of each round, 4 and 8 bits each, the first in the lowest ones.
    const uint32_t orders[3] = {0x76543210u, 0x64207531u, 0x40516273u};
    const uint32_t shifts[3] = {0x130b0703u, 0x0d090503u, 0x0f0b0903u};
    const uint32_t constants[3] = {0u, 0x5a827999u, 0x6ed9eba1u};
    uint32_t a = s[0], b = s[1], c = s[2], d = s[3];
    LANEFS_UNROLL
    for (uint32_t round = 0; round < 3; round++) {
        LANEFS_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t word = m[orders[round] >> (4 * i) & 7u];
            uint32_t sum = a + mix_bits(round, b, c, d) + word + constants[round];
            a = d, d = c, c = b, b = rotate_left(sum, shifts[round] >> (8 * (i % 4)) & 31u);
        }
    }
    s[0] += a, s[1] += b, s[2] += c, s[3] += d;
}

LANEFS_FUNCTION uint32_t half_md4(const uint32_t seed[4], const uint8_t *text, uint32_t bytes) {
    uint32_t hash[4] = {seed[0], seed[1], seed[2], seed[3]};
    for (uint32_t from = 0; from < bytes; from += 32) {
        uint32_t left = bytes - from, m[8];
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t have = left - least(left, 4 * i), pad = left * 0x01010101u;
            uint32_t word = swap_bytes(text_word(text, from + 4 * i, bytes));
            m[i] = have == 0 ? pad : have >= 4 ? word : pad << (8 * have) | word >> (32 - 8 * have);
        }
        half_md4_block(hash, m);
    }
    return hash[1];
}

enum entry_state : uint32_t { entry_missing, entry_there, entry_unknown };

struct entry_found {
    entry_state state;
    uint32_t kind;
    uint64_t ino;
};

// A reader of a mirror: a thread, or a group whose members all have the same arguments and results.
template <class Group> struct reader {
    const lanefs_view *view;
    Group group;
    // Rounds of loops that are left.
    uint32_t fuel;

    LANEFS_FUNCTION reader(const lanefs_view *its_view, Group its_group)
        : view(its_view), group(its_group), fuel(L_FUEL) {}

    LANEFS_FUNCTION bool burn() { return fuel != 0 && fuel-- != 0; }
    LANEFS_FUNCTION void spend(uint32_t rounds) { fuel -= least(fuel, rounds); }

    LANEFS_FUNCTION entry_found no_entry(entry_state state) const { return entry_found{state, 0, 0}; }

    // Returns the bytes at a position, up to the end of its block; null where their chunk has no copy.
    LANEFS_FUNCTION const uint8_t *at(uint64_t position) const {
        uint64_t chunk = position / L_CHUNK;
        if (chunk >= view->chunk_count) {
            return nullptr;
        }
        uint64_t copy = load64(view->base + view->table + chunk * 8);
        bool is_copy =
            copy != 0 && copy % L_BLOCK == 0 && view->bytes >= L_CHUNK && copy <= view->bytes - L_CHUNK;
        return is_copy ? view->base + copy + position % L_CHUNK : nullptr;
    }

    // Positions are multiples of 4 or 8. Without a copy the result is all ones, as in an absent block.
    LANEFS_FUNCTION uint32_t word_at(uint64_t position, bool *resident) const {
        const uint8_t *bytes = at(position);
        *resident = *resident && bytes != nullptr;
        return bytes == nullptr ? ~0u : load32(bytes);
    }

    LANEFS_FUNCTION uint64_t quad_at(uint64_t position, bool *resident) const {
        const uint8_t *bytes = at(position);
        *resident = *resident && bytes != nullptr;
        return bytes == nullptr ? ~(uint64_t)0 : load64(bytes);
    }

    // Returns the inode with a number, all of whose bytes lie there; null where it is absent.
    LANEFS_FUNCTION const uint8_t *inode(uint64_t ino) const {
        const uint8_t *bytes = ino >> L_INO_BITS == 0 ? at(ino * view->inode_size) : nullptr;
        return bytes != nullptr && is_kind((load32(bytes) & L_MODE_TYPE) >> 12) ? bytes : nullptr;
    }

    // Compares the entry at a position with a name.
    LANEFS_FUNCTION entry_found probe(uint64_t position, const hashed_name *name) {
        uint64_t inside = position % L_BLOCK;
        if (position % L_UNIT != 0 || inside < L_LEAF_SIZE || inside + L_ENTRY_SIZE + name->bytes > L_BLOCK) {
            return no_entry(entry_unknown);
        }
        const uint8_t *entry = at(position);
        if (entry == nullptr) {
            return no_entry(entry_unknown);
        }
        uint64_t word = load64(entry + L_ENTRY_HASH);
        uint32_t rest = (uint32_t)(word >> 32), length = rest & 0xffu;
        if (length == 0 || rest >> 16 != 0) {
            return no_entry(entry_unknown);
        }
        if ((uint32_t)word != name->hash || length != name->bytes) {
            return no_entry(entry_missing);
        }
        for (uint32_t first = 0; first < length && burn(); first += 4 * group.size()) {
            uint32_t i = first + 4 * group.rank(), left = i < length ? length - i : 0;
            uint32_t mask = left >= 4 ? ~0u : (1u << (8 * left)) - 1;
            bool differs =
                left != 0
                && ((load32(entry + L_ENTRY_SIZE + i) & mask) ^ text_word(name->text, i, length)) != 0;
            if (group.ballot(differs) != 0) {
                return no_entry(entry_missing);
            }
        }
        uint32_t kind = rest >> 8 & 0xffu;
        return is_kind(kind) ? entry_found{entry_there, kind, load64(entry + L_ENTRY_INODE)}
                             : no_entry(entry_unknown);
    }

    LANEFS_FUNCTION entry_found find_small(uint64_t at_inode, uint64_t leaf, const hashed_name *name) {
        bool is_128 = view->inode_size == 128, resident = true;
        uint32_t tags = is_128 ? L_SMALL_TAGS_128 : L_SMALL_TAGS_256;
        uint32_t entries = is_128 ? L_SMALL_ENTRIES_128 : L_SMALL_ENTRIES_256;
        uint32_t tag = (name->hash >> 24) * 0x01010101u;
        for (uint32_t first = 0; first < entries && burn(); first += 4 * group.size()) {
            uint32_t own = first + 4 * group.rank();
            uint32_t equal = own < entries ? zero_bytes(word_at(at_inode + tags + own, &resident) ^ tag) : 0;
            for (uint64_t lanes = group.ballot(equal != 0); lanes != 0; lanes &= lanes - 1) {
                uint32_t i = first + 4 * lowest_bit(lanes);
                equal = zero_bytes(word_at(at_inode + tags + i, &resident) ^ tag);
                for (; equal != 0 && burn(); equal &= equal - 1) {
                    uint32_t units = tags + entries + i + lowest_bit(equal) / 8;
                    uint32_t word = word_at(at_inode + units / 4 * 4, &resident);
                    uint32_t unit = word >> (units % 4 * 8) & 0xffu;
                    entry_found entry =
                        unit == 0 ? no_entry(entry_missing) : probe(leaf + unit * L_UNIT, name);
                    if (entry.state != entry_missing) {
                        return entry;
                    }
                }
            }
        }
        return no_entry(resident ? entry_missing : entry_unknown);
    }

    LANEFS_FUNCTION entry_found find_in_region(uint64_t index, const hashed_name *name) {
        uint32_t tag = name->hash & 0xffffu, bucket = tag * L_BUCKETS >> 16;
        bool resident = index % L_BLOCK == 0;
        for (uint32_t n = 0; n < L_BUCKETS && resident && burn(); n++) {
            uint64_t slots = index + L_INDEX_SLOTS + (uint64_t)bucket * L_BUCKET_SLOTS * 8;
            uint64_t head = quad_at(slots, &resident);
            if (head == ~(uint64_t)0) {
                return no_entry(entry_unknown);
            }
            for (uint32_t first = 0; first < L_BUCKET_SLOTS && burn(); first += group.size()) {
                uint32_t own = first + group.rank();
                uint64_t slot = own < L_BUCKET_SLOTS ? quad_at(slots + own * 8, &resident) : 0;
                bool is_like = (slot & 0xffffu) == tag && slot >> L_SLOT_SHIFT != 0;
                for (uint64_t lanes = group.ballot(is_like); lanes != 0; lanes &= lanes - 1) {
                    slot = quad_at(slots + (first + lowest_bit(lanes)) * 8, &resident);
                    entry_found entry = probe((slot >> L_SLOT_SHIFT) * L_UNIT, name);
                    if (entry.state != entry_missing) {
                        return entry;
                    }
                }
            }
            if ((head & L_SLOT_OVERFLOW) == 0) {
                // The host looks at entries without a slot.
                return no_entry(resident && n + 1 < L_REGION_MAX / L_BUCKET_SLOTS ? entry_missing
                                                                                  : entry_unknown);
            }
            bucket = (bucket + 1) % L_BUCKETS;
        }
        return no_entry(entry_unknown);
    }

    // Returns the child of a tree block for a hash: the last one whose hash is at most that.
    LANEFS_FUNCTION uint32_t child_of(uint64_t hashes, uint32_t count, uint32_t i, uint32_t hash,
                                      bool *resident) {
        if (group.size() == 1) {
            for (; i > 0 && word_at(hashes + i * 4, resident) > hash && burn(); i--) {}
            for (; i + 1 < count && word_at(hashes + (i + 1) * 4, resident) <= hash && burn(); i++) {}
            return i;
        }
        // All members see whether the block is there.
        word_at(hashes, resident);
        uint32_t below = 0;
        for (uint32_t first = 0; first < count && burn(); first += group.size()) {
            uint32_t own = first + group.rank(), last = own + 1 < count ? own + 1 : own;
            bool is_below = own < count && word_at(hashes + own * 4, resident) <= hash;
            // Hashes of a sound block rise.
            bool is_bad = own < count && own != last
                          && word_at(hashes + own * 4, resident) >= word_at(hashes + last * 4, resident);
            if (group.ballot(is_bad) != 0) {
                *resident = false;
                return 0;
            }
            below += count_bits(group.ballot(is_below));
        }
        return below == 0 ? 0 : below - 1;
    }

    // Returns the index block of a hash's region; 0 where that is not known.
    LANEFS_FUNCTION uint64_t region_of(uint64_t root, uint32_t hash) {
        uint32_t level = (uint32_t)root >> L_ROOT_LEVEL_SHIFT & 3u;
        uint32_t count = (uint32_t)(root % L_BLOCK) >> L_ROOT_COUNT_SHIFT;
        uint64_t block = root - root % L_BLOCK;
        uint32_t above = L_MAX_TREE_LEVEL + 1, low = 0, last = ~0u;
        for (uint32_t n = 0; n < L_MAX_TREE_LEVEL && burn(); n++) {
            bool resident = block % L_BLOCK == 0;
            if (n > 0 || level == 0) {
                uint32_t head = word_at(block, &resident);
                resident = resident && (head & 0xffu) == L_BLOCK_TREE;
                level = head >> 8 & 0xffu;
                count = head >> 16;
            }
            if (!resident || level == 0 || level >= above || count == 0 || count > L_TREE_MAX) {
                return 0;
            }
            uint64_t hashes = block + L_TREE_HASHES;
            uint32_t guess = least(((hash - low) >> 8) * count / (((last - low) >> 8) + 1), count - 1);
            uint32_t i = child_of(hashes, count, guess, hash, &resident);
            uint64_t child = quad_at(block + L_TREE_POSITIONS + (uint64_t)i * 8, &resident);
            if (!resident || level == 1) {
                return resident ? child : 0;
            }
            low = i > 0 ? word_at(hashes + i * 4, &resident) : low;
            last = i + 1 < count ? word_at(hashes + (i + 1) * 4, &resident) - 1 : last;
            above = level;
            block = child;
        }
        return 0;
    }

    // Finds a name in a directory. With `is_known` an entry has said that it is a directory.
    LANEFS_FUNCTION entry_found find(uint64_t dir, bool is_known, const hashed_name *name) {
        bool resident = true;
        uint64_t at_inode = dir * view->inode_size;
        uint64_t root =
            quad_at(at_inode + (view->inode_size == 128 ? L_DIR_ROOT_128 : L_DIR_ROOT_256), &resident);
        if (!resident || (!is_known && (word_at(at_inode, &resident) & L_MODE_TYPE) != L_MODE_DIRECTORY)) {
            return no_entry(entry_unknown);
        }
        if (root == 0) {
            return no_entry(entry_missing);
        }
        uint64_t form = root % L_BLOCK, block = root - form;
        if (form == L_FORM_SMALL) {
            return find_small(at_inode, block, name);
        }
        uint64_t index = form == L_FORM_REGION     ? block
                         : form % 4 == L_FORM_TREE ? region_of(root, name->hash)
                                                   : 0;
        return index == 0 ? no_entry(entry_unknown) : find_in_region(index, name);
    }

    // Finds a name in the directory cache, as shaders/cache.glsl.
    LANEFS_FUNCTION entry_found cached(uint64_t dir, const uint8_t *text, uint32_t bytes) const {
        if (view->buckets == 0 || bytes > L_CACHED_NAME_BYTES || dir >= L_CACHED_INO) {
            return no_entry(entry_missing);
        }
        uint32_t words[L_CACHED_NAME_WORDS], hash = view->seed[0];
        LANEFS_UNROLL
        for (uint32_t k = 0; k < L_CACHED_NAME_WORDS; k++) {
            words[k] = text_word(text, 4 * k, bytes);
            hash = mix_word(hash, words[k]);
        }
        hash = end_hash(hash, bytes);
        uint32_t turned = end_hash(mix_word(mix_word(hash, (uint32_t)dir), (uint32_t)(dir >> 32)), 0);
        for (uint32_t home = 0; home < L_CACHE_HOMES; home++) {
            uint64_t number = bucket_number(turned, view->buckets);
            const uint8_t *bucket = view->base + view->cache + number * L_CACHE_BUCKET_WORDS * 4;
            entry_found entry = cached_in(bucket, dir, hash, words, bytes);
            // No name went from here to a further home.
            bool is_last = (load32(bucket + L_CACHE_CLAIMS * 4 + 4) & L_CACHE_OVERFLOW) == 0;
            if (entry.state == entry_there || is_last) {
                return entry;
            }
            turned = rotate_left(turned, L_HOME_BITS);
        }
        return no_entry(entry_missing);
    }

    // Finds a name in one of its homes.
    LANEFS_FUNCTION entry_found cached_in(const uint8_t *bucket, uint64_t dir, uint32_t hash,
                                          const uint32_t *words, uint32_t bytes) const {
        for (uint32_t i = 0; i < 2; i++) {
            if (load32(bucket + (L_CACHE_TAGS + i) * 4) != ((uint32_t)dir ^ hash)) {
                continue;
            }
            const uint8_t *slot = bucket + (L_CACHE_SLOTS + i * L_CACHE_SLOT_WORDS) * 4;
            uint64_t packed = load64(slot);
            bool is_it = packed >> L_CACHE_LENGTH_SHIFT == bytes
                         && (packed >> L_CACHE_DIR_SHIFT & 0xfffu) == dir >> 32;
            LANEFS_UNROLL
            for (uint32_t k = 0; k < L_CACHED_NAME_WORDS; k++) {
                is_it = is_it && load32(slot + 8 + 4 * k) == words[k];
            }
            uint32_t block = load32(bucket + (L_CACHE_BLOCKS + i) * 4);
            uint32_t version = load32(bucket + (L_CACHE_VERSIONS + i) * 4);
            // Nothing in the cache is stale.
            is_it = is_it && block < view->version_count;
            if (is_it && load32(view->base + view->versions + (uint64_t)block * 4) == version) {
                uint32_t kind = (uint32_t)(packed >> L_CACHE_KIND_SHIFT) & 7u;
                return entry_found{entry_there, kind == 0 ? (uint32_t)LANEFS_KIND_FIFO : kind << 1,
                                   packed & (L_CACHED_INO - 1)};
            }
        }
        return no_entry(entry_missing);
    }

    // Finds a directory in the directory-path table, as shaders/dir_table.glsl; 0 where it does not have it.
    LANEFS_FUNCTION uint64_t known_directory(uint64_t start, const uint8_t *path, uint32_t bytes) const {
        if (view->dir_buckets == 0 || bytes > L_DIR_PATH_MAX) {
            return 0;
        }
        uint32_t hash = mix_word(mix_word(view->seed[0], (uint32_t)start), (uint32_t)(start >> 32));
        for (uint32_t i = 0; i < bytes; i += 4) {
            hash = mix_word(hash, text_word(path, i, bytes));
        }
        hash = end_hash(hash, bytes);
        bool is_full = true;
        uint32_t turned = hash;
        for (uint32_t n = 0; n < 2 * L_DIR_HOMES; n++) {
            if (n != 0 && n % 2 == 0) {
                // A path goes to a further home only where both slots of the one before are taken.
                if (!is_full) {
                    return 0;
                }
                turned = rotate_left(turned, L_HOME_BITS);
            }
            uint64_t number = bucket_number(turned, view->dir_buckets);
            const uint8_t *bucket = view->base + view->dir_table + number * L_DIR_BUCKET_WORDS * 4;
            const uint8_t *slot = bucket + n % 2 * L_DIR_SLOT_WORDS * 4;
            is_full = is_full && load32(slot + L_DIR_EPOCH * 4) == view->epoch;
            uint32_t where = load32(slot + L_DIR_WHERE * 4), length = where & ((1u << L_DIR_LENGTH_BITS) - 1);
            if (load32(slot + L_DIR_HASH * 4) != hash || load32(slot + L_DIR_EPOCH * 4) != view->epoch
                || length != bytes) {
                continue;
            }
            uint64_t unit = where >> L_DIR_LENGTH_BITS,
                     units = (L_DIR_HEADER_WORDS + (bytes + 3) / 4 + 7) / L_DIR_UNIT_WORDS;
            if (unit + units > view->dir_units) {
                return 0;
            }
            const uint8_t *record = view->base + view->dir_records + unit * L_DIR_UNIT_WORDS * 4;
            bool differs = load64(record + 8) != start;
            for (uint32_t own = 4 * group.rank(); own < bytes; own += 4 * group.size()) {
                differs =
                    differs || load32(record + L_DIR_HEADER_WORDS * 4 + own) != text_word(path, own, bytes);
            }
            return group.ballot(differs) != 0 ? 0 : load64(record);
        }
        return 0;
    }

    // Returns the offset of the last name of a path; its end, where it has no name or one that is too long.
    LANEFS_FUNCTION uint32_t last_name(const uint8_t *path, uint32_t length) const {
        for (uint32_t n = 0; n <= L_MAX_NAME; n += group.size()) {
            uint32_t own = n + group.rank();
            // The byte before the path counts as a slash.
            uint64_t slashes = group.ballot(own == length || (own < length && path[length - 1 - own] == '/'));
            if (slashes != 0) {
                uint32_t bytes = n + lowest_bit(slashes);
                return bytes > L_MAX_NAME ? length : length - bytes;
            }
        }
        return length;
    }

    // Returns the end of the component that begins at `rest`: at a slash, at a NUL, at the end of the text;
    // or it is too long for a name.
    LANEFS_FUNCTION uint32_t component_end(const text_part *rest) {
        uint32_t last = least(rest->end, rest->at + L_MAX_NAME + 1), found = last;
        for (uint32_t from = rest->at; from < last; from += group.size()) {
            uint32_t own = from + group.rank();
            uint64_t ends = group.ballot(own < last && (rest->text[own] == '/' || rest->text[own] == 0));
            if (ends != 0) {
                found = from + lowest_bit(ends);
                break;
            }
        }
        spend(2 + (found - rest->at) / 4);
        return found;
    }

    LANEFS_FUNCTION void skip(text_part *rest) {
        while (rest->at < rest->end && rest->text[rest->at] == '/' && burn()) {
            rest->at++;
        }
    }

    // Returns the target of a link, where it lies in the inode; else no text.
    LANEFS_FUNCTION text_part target_of(uint64_t ino) const {
        const uint8_t *bytes = at(ino * view->inode_size);
        if (bytes == nullptr) {
            return text_part{nullptr, 0, 0};
        }
        uint32_t head = load32(bytes);
        uint64_t size = load64(bytes + L_INODE_BYTES);
        bool is_inline = (head & L_MODE_TYPE) == L_MODE_SYMLINK && (head >> 16 & L_INODE_INLINE) != 0;
        bool is_there = is_inline && size <= view->inode_size - L_INODE_SIZE;
        return text_part{bytes + L_INODE_SIZE, 0, is_there ? (uint32_t)size : 0};
    }

    LANEFS_FUNCTION lanefs_found failed(lanefs_code code) const { return lanefs_found{code, 0, 0}; }

    // Answers by the directory-path table and the directory cache, as shaders/lookup.comp; else begins a walk
    // where they end: `*dir`, `*begin`.
    LANEFS_FUNCTION bool shortcut(const uint8_t *path, uint32_t length, bool follows, uint64_t *dir,
                                  uint32_t *begin, lanefs_found *found) const {
        uint32_t last = last_name(path, length), bytes = length - last;
        bool is_odd =
            bytes == 0 || (path[last] == '.' && (bytes == 1 || (bytes == 2 && path[last + 1] == '.')));
        if (is_odd || (view->buckets == 0 && view->dir_buckets == 0)) {
            return false;
        }
        uint64_t parent = last > 1 ? known_directory(*dir, path, last - 1) : *dir;
        if (parent == 0) {
            return false;
        }
        *dir = parent;
        *begin = last;
        entry_found entry = cached(parent, path + last, bytes);
        if (entry.state != entry_there || (entry.kind == LANEFS_KIND_SYMLINK && follows)) {
            return false;
        }
        *found = lanefs_found{LANEFS_SUCCESS, entry.kind, entry.ino};
        return true;
    }

    // Resolves a path component by component, as shaders/walk.comp, from a directory and an offset on.
    LANEFS_FUNCTION lanefs_found walk(const uint8_t *path, uint32_t length, bool follows, uint64_t dir,
                                      uint32_t begin) {
        text_part rest = {path, begin, length}, outer[L_MAX_DEPTH];
        uint32_t depth = 0, followed = 0, refuels = 0, kind = LANEFS_KIND_DIRECTORY;
        bool is_known = true, is_path = true, has_slash = false;
        skip(&rest);
        while (true) {
            if (rest.at >= rest.end && depth > 0) {
                rest = outer[--depth];
            }
            if (rest.at >= rest.end) {
                break;
            }
            if (kind != LANEFS_KIND_DIRECTORY) {
                return failed(LANEFS_NOT_DIRECTORY);
            }
            // Where a dispatch of the kernel would end, and the next one resume.
            if (fuel < L_COMPONENT_FUEL && depth == 0 && is_path) {
                if (++refuels == L_MAX_DISPATCHES) {
                    return failed(LANEFS_NOT_RESIDENT);
                }
                fuel = L_FUEL;
            }
            if (!burn()) {
                return failed(LANEFS_NOT_RESIDENT);
            }
            uint32_t first = rest.at, end = component_end(&rest), bytes = end - first;
            if (bytes > L_MAX_NAME || (end < rest.end && rest.text[end] == 0)) {
                return failed(LANEFS_NOT_RESIDENT);
            }
            const uint8_t *text = rest.text + first;
            rest.at = end;
            skip(&rest);
            bool has_components = rest.at < rest.end || depth > 0;
            bool must_be_dir = end < rest.end || depth > 0 || has_slash;
            if (bytes == 1 && text[0] == '.') {
                continue;
            }
            if (bytes == 2 && text[0] == '.' && text[1] == '.') {
                bool resident = true;
                dir = quad_at(dir * view->inode_size + L_INODE_PARENT_OR_DEVICE, &resident);
                if (!resident || dir == 0) {
                    return failed(LANEFS_NOT_RESIDENT);
                }
                is_known = false;
                continue;
            }
            entry_found entry = cached(dir, text, bytes);
            if (entry.state != entry_there) {
                spend(1 + bytes / 32);
                hashed_name name = {text, bytes, half_md4(view->seed, text, bytes)};
                entry = find(dir, is_known, &name);
            }
            if (fuel == 0 || entry.state == entry_unknown) {
                return failed(LANEFS_NOT_RESIDENT);
            }
            if (entry.state == entry_missing) {
                return failed(has_components ? LANEFS_COMPONENT_NOT_FOUND : LANEFS_NOT_FOUND);
            }
            if (entry.kind != LANEFS_KIND_SYMLINK || (!follows && !must_be_dir)) {
                dir = entry.ino;
                kind = entry.kind;
                is_known = true;
                continue;
            }
            if (++followed > L_MAX_FOLLOWED) {
                return failed(LANEFS_SYMLINK_LOOP);
            }
            text_part target = target_of(entry.ino);
            if (target.end == 0 || (rest.at < rest.end && depth == L_MAX_DEPTH)) {
                return failed(LANEFS_NOT_RESIDENT);
            }
            if (rest.at < rest.end) {
                outer[depth++] = rest;
            } else if (depth == 0) {
                has_slash = has_slash || end < rest.end;
                is_path = false;
            }
            rest = target;
            if (rest.text[0] == '/') {
                dir = view->root;
                is_known = true;
            }
            skip(&rest);
        }
        if (fuel == 0) {
            return failed(LANEFS_NOT_RESIDENT);
        }
        bool must_be_dir = has_slash || rest.text[rest.end - 1] == '/';
        return kind != LANEFS_KIND_DIRECTORY && must_be_dir ? failed(LANEFS_NOT_DIRECTORY)
                                                            : lanefs_found{LANEFS_SUCCESS, kind, dir};
    }

    LANEFS_FUNCTION lanefs_found lookup(uint64_t base, const char *name, uint64_t length, bool follows) {
        if (length == 0 || length > L_MAX_PATH_BYTES) {
            return failed(length == 0 ? LANEFS_NOT_FOUND : LANEFS_NOT_RESIDENT);
        }
        const uint8_t *path = (const uint8_t *)name;
        uint64_t dir = path[0] == '/' ? view->root : base;
        // A walk knows the type of the root and of each entry, not that of the caller's number.
        if (dir != view->root) {
            const uint8_t *bytes = inode(dir);
            if (bytes == nullptr || (load32(bytes) & L_MODE_TYPE) != L_MODE_DIRECTORY) {
                return failed(bytes == nullptr ? LANEFS_NOT_RESIDENT : LANEFS_NOT_DIRECTORY);
            }
        }
        uint32_t begin = 0;
        lanefs_found found = failed(LANEFS_NOT_RESIDENT);
        bool is_found = shortcut(path, (uint32_t)length, follows, &dir, &begin, &found);
        return is_found ? found : walk(path, (uint32_t)length, follows, dir, begin);
    }

    LANEFS_FUNCTION lanefs_code attributes(uint64_t ino, lanefs_attributes *found) const {
        const uint8_t *bytes = inode(ino);
        if (bytes == nullptr) {
            return LANEFS_NOT_RESIDENT;
        }
        uint32_t mode = load32(bytes) & 0xffffu, kind = mode >> 12;
        uint64_t blocks = load64(bytes + L_INODE_BLOCKS);
        bool is_device = kind == LANEFS_KIND_CHAR_DEVICE || kind == LANEFS_KIND_BLOCK_DEVICE;
        uint64_t size = load64(bytes + L_INODE_BYTES);
        if (kind == LANEFS_KIND_DIRECTORY) {
            size = blocks >> 52 != 0 ? ~(uint64_t)0 : blocks * L_BLOCK;
        }
        *found = lanefs_attributes{ino,
                                   size,
                                   blocks,
                                   is_device ? load64(bytes + L_INODE_PARENT_OR_DEVICE) : 0,
                                   (int64_t)load64(bytes + L_INODE_MTIME),
                                   (int64_t)load64(bytes + L_INODE_CTIME),
                                   (int64_t)load64(bytes + L_INODE_ATIME),
                                   (int64_t)load64(bytes + L_INODE_BTIME),
                                   mode,
                                   load32(bytes + L_INODE_LINKS),
                                   load32(bytes + L_INODE_UID),
                                   load32(bytes + L_INODE_GID),
                                   load32(bytes + L_INODE_GENERATION)};
        return LANEFS_SUCCESS;
    }

    // Finds the first pointer of a file map at or after a block, and the level of its slot: SUCCESS,
    // NO_SUCH_RANGE where none follows.
    LANEFS_FUNCTION lanefs_code next_pointer(uint64_t root, uint32_t depth, uint64_t *number,
                                             uint64_t *pointer, uint32_t *level) {
        *pointer = root;
        *level = 1;
        if (depth == 0) {
            return root != 0 && *number == 0 ? LANEFS_SUCCESS : LANEFS_NO_SUCH_RANGE;
        }
        while (depth <= L_MAX_MAP_DEPTH && *number >> (L_POINTER_SLOT_BITS * depth) == 0) {
            uint64_t word = root;
            for (uint32_t l = depth; word != 0; l--) {
                uint64_t block = word & ~L_POINTER_TAGS;
                if (l == 0 || (word & L_POINTER_TAGS) != L_POINTER_INDIRECT || block % L_BLOCK != 0) {
                    *pointer = word;
                    *level = l + 1;
                    // At the top there are pointers to blocks of pointers only.
                    return l == depth ? LANEFS_NOT_RESIDENT : LANEFS_SUCCESS;
                }
                uint32_t shift = L_POINTER_SLOT_BITS * (l - 1), slots = 1u << L_POINTER_SLOT_BITS;
                word = 0;
                for (uint32_t first = (uint32_t)(*number >> shift) & (slots - 1); first < slots && word == 0;
                     first += group.size()) {
                    uint32_t own = first + group.rank(), holes = least(group.size(), slots - first);
                    bool resident = burn() && at(block) != nullptr;
                    if (!resident) {
                        return LANEFS_NOT_RESIDENT;
                    }
                    uint64_t used =
                        group.ballot(own < slots && quad_at(block + (uint64_t)own * 8, &resident) != 0);
                    if (used != 0) {
                        holes = lowest_bit(used);
                        word = quad_at(block + (uint64_t)(first + holes) * 8, &resident);
                    }
                    // After holes the next slot, or the next block of a higher level.
                    *number = holes == 0 ? *number : ((*number >> shift) + holes) << shift;
                }
            }
            if (root == 0) {
                break;
            }
        }
        return depth <= L_MAX_MAP_DEPTH ? LANEFS_NO_SUCH_RANGE : LANEFS_NOT_RESIDENT;
    }

    // Decodes a pointer to data or to a leaf, whose slot covers so many blocks.
    LANEFS_FUNCTION bool decode(uint64_t pointer, uint64_t blocks, uint64_t *position,
                                uint32_t *unwritten) const {
        uint64_t tags = pointer & L_POINTER_TAGS & ~L_POINTER_UNWRITTEN;
        *position = pointer & ~L_POINTER_TAGS;
        *unwritten = (pointer & L_POINTER_UNWRITTEN) != 0;
        uint64_t wanted = blocks == 1 ? L_POINTER_BLOCK : blocks == 512 ? L_POINTER_MEDIUM : L_POINTER_LARGE;
        bool is_inside = *position != 0 && *position <= view->volume_bytes
                         && blocks <= (view->volume_bytes - *position) / L_BLOCK;
        return tags == wanted && *position % L_BLOCK == 0 && is_inside;
    }

    // Returns the block after an extent of an inode.
    LANEFS_FUNCTION uint64_t extent_end(const uint8_t *one) const {
        return (uint64_t)load32(one + L_EXTENT_FIRST) + load32(one + L_EXTENT_BLOCKS);
    }

    LANEFS_FUNCTION lanefs_code extent(uint64_t ino, uint64_t offset, lanefs_extent *found) {
        const uint8_t *bytes = inode(ino);
        if (bytes == nullptr) {
            return LANEFS_NOT_RESIDENT;
        }
        uint32_t head = load32(bytes), flags = head >> 16, kind = (head & L_MODE_TYPE) >> 12;
        if (kind != LANEFS_KIND_FILE) {
            return kind == LANEFS_KIND_DIRECTORY ? LANEFS_IS_DIRECTORY : LANEFS_INVALID;
        }
        if ((flags & L_INODE_INLINE) != 0) {
            return LANEFS_NO_SUCH_RANGE;
        }
        uint32_t depth = (flags & L_INODE_DEPTH_MASK) >> L_INODE_DEPTH_SHIFT, level = 1,
                 count = flags >> L_INODE_EXTENTS_SHIFT;
        uint64_t number = offset / L_BLOCK, pointer = 0, position = 0;
        if (depth != 0) {
            lanefs_code code = next_pointer(load64(bytes + L_INODE_MAP), depth, &number, &pointer, &level);
            if (code != LANEFS_SUCCESS) {
                return code;
            }
            uint32_t shift = L_POINTER_SLOT_BITS * (level - 1), unwritten = 0;
            if (level > 3 || !decode(pointer, (uint64_t)1 << shift, &position, &unwritten)) {
                return LANEFS_NOT_RESIDENT;
            }
            *found =
                lanefs_extent{(number >> shift << shift) * L_BLOCK, position, L_BLOCK << shift, unwritten};
            return LANEFS_SUCCESS;
        }
        if (count > (view->inode_size - L_INODE_SIZE) / L_EXTENT_SIZE) {
            return LANEFS_NOT_RESIDENT;
        }
        const uint8_t *all = bytes + L_INODE_SIZE;
        for (uint32_t from = 0; from < count; from += group.size()) {
            uint32_t own = from + group.rank();
            uint64_t ends = group.ballot(own < count && extent_end(all + own * L_EXTENT_SIZE) > number);
            if (ends == 0) {
                continue;
            }
            const uint8_t *one = all + (from + lowest_bit(ends)) * L_EXTENT_SIZE;
            uint64_t first = load32(one + L_EXTENT_FIRST), blocks = load32(one + L_EXTENT_BLOCKS);
            uint32_t unwritten = 0;
            bool is_good = decode(load64(one + L_EXTENT_POINTER), 1, &position, &unwritten)
                           && blocks <= (view->volume_bytes - position) / L_BLOCK;
            *found = lanefs_extent{first * L_BLOCK, position, blocks * L_BLOCK, unwritten};
            return is_good ? LANEFS_SUCCESS : LANEFS_NOT_RESIDENT;
        }
        return LANEFS_NO_SUCH_RANGE;
    }

    LANEFS_FUNCTION lanefs_code open_directory(uint64_t ino, uint64_t cookie,
                                               lanefs_directory *directory) const {
        const uint8_t *bytes = inode(ino);
        *directory = lanefs_directory{ino, cookie, 0, 0};
        if (bytes == nullptr) {
            return LANEFS_NOT_RESIDENT;
        }
        bool is_directory = (load32(bytes) & L_MODE_TYPE) == L_MODE_DIRECTORY;
        return is_directory ? LANEFS_SUCCESS : LANEFS_NOT_DIRECTORY;
    }

    // Goes to the first leaf at or after that of the cookie: SUCCESS, NOT_FOUND after the last one.
    LANEFS_FUNCTION lanefs_code next_leaf(lanefs_directory *directory) {
        const uint8_t *bytes = inode(directory->ino);
        if (bytes == nullptr || (load32(bytes) & L_MODE_TYPE) != L_MODE_DIRECTORY) {
            return LANEFS_NOT_RESIDENT;
        }
        uint32_t depth = (load32(bytes) >> 16 & L_INODE_DEPTH_MASK) >> L_INODE_DEPTH_SHIFT, level = 1,
                 unwritten = 0;
        uint64_t number = directory->cookie / L_LEAF_UNIT_COUNT, wanted = number, pointer = 0, leaf = 0;
        if (number >= load64(bytes + L_INODE_BYTES) / L_BLOCK) {
            return LANEFS_NOT_FOUND;
        }
        lanefs_code code = next_pointer(load64(bytes + L_INODE_MAP), depth, &number, &pointer, &level);
        if (code != LANEFS_SUCCESS) {
            return code == LANEFS_NO_SUCH_RANGE ? LANEFS_NOT_FOUND : code;
        }
        if (number >= load64(bytes + L_INODE_BYTES) / L_BLOCK) {
            return LANEFS_NOT_FOUND;
        }
        const uint8_t *block = nullptr;
        if (level == 1 && decode(pointer, 1, &leaf, &unwritten) && unwritten == 0) {
            block = at(leaf);
        }
        if (block == nullptr || (load32(block) & 0xffu) != L_BLOCK_LEAF
            || load64(block + L_LEAF_OWNER) != directory->ino || load64(block + L_LEAF_NUMBER) != number) {
            return LANEFS_NOT_RESIDENT;
        }
        directory->cookie = number == wanted ? directory->cookie : number * L_LEAF_UNIT_COUNT;
        directory->leaf = leaf;
        directory->unit = L_LEAF_SIZE / (uint32_t)L_UNIT;
        return LANEFS_SUCCESS;
    }

    // Gives the next entry: SUCCESS, NOT_FOUND at the end.
    LANEFS_FUNCTION lanefs_code next_entry(lanefs_directory *directory, lanefs_entry *entry) {
        while (burn()) {
            if (directory->leaf == 0) {
                lanefs_code code = next_leaf(directory);
                if (code != LANEFS_SUCCESS) {
                    return code;
                }
            }
            const uint8_t *block = at(directory->leaf);
            uint64_t number = directory->cookie / L_LEAF_UNIT_COUNT;
            if (block == nullptr || directory->leaf % L_BLOCK != 0
                || number >= ~(uint64_t)0 / L_LEAF_UNIT_COUNT) {
                return LANEFS_NOT_RESIDENT;
            }
            uint32_t unit = directory->unit;
            if (unit >= L_LEAF_UNIT_COUNT) {
                directory->leaf = 0;
                directory->cookie = (number + 1) * L_LEAF_UNIT_COUNT;
                continue;
            }
            uint32_t used = load32(block + L_LEAF_UNITS + unit / 32 * 4) >> unit % 32;
            if ((used & 1u) == 0) {
                directory->unit = used == 0 ? (unit | 31u) + 1 : unit + lowest_bit(used);
                continue;
            }
            const uint8_t *bytes = block + unit * L_UNIT;
            if (unit + L_ENTRY_SIZE / L_UNIT > L_LEAF_UNIT_COUNT) {
                return LANEFS_NOT_RESIDENT;
            }
            uint32_t rest = load32(bytes + L_ENTRY_HASH + 4), length = rest & 0xffu, kind = rest >> 8 & 0xffu;
            uint32_t end = unit + (L_ENTRY_SIZE + length + (uint32_t)L_UNIT - 1) / (uint32_t)L_UNIT;
            if (end > L_LEAF_UNIT_COUNT || (length != 0 && (rest >> 16 != 0 || !is_kind(kind)))) {
                return LANEFS_NOT_RESIDENT;
            }
            directory->unit = end;
            if (length != 0 && unit >= directory->cookie % L_LEAF_UNIT_COUNT) {
                // Within a leaf, as the first unit of no entry is the last of it.
                directory->cookie = number * L_LEAF_UNIT_COUNT + unit + 1;
                *entry = lanefs_entry{load64(bytes + L_ENTRY_INODE), directory->cookie,
                                      (const char *)(bytes + L_ENTRY_SIZE), length, kind};
                return LANEFS_SUCCESS;
            }
        }
        return LANEFS_NOT_RESIDENT;
    }

    // Copies bytes, each member its share.
    LANEFS_FUNCTION void copy(uint8_t *to, const uint8_t *from, uint64_t bytes) const {
        uint64_t done = 0, rank = group.rank(), size = group.size();
        if ((((uintptr_t)to | (uintptr_t)from) & 7) == 0) {
            done = bytes / 8 * 8;
            for (uint64_t i = rank * 8; i < done; i += size * 8) {
                *(uint64_t *)(to + i) = load64(from + i);
            }
        }
        for (uint64_t i = done + rank; i < bytes; i += size) {
            to[i] = from[i];
        }
    }

    // Lists a file as missed, where there is room.
    LANEFS_FUNCTION void note(const lanefs_files *files, uint64_t ino) const {
        uint32_t i = add_one((uint32_t *)(files->base + L_FILES_MISS_COUNT));
        if (i < files->miss_room) {
            *(uint64_t *)(files->base + files->misses + (uint64_t)i * 8) = ino;
        }
    }

    // Finds a file in the table, or notes that it is missed: SUCCESS, NOT_RESIDENT, or why it was not read.
    LANEFS_FUNCTION lanefs_code find_file(const lanefs_files *files, uint64_t ino, const uint8_t *bytes,
                                          const uint8_t **content, uint64_t *length) const {
        uint32_t hash = end_hash(mix_word(mix_word(0, (uint32_t)ino), (uint32_t)(ino >> 32)), 8);
        for (uint32_t n = 0; n < files->probes; n++) {
            uint64_t at_slot = files->table + (uint64_t)((hash + n) & (files->slots - 1)) * L_FILE_SLOT_SIZE;
            uint8_t *slot = files->base + at_slot;
            uint64_t there = load_shared((const uint64_t *)(slot + L_FILE_SLOT_INO));
            if (there == ino) {
                uint32_t *its_word = (uint32_t *)(slot + L_FILE_SLOT_STATE), word = load_shared(its_word);
                uint32_t state = word & ~L_FILE_NOTED, generation = load32(slot + L_FILE_SLOT_GENERATION);
                if (state == 0) {
                    return LANEFS_NOT_RESIDENT;
                }
                // Another file that has had the number, or has it now: one thread notes it, and readers of
                // the file that is there go on. Of a file that failed the generation may be unknown, 0.
                bool is_known = generation != 0 || state == L_FILE_PRESENT;
                if (is_known && generation != load32(bytes + L_INODE_GENERATION)) {
                    if (word == state && group.rank() == 0 && exchange(its_word, word, word | L_FILE_NOTED)) {
                        note(files, ino);
                    }
                    return LANEFS_NOT_RESIDENT;
                }
                if (state != L_FILE_PRESENT) {
                    return (lanefs_code)(state - L_FILE_PRESENT);
                }
                uint64_t start = load64(slot + L_FILE_SLOT_START);
                *length = load64(slot + L_FILE_SLOT_BYTES);
                *content = files->base + files->data + start;
                bool is_there = start <= files->data_bytes && *length <= files->data_bytes - start;
                return is_there ? LANEFS_SUCCESS : LANEFS_NOT_RESIDENT;
            }
            // One member of the group notes it, and of all threads the first.
            if (there == 0) {
                if (group.rank() != 0) {
                    return LANEFS_NOT_RESIDENT;
                }
                there = claim((uint64_t *)(slot + L_FILE_SLOT_INO), ino);
                if (there == 0) {
                    note(files, ino);
                }
                if (there == 0 || there == ino) {
                    return LANEFS_NOT_RESIDENT;
                }
            }
        }
        return LANEFS_NOT_RESIDENT;
    }

    LANEFS_FUNCTION int64_t read(const lanefs_files *files, uint64_t ino, uint64_t offset, void *buffer,
                                 uint64_t length) const {
        const uint8_t *bytes = inode(ino), *content = nullptr;
        if (bytes == nullptr) {
            return -(int64_t)LANEFS_NOT_RESIDENT;
        }
        uint32_t head = load32(bytes), kind = (head & L_MODE_TYPE) >> 12;
        if (kind != LANEFS_KIND_FILE) {
            return -(int64_t)(kind == LANEFS_KIND_DIRECTORY ? LANEFS_IS_DIRECTORY : LANEFS_INVALID);
        }
        uint64_t size = load64(bytes + L_INODE_BYTES);
        bool is_inline = (head >> 16 & L_INODE_INLINE) != 0;
        if (is_inline && size > view->inode_size - L_INODE_SIZE) {
            return -(int64_t)LANEFS_NOT_RESIDENT;
        }
        content = bytes + L_INODE_SIZE;
        if (!is_inline && size != 0) {
            lanefs_code code =
                files == nullptr ? LANEFS_NOT_RESIDENT : find_file(files, ino, bytes, &content, &size);
            if (code != LANEFS_SUCCESS) {
                return -(int64_t)code;
            }
        }
        if (offset >= size) {
            return 0;
        }
        uint64_t count = least(least(length, size - offset), ~(uint64_t)0 >> 1);
        copy((uint8_t *)buffer, content + offset, count);
        return (int64_t)count;
    }
};

template <class Group> LANEFS_FUNCTION reader<Group> reader_of(const lanefs_view *view, Group group) {
    return reader<Group>(view, group);
}

} // namespace lanefs_detail

// Opens a mirror: `base` is the address of its first byte, `bytes` the length of the memory. SUCCESS,
// INVALID for other bytes or another version.
LANEFS_FUNCTION lanefs_code lanefs_open(const void *base, uint64_t bytes, lanefs_view *view) {
    using namespace lanefs_detail;
    const uint8_t *head = (const uint8_t *)base;
    if (base == nullptr || (uintptr_t)base % 16 != 0 || bytes < L_MIRROR_HEADER_SIZE
        || load64(head) != L_MIRROR_MAGIC || load32(head + L_MIRROR_VERSION) != L_DEVICE_VERSION
        || load64(head + L_MIRROR_BYTES) > bytes) {
        return LANEFS_INVALID;
    }
    *view = lanefs_view{};
    view->base = head;
    view->bytes = load64(head + L_MIRROR_BYTES);
    view->generation = load64(head + L_MIRROR_GENERATION);
    view->root = load64(head + L_MIRROR_ROOT);
    view->chunk_count = load64(head + L_MIRROR_CHUNK_COUNT);
    view->table = load64(head + L_MIRROR_TABLE);
    view->volume_bytes = load64(head + L_MIRROR_VOLUME_BYTES);
    view->cache = load64(head + L_MIRROR_CACHE);
    view->versions = load64(head + L_MIRROR_VERSIONS);
    view->dir_table = load64(head + L_MIRROR_DIR_TABLE);
    view->dir_records = load64(head + L_MIRROR_DIR_RECORDS);
    view->buckets = load32(head + L_MIRROR_BUCKETS);
    view->version_count = load32(head + L_MIRROR_VERSION_COUNT);
    view->dir_buckets = load32(head + L_MIRROR_DIR_BUCKETS);
    view->dir_units = load32(head + L_MIRROR_DIR_UNITS);
    view->epoch = load32(head + L_MIRROR_EPOCH);
    view->inode_size = load32(head + L_MIRROR_INODE_SIZE);
    for (uint32_t i = 0; i < 4; i++) {
        view->seed[i] = load32(head + L_MIRROR_SEED + 4 * i);
    }
    bool is_good = (view->inode_size == 128 || view->inode_size == 256)
                   && is_inside(view->table, view->chunk_count, 8, view->bytes)
                   && is_inside(view->cache, view->buckets, L_CACHE_BUCKET_WORDS * 4, view->bytes)
                   && is_inside(view->versions, view->version_count, 4, view->bytes)
                   && is_inside(view->dir_table, view->dir_buckets, L_DIR_BUCKET_WORDS * 4, view->bytes)
                   && is_inside(view->dir_records, view->dir_units, L_DIR_UNIT_WORDS * 4, view->bytes);
    return is_good ? LANEFS_SUCCESS : LANEFS_INVALID;
}

// Opens a device file table, as `lanefs_open` does a mirror. Reads note in it which files they missed.
LANEFS_FUNCTION lanefs_code lanefs_open_files(void *base, uint64_t bytes, lanefs_files *files) {
    using namespace lanefs_detail;
    uint8_t *head = (uint8_t *)base;
    if (base == nullptr || (uintptr_t)base % 16 != 0 || bytes < L_FILES_HEADER_SIZE
        || load64(head) != L_FILES_MAGIC || load32(head + L_FILES_VERSION) != L_DEVICE_VERSION
        || load64(head + L_FILES_BYTES) > bytes) {
        return LANEFS_INVALID;
    }
    *files = lanefs_files{head,
                          load64(head + L_FILES_BYTES),
                          load64(head + L_FILES_TABLE),
                          load64(head + L_FILES_DATA),
                          load64(head + L_FILES_DATA_BYTES),
                          load64(head + L_FILES_MISSES),
                          load32(head + L_FILES_SLOTS),
                          least(load32(head + L_FILES_PROBES), load32(head + L_FILES_SLOTS)),
                          load32(head + L_FILES_MISS_ROOM)};
    bool is_power = files->slots != 0 && (files->slots & (files->slots - 1)) == 0;
    bool is_good = is_power && is_inside(files->table, files->slots, L_FILE_SLOT_SIZE, files->bytes)
                   && is_inside(files->data, files->data_bytes, 1, files->bytes)
                   && is_inside(files->misses, files->miss_room, 8, files->bytes);
    return is_good ? LANEFS_SUCCESS : LANEFS_INVALID;
}

// Resolves a path from a directory on; without a slash at its beginning it starts in that one: NOT_DIRECTORY
// where that is another file. Links are followed, and permissions are not checked.
template <class Group> LANEFS_FUNCTION lanefs_found lanefs_lookup_by(Group group, const lanefs_view *view,
                                                                     uint64_t directory, const char *path,
                                                                     uint64_t length, uint32_t options) {
    return lanefs_detail::reader_of(view, group)
        .lookup(directory, path, length, (options & LANEFS_NO_FOLLOW) == 0);
}
LANEFS_FUNCTION lanefs_found lanefs_lookup_at(const lanefs_view *view, uint64_t directory, const char *path,
                                              uint64_t length, uint32_t options) {
    return lanefs_lookup_by(lanefs_thread(), view, directory, path, length, options);
}
LANEFS_FUNCTION lanefs_found lanefs_lookup(const lanefs_view *view, const char *path, uint64_t length) {
    return lanefs_lookup_at(view, view->root, path, length, LANEFS_FOLLOW);
}

// Gives the attributes of an inode that a lookup or a listing has named. Members of a group load the same
// words, each of which the device brings once for all; each has the attributes in a variable of its own.
template <class Group>
LANEFS_FUNCTION lanefs_code lanefs_stat_by(Group group, const lanefs_view *view, uint64_t ino,
                                           lanefs_attributes *found) {
    return lanefs_detail::reader_of(view, group).attributes(ino, found);
}
LANEFS_FUNCTION lanefs_code lanefs_stat(const lanefs_view *view, uint64_t ino, lanefs_attributes *found) {
    return lanefs_stat_by(lanefs_thread(), view, ino, found);
}

// Gives the first extent of a file that ends after an offset; NO_SUCH_RANGE after the last one. Holes are
// left out, and a file that fits into its inode has none. One extent may continue another. Members of a group
// look for it together, and each has it in a variable of its own.
template <class Group>
LANEFS_FUNCTION lanefs_code lanefs_extents_by(Group group, const lanefs_view *view, uint64_t ino,
                                              uint64_t offset, lanefs_extent *found) {
    return lanefs_detail::reader_of(view, group).extent(ino, offset, found);
}
LANEFS_FUNCTION lanefs_code lanefs_extents(const lanefs_view *view, uint64_t ino, uint64_t offset,
                                           lanefs_extent *found) {
    return lanefs_extents_by(lanefs_thread(), view, ino, offset, found);
}

// Begins to list a directory after a cookie, 0 for the start.
LANEFS_FUNCTION lanefs_code lanefs_opendir(const lanefs_view *view, uint64_t ino, uint64_t cookie,
                                           lanefs_directory *directory) {
    return lanefs_detail::reader_of(view, lanefs_thread()).open_directory(ino, cookie, directory);
}

// Gives the next entry of a directory; NOT_FOUND at its end.
LANEFS_FUNCTION lanefs_code lanefs_readdir(const lanefs_view *view, lanefs_directory *directory,
                                           lanefs_entry *entry) {
    return lanefs_detail::reader_of(view, lanefs_thread()).next_entry(directory, entry);
}

// Gives each member of a group the next entry that no other one has: SUCCESS where the first member has one.
// Members without an entry have the inode number 0. `directory` and `entry` are each member's own variables,
// not memory that members share: each of them changes both.
template <class Group> LANEFS_FUNCTION lanefs_code lanefs_readdir_by(Group group, const lanefs_view *view,
                                                                     lanefs_directory *directory,
                                                                     lanefs_entry *entry) {
    lanefs_entry one = {}, own = {};
    lanefs_code first = LANEFS_NOT_FOUND, code = LANEFS_SUCCESS;
    for (uint32_t i = 0; i < group.size() && code == LANEFS_SUCCESS; i++) {
        code = lanefs_readdir(view, directory, &one);
        first = i == 0 ? code : first;
        own = code == LANEFS_SUCCESS && i == group.rank() ? one : own;
    }
    *entry = own;
    // An error is not lost: the next call meets it again.
    return first;
}

// Reads bytes of a file: their number, which is lower at the end of the file; or a code, negated. A small
// file lies in its inode. Of another one `files` has the content as of when the host brought it, or notes
// the miss: NOT_RESIDENT. `files` may be null.
template <class Group>
LANEFS_FUNCTION int64_t lanefs_read_by(Group group, const lanefs_view *view, const lanefs_files *files,
                                       uint64_t ino, uint64_t offset, void *buffer, uint64_t length) {
    return lanefs_detail::reader_of(view, group).read(files, ino, offset, buffer, length);
}
LANEFS_FUNCTION int64_t lanefs_read(const lanefs_view *view, const lanefs_files *files, uint64_t ino,
                                    uint64_t offset, void *buffer, uint64_t length) {
    return lanefs_read_by(lanefs_thread(), view, files, ino, offset, buffer, length);
}

#ifdef LANEFS_HAS_WARPS
LANEFS_FUNCTION lanefs_found lanefs_lookup_warp(const lanefs_view *view, const char *path, uint64_t length) {
    return lanefs_lookup_by(lanefs_warp(), view, view->root, path, length, LANEFS_FOLLOW);
}
LANEFS_FUNCTION lanefs_code lanefs_stat_warp(const lanefs_view *view, uint64_t ino, lanefs_attributes *found) {
    return lanefs_stat_by(lanefs_warp(), view, ino, found);
}
LANEFS_FUNCTION lanefs_code lanefs_extents_warp(const lanefs_view *view, uint64_t ino, uint64_t offset,
                                                lanefs_extent *found) {
    return lanefs_extents_by(lanefs_warp(), view, ino, offset, found);
}
LANEFS_FUNCTION lanefs_code lanefs_readdir_warp(const lanefs_view *view, lanefs_directory *directory,
                                                lanefs_entry *entry) {
    return lanefs_readdir_by(lanefs_warp(), view, directory, entry);
}
LANEFS_FUNCTION int64_t lanefs_read_warp(const lanefs_view *view, const lanefs_files *files, uint64_t ino,
                                         uint64_t offset, void *buffer, uint64_t length) {
    return lanefs_read_by(lanefs_warp(), view, files, ino, offset, buffer, length);
}
#endif

#endif
