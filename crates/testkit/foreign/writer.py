"""Writes volumes of format 4 from docs/format.md, in ways that no other writer of the project chooses."""

import random

from format4 import *


class Volume:
    """A volume in the making: blocks in memory, tables that `finish` fills."""

    def __init__(self, name, blocks=2048, inode_size=256, sums=False, journal=64, seed=(1, 2, 3, 4), at=None):
        self.name, self.inode_size, self.sums, self.hash_seed = name, inode_size, sums, seed
        self.rng = random.Random(name)
        self.blocks, self.image = blocks, bytearray(blocks * BLOCK)
        self.uuid = self.rng.randbytes(16)
        self.seed = crc32c(self.uuid)
        self.used = {0, 511}
        self.kinds, self.checked_pointers = {}, []
        self.inodes, self.listing = {}, []
        self.clean, self.flushed = True, set()
        self.table = (at or 1) * BLOCK
        self.journal, self.journal_blocks = (self.table + BLOCK if journal else 0), journal
        self.used |= {self.table // BLOCK + i for i in range(1 + journal)}
        self.chunks = []
        self.add_chunk(1)
        if sums:
            for number in range(32):
                self.kinds[512 + 2 + number] = (SUMS, 0)
        self.root, self.orphans = self.new_inode(), self.new_inode()

    # Space.

    def add_chunk(self, number):
        """Makes chunk `number` a metadata chunk."""
        self.chunks.append(number)

    def metadata(self, kind, owner):
        """Allocates a metadata block, anywhere in the metadata chunks."""
        free = [
            block
            for chunk in self.chunks
            for block in range(chunk * 512 + 2, min(chunk * 512 + 512, self.blocks))
            if block not in self.kinds
        ]
        block = self.rng.choice(free)
        self.kinds[block] = (kind, owner)
        return block * BLOCK

    def data(self, count=1):
        """Allocates consecutive blocks for file data."""
        taken = self.used.union(*(range(chunk * 512, chunk * 512 + 512) for chunk in self.chunks))
        for first in range(1, self.blocks - count + 1):
            if all(first + i not in taken for i in range(count)):
                self.used |= set(range(first, first + count))
                return first * BLOCK
        raise ValueError("no space")

    def block(self, at):
        return memoryview(self.image)[at : at + BLOCK]

    def headed(self, kind, owner):
        """Allocates a metadata block that begins with its kind and its owner."""
        at = self.metadata(kind, owner)
        self.image[at] = kind
        put(self.image, at + 8, "Q", owner)
        return at

    # Inodes.

    def new_inode(self):
        per = BLOCK // self.inode_size
        for block, (kind, _) in sorted(self.kinds.items()):
            if kind == INODES:
                free = [block * per + i for i in range(per) if block * per + i not in self.inodes]
                if free:
                    ino = self.rng.choice(free)
                    break
        else:
            ino = self.metadata(INODES, 0) // self.inode_size
        self.inodes[ino] = bytearray(self.inode_size)
        return ino

    def fill(self, ino, mode, links=1, size=0, flags=0, map_word=0, depth=0, extents=0, parent=0, blocks=0):
        node = self.inodes[ino]
        put(node, 0, "HHIII", mode, flags | depth << 8 | extents << 12, links, 1000, 100)
        put(node, 16, "QQQ", size, map_word, parent)
        put(node, 48, "qqqq", 1, 2, 3, 4)
        put(node, 80, "I", 7)
        put(node, 88, "Q", get(node, 88, "Q") + blocks)

    def attributes(self, ino, attributes, inside, pieces=4064):
        """Stores extended attributes: in the inode, or in a chain of blocks with `pieces` bytes each."""
        node, flags = self.inodes[ino], 0
        packed = b"".join(struct.pack("<HI", len(n), len(v)) + n + v for n, v in attributes.items())
        if b"system.posix_acl_access" in attributes:
            flags |= ACCESS_ACL
        if b"system.posix_acl_default" in attributes:
            flags |= DEFAULT_ACL
        put(node, 2, "H", get(node, 2, "H") | flags)
        if inside:
            end, room = attribute_room(self.inode_size, get(node, 0, "H") >> 12 == DIRECTORY)
            assert len(packed) <= room
            node[end - len(packed) : end] = packed
            put(node, 40, "Q", len(packed))
            return
        following = 0
        parts = [packed[i : i + pieces] for i in range(0, len(packed), pieces)]
        for part in reversed(parts):
            at = self.headed(XATTR, ino)
            put(self.image, at + 16, "QQ", following, len(part))
            self.image[at + 32 : at + 32 + len(part)] = part
            following = at
        put(node, 40, "Q", following)
        put(node, 88, "Q", get(node, 88, "Q") + len(parts))

    # File maps.

    def pointers(self, owner, slots):
        """A block of pointers with these slots."""
        at = self.metadata(POINTERS, owner)
        for slot, word in slots.items():
            put(self.image, at + 8 * slot, "Q", word)
        self.checked_pointers.append(at)
        return at

    def radix(self, owner, blocks, depth):
        """A tree of exactly `depth` levels over {block of the file: pointer}. Returns its root and blocks."""
        count, below = 0, blocks
        for _ in range(depth):
            above = {}
            for number, word in below.items():
                above.setdefault(number // 512, {})[number % 512] = word
            below = {number: self.pointers(owner, slots) | 7 for number, slots in above.items()}
            count += len(below)
        return below[0], count

    def store(self, content, gaps=False):
        """Writes content to new blocks, which leave gaps; returns {block of the file: pointer}."""
        map_of, between = {}, set()
        for number in range((len(content) + BLOCK - 1) // BLOCK):
            part = content[number * BLOCK : (number + 1) * BLOCK]
            if not part.strip(b"\0"):
                continue
            at = self.data()
            if gaps:
                between.add(self.data() // BLOCK)
            self.image[at : at + len(part)] = part
            self.flushed.add(at)
            map_of[number] = at | 5
        self.used -= between
        return map_of

    # Directories.

    def directory(self, ino, entries, parent, mode=0o755, **shape):
        from directories import Directory

        Directory(self, ino, entries, **shape).write(parent, mode)

    def expect(self, path, ino, content=b"", attributes=()):
        node = self.inodes[ino]
        mode = get(node, 0, "H")
        self.listing.append(
            line(path, mode >> 12, mode, get(node, 4, "I"), get(node, 16, "Q"), content, dict(attributes))
        )

    # The end.

    def seal(self, at, position=None, hole=4):
        data = self.block(at)
        put(data, hole, "I", checksum(self.seed, at if position is None else position, data, hole))

    def finish(self):
        """Writes inodes, tables and superblocks."""
        for ino, node in self.inodes.items():
            at = ino * self.inode_size
            put(node, 84, "I", checksum(self.seed, at, node, 84))
            self.image[at : at + self.inode_size] = node
        self.write_sums()
        for block, (kind, _) in self.kinds.items():
            if kind not in (INODES, POINTERS):
                self.seal(block * BLOCK)
        for chunk in self.chunks:
            self.write_chunk(chunk)
        free = self.write_group()
        if self.journal_blocks:
            self.write_journal_headers(2, 5)
        self.write_superblocks(free, 9, 9)
        return self

    def write_sums(self):
        if not self.sums:
            return
        for number in range(32):
            at = (514 + number) * BLOCK
            put(self.image, at, "B7xQQ", SUMS, 0, number)
        for at in self.flushed:
            value = checksum(self.seed, at, self.block(at)) or 1
            block = at // BLOCK
            put(self.image, (514 + block // 1008) * BLOCK + 64 + 4 * (block % 1008), "I", value)

    def write_chunk(self, chunk):
        at, used = chunk * CHUNK, 2
        per = BLOCK // self.inode_size
        for number in range(2, 512):
            kind, owner = self.kinds.get(chunk * 512 + number, (0, 0))
            if not kind:
                continue
            used += 1
            home = at + number * BLOCK
            first = home // self.inode_size
            inodes = sum(first + i in self.inodes for i in range(per)) if kind == INODES else 0
            total = checksum(self.seed, home, self.block(home)) if kind == POINTERS else 0
            put(self.image, at + 16 * number, "BBHIQ", kind, inodes, 0, total, owner)
        put(self.image, at, "B7xQII", CHUNK_KIND, at, used, 0)
        put(self.image, at + 20, "I", checksum(self.seed, at + BLOCK, self.block(at + BLOCK)))
        self.seal(at)

    def write_group(self):
        at, bits = self.table, 0
        for block in range(63 * 512):
            if block in self.used or block >= self.blocks or block // 512 in self.chunks:
                bits |= 1 << block
        free = 63 * 512 - bits.bit_count()
        chunks = sum(1 << chunk for chunk in self.chunks)
        put(self.image, at, "B7xQQQQQ", GROUP_KIND, 0, free, chunks, chunks, chunks)
        self.image[at + 64 : at + BLOCK] = bits.to_bytes(4032, "little")
        self.seal(at)
        return free

    def write_journal_headers(self, tail, sequence):
        for at in (self.journal, self.journal + BLOCK):
            self.block(at)[:] = bytes(BLOCK)
            put(self.image, at, "BB", JOURNAL, 1)
            put(self.image, at + 16, "QQ", tail, sequence)
            self.seal(at)

    def write_superblocks(self, free, first, second):
        for at, sequence in ((0, first), (SUPERBLOCK_COPY, second)):
            block = self.block(at)
            put(block, 0, "B", 1)
            put(block, 16, "QIBB", MAGIC, 4, 1, 1)
            put(block, 32, "QQQII", 0, DATA_CHECKSUMS if self.sums else 0, 0, int(self.clean), self.seed)
            block[64:80] = self.uuid
            put(block, 80, "4I", *self.hash_seed)
            put(block, 96, "4Q", self.blocks * BLOCK, self.inode_size, self.root, self.table)
            put(block, 128, "3Q", 1, self.journal, self.journal_blocks)
            put(block, 152, "QQQqQ", sequence, free, len(self.inodes), 1, self.orphans)
            block[192 : 192 + len(self.name)] = self.name.encode()
            self.seal(at, 0)
