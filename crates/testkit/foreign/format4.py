"""Words, checksums and hashes of volumes of format 4, from docs/format.md alone."""

import struct

BLOCK = 4096
CHUNK = 512 * BLOCK
UNIT = 16
SUPERBLOCK_COPY = CHUNK - BLOCK
MAGIC = 0x0A0D5346656E614C
GROUP_KIND, CHUNK_KIND, INODES, POINTERS, LEAF, TREE, INDEX, XATTR, JOURNAL, SUMS = range(2, 12)
FILE, DIRECTORY, SYMLINK, FIFO, SOCKET, CHAR_DEVICE = 8, 4, 10, 1, 12, 2
SMALL, REGION, TREE_FORM = 1, 2, 3
INLINE, MAP_HOLES, NOT_ALL_ORPHANS = 1, 2, 4
ACCESS_ACL, DEFAULT_ACL = 16, 32
DATA_CHECKSUMS = 1


def _table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


TABLE = tuple(_table())


def crc32c(data, crc=0):
    """The CRC-32C of `data`, continued from `crc`."""
    crc ^= 0xFFFFFFFF
    table = TABLE
    for byte in bytes(data):
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def checksum(seed, at, data, hole=None):
    """The checksum of a structure at position `at`, without the four bytes at `hole`."""
    crc = crc32c(struct.pack("<Q", at), seed)
    if hole is None:
        return crc32c(data, crc)
    return crc32c(bytes(data[:hole]) + bytes(data[hole + 4 :]), crc)


def _rotl(word, by):
    word &= 0xFFFFFFFF
    return (word << by | word >> (32 - by)) & 0xFFFFFFFF


ROUNDS = (
    (lambda x, y, z: x & y | ~x & z, 0, (0, 1, 2, 3, 4, 5, 6, 7), (3, 7, 11, 19)),
    (lambda x, y, z: x & y | x & z | y & z, 0x5A827999, (1, 3, 5, 7, 0, 2, 4, 6), (3, 5, 9, 13)),
    (lambda x, y, z: x ^ y ^ z, 0x6ED9EBA1, (3, 7, 2, 6, 1, 5, 0, 4), (3, 9, 11, 15)),
)


def half_md4(seed, name):
    """The hash of a name."""
    state = list(seed)
    for start in range(0, len(name), 32):
        pad = (len(name) - start) % 256 * 0x01010101
        piece, words = name[start : start + 32], []
        for at in range(0, 32, 4):
            word = pad
            for byte in piece[at : at + 4]:
                word = (word * 256 + byte) & 0xFFFFFFFF
            words.append(word)
        a, b, c, d = state
        for function, constant, order, shifts in ROUNDS:
            for step in range(8):
                mixed = a + (function(b, c, d) & 0xFFFFFFFF) + words[order[step]] + constant
                t = _rotl(mixed, shifts[step % 4])
                a, b, c, d = d, t, b, c
        state = [(old + new) & 0xFFFFFFFF for old, new in zip(state, (a, b, c, d))]
    return state[1]


def entry_units(name):
    """Units of a leaf that an entry with this name takes."""
    return (32 + len(name) + 15) // 16


def small_fields(inode_size):
    """Slots of the small index, and the offsets of root, tags and units in the inode."""
    return (28, 192, 200, 228) if inode_size == 256 else (8, 104, 112, 120)


def attribute_room(inode_size, directory):
    """The end and the size of the room for attributes in an inode."""
    if directory:
        return (192, 88) if inode_size == 256 else (104, 0)
    return inode_size, inode_size - 96


def put(block, at, form, *values):
    struct.pack_into("<" + form, block, at, *values)


def get(block, at, form):
    return struct.unpack_from("<" + form, block, at)[0]


def line(path, kind, mode, links, size, content, attributes):
    """One line of a listing: the same in writer and test."""
    named = ",".join(f"{name.hex()}={crc32c(value):08x}" for name, value in sorted(attributes.items()))
    size = 0 if kind == DIRECTORY else size
    return f"{path.hex() or '-'} {kind} {mode & 0o7777:o} {links} {size} {crc32c(content):08x} {named or '-'}"
