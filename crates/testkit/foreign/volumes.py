"""Makes volumes at the edges of what docs/format.md allows: `volumes.py DIRECTORY` writes NAME.lane and the
listing NAME.txt of each."""

import os
import struct
import sys

from format4 import *
from writer import Volume

ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry)
    for entry in ((1, 6, 2**32 - 1), (2, 7, 5), (4, 5, 2**32 - 1), (16, 7, 2**32 - 1), (32, 4, 2**32 - 1))
)


def file(volume, path, content=b"", how="inline", mode=0o644, size=None, **more):
    """Makes a regular file. Returns its entry, of the last part of its path."""
    ino = volume.new_inode()
    size = len(content) if size is None else size
    if how == "inline":
        volume.fill(ino, 0o100000 | mode, size=size, flags=INLINE)
        volume.inodes[ino][96 : 96 + len(content)] = content
    elif how == "extents":
        words = volume.store(content, gaps=more.get("gaps", False))
        for i, (first, word) in enumerate(words.items()):
            put(volume.inodes[ino], 96 + 16 * i, "QII", word, first, 1)
        volume.fill(ino, 0o100000 | mode, size=size, extents=len(words), blocks=len(words))
    else:
        words = volume.store(content)
        root, blocks = volume.radix(ino, words, how)
        volume.fill(ino, 0o100000 | mode, size=size, map_word=root, depth=how, blocks=blocks + len(words))
    volume.expect(path, ino, content)
    return path.rsplit(b"/", 1)[-1], ino, FILE


def names(count, long=()):
    """Names of very different lengths."""
    yield from long
    for number in range(count - len(long)):
        yield b"n%d" % number + b"." * (number * 7 % 40)


def filled(volume, path, count, long=(), **shape):
    """Makes a directory of this many empty files."""
    ino = volume.new_inode()
    entries = [file(volume, path + b"/" + name) for name in names(count, long)]
    volume.directory(ino, entries, volume.root, **shape)
    volume.expect(path, ino)
    return path, ino, DIRECTORY


def finish(volume, entries, orphans=(), **shape):
    """Writes the root directory and the orphan directory, and the tables."""
    shape.setdefault("form", SMALL if len(entries) <= small_fields(volume.inode_size)[0] else REGION)
    volume.directory(volume.root, entries, volume.root, **shape)
    volume.expect(b"", volume.root)
    volume.directory(volume.orphans, orphans, volume.orphans, form=SMALL if orphans else 0)
    return volume.finish()


def cuts(count):
    return tuple(number * (1 << 32) // count for number in range(count))


def small(inode_size):
    volume = Volume(f"small-{inode_size}", inode_size=inode_size)
    most = 28 if inode_size == 256 else 8
    long = [bytes([65 + i]) * 255 for i in range(6)]
    return finish(volume, [
        filled(volume, b"full", most),
        filled(volume, b"one", 1, [b"\xff" * 255]),
        filled(volume, b"long", 7, long),
        filled(volume, b"elsewhere", 5, numbers=(3,)),
        filled(volume, b"deep", 5, depth=5),
        filled(volume, b"unlisted", 5, listed=False),
        filled(volume, b"end in holes", 5, long_end=9),
        filled(volume, b"empty", 0, form=0),
    ])


def one_region(inode_size):
    volume = Volume(f"one-region-{inode_size}", inode_size=inode_size)
    return finish(volume, [
        filled(volume, b"dummy last", 20, form=REGION, dummies_last=True),
        filled(volume, b"dummy last of few", 3, form=REGION, dummies_last=True),
        filled(volume, b"dummy anywhere", 15, form=REGION),
        filled(volume, b"single", 1, form=REGION),
        filled(volume, b"single, dummy last", 1, form=REGION, dummies_last=True),
        filled(volume, b"256", 256, form=REGION, numbers=(4, 0, 7, 2, 9, 1)),
        filled(volume, b"far", 40, form=REGION, numbers=(0, 70000, 5, 512), depth=4),
    ], form=REGION, dummies_last=True)


def trees(inode_size):
    volume = Volume(f"trees-{inode_size}", inode_size=inode_size)
    return finish(volume, [
        filled(volume, b"two", 100, form=TREE_FORM, cuts=(0, 1 << 31), fans=([2],), numbers=(0, 1, 2)),
        filled(volume, b"single child", 9, form=TREE_FORM, fans=([1],)),
        filled(volume, b"single children", 9, form=TREE_FORM, fans=([1], [1], [1], [1], [1])),
        filled(volume, b"empty regions", 6, form=TREE_FORM, cuts=cuts(40), fans=([40],), numbers=(0, 1)),
        filled(volume, b"narrow", 60, form=TREE_FORM, cuts=cuts(8), numbers=(1, 0),
               fans=([1, 1, 2, 1, 3], [2, 1, 2], [1, 2], [2], [1])),
        filled(volume, b"one of many", 1, form=TREE_FORM, cuts=cuts(6), fans=([2, 2, 2], [1, 1, 1], [3])),
        filled(volume, b"shapeless", 30, form=TREE_FORM, cuts=cuts(3), fans=([3],), shape_in_root=False),
        filled(volume, b"narrow cut", 12, form=TREE_FORM, cuts=(0, 1, 2, 2**32 - 1), fans=([2, 2], [2])),
    ], form=TREE_FORM, cuts=cuts(3), fans=([1, 2], [2]), dummies_last=True)


def files(inode_size, sums):
    volume = Volume(f"files-{inode_size}" + "-sums" * sums, blocks=2560, inode_size=inode_size, sums=sums)
    room = inode_size - 96
    block = bytes(range(256)) * 16
    most = 10 if inode_size == 256 else 2
    entries = [
        file(volume, b"inline", b"i" * room),
        file(volume, b"empty, inline", b""),
        file(volume, b"empty, extents", b"", "extents"),
        file(volume, b"extents", block * most, "extents", gaps=True),
        file(volume, b"short", b"short", "extents"),
        file(volume, b"odd end", block + b"end", "extents"),
        file(volume, b"hole", bytes(BLOCK) + block + bytes(3 * BLOCK), "extents"),
        file(volume, b"radix", block * 3 + b"more", 1),
        file(volume, b"deep", bytes(BLOCK) + block, 5),
    ]
    target = b"t" * 4095
    ino = volume.new_inode()
    at, = volume.store(target).values()
    put(volume.inodes[ino], 96, "QII", at, 0, 1)
    volume.fill(ino, 0o120777, size=len(target), extents=1, blocks=1)
    volume.expect(b"link", ino, target)
    for name, kind in ((b"fifo", FIFO), (b"socket", SOCKET), (b"device", CHAR_DEVICE)):
        other = volume.new_inode()
        volume.fill(other, kind << 12 | 0o600, parent=0x0107 if kind == CHAR_DEVICE else 0)
        volume.expect(name, other)
        entries.append((name, other, kind))
    # Blocks past the end of the file, all unwritten; and one unwritten block in it.
    kept = volume.new_inode()
    put(volume.inodes[kept], 96, "QII", volume.data(5) | 0x15, 0, 5)
    volume.fill(kept, 0o100600, size=100, extents=1, blocks=5)
    volume.expect(b"kept", kept, bytes(100))
    return finish(volume, entries + [(b"link", ino, SYMLINK), (b"kept", kept, FILE)])


def large_pointer():
    """A pointer of 2 MiB that is aligned to 4 KiB only."""
    volume = Volume("large-pointer", blocks=4096)
    ino, at = volume.new_inode(), volume.data(512)
    content = b"".join(struct.pack("<Q", number) * 512 for number in range(512))
    volume.image[at : at + CHUNK] = content
    root = volume.pointers(ino, {1: at | 9}) | 7
    volume.fill(ino, 0o100644, size=2 * CHUNK, map_word=root, depth=2, blocks=513)
    volume.expect(b"large", ino, bytes(CHUNK) + content)
    return finish(volume, [(b"large", ino, FILE)])


def attributes(inode_size):
    volume = Volume(f"attributes-{inode_size}", inode_size=inode_size)
    entries = []

    def attributed(path, attributes, inside, mode=0o674, **more):
        name, ino, kind = file(volume, path, mode=mode)
        volume.listing.pop()
        volume.attributes(ino, attributes, inside, **more)
        volume.expect(path, ino, b"", attributes)
        entries.append((name, ino, kind))

    room = inode_size - 96
    attributed(b"full", {b"user.a": b"v" * (room - 12)}, True)
    attributed(b"byte by byte", {b"user.a": b"1", b"user.b": b""}, False, pieces=1)
    attributed(b"odd blocks", {b"user.%d" % i: bytes([i]) * 301 for i in range(20)}, False, pieces=97)
    attributed(b"long name", {b"user." + b"n" * 250: b"v" * 3000}, False)
    attributed(b"large", {b"user.large": b"v" * 65536}, False)
    attributed(b"acl", {b"system.posix_acl_access": ACL}, room >= len(ACL) + 29)
    directory = volume.new_inode()
    volume.directory(directory, [], volume.root, form=0)
    volume.attributes(directory, {b"system.posix_acl_default": ACL}, False, pieces=7)
    volume.expect(b"defaults", directory, b"", {b"system.posix_acl_default": ACL})
    return finish(volume, entries + [(b"defaults", directory, DIRECTORY)])


def places():
    """The group table late in its chunk, a last chunk that is cut off, the smallest journal, a hash seed."""
    volume = Volume("places", blocks=2048 + 9, journal=5, seed=(0xFFFFFFFF, 0, 1, 0x80000000), at=505)
    volume.used |= set(range(1, 500))
    tail = file(volume, b"tail", b"t" * BLOCK, "extents")
    volume.used -= set(range(1, 500))
    volume.add_chunk(3)
    return finish(volume, [filled(volume, b"d", 60, form=REGION, numbers=(1, 0)), tail])


def seed_of_zeros():
    volume = Volume("seed-of-zeros", seed=(0, 0, 0, 0))
    shape = {"form": TREE_FORM, "cuts": cuts(2), "fans": ([2],), "numbers": (1, 0)}
    return finish(volume, [filled(volume, b"d", 60, **shape)])


def without_journal():
    volume = Volume("without-journal", journal=0)
    return finish(volume, [filled(volume, b"d", 10)])


def two_superblocks(newer_first):
    """Two good superblocks of different age, as after a crash between their writes."""
    volume = Volume("older-copy" if newer_first else "newer-copy")
    finish(volume, [filled(volume, b"d", 10)])
    free = get(volume.image, volume.table + 16, "Q")
    volume.write_superblocks(free, *((12, 9) if newer_first else (9, 12)))
    return volume


def orphans(mark):
    """Inodes without a name on a volume that was not closed: in the list, or found by their links."""
    volume = Volume("orphans" + "-unlisted" * mark)
    volume.clean = False
    listed = [] if mark else [(b"%x" % volume.orphans, volume.orphans, DIRECTORY)]
    for number in range(20):
        ino = volume.new_inode()
        volume.fill(ino, 0o100600, links=0, size=3, flags=INLINE)
        volume.inodes[ino][96:99] = b"gon"
        if not mark:
            listed.append((b"%x" % ino, ino, FILE))
    entries = [filled(volume, b"d", 10)]
    volume.directory(volume.root, entries, volume.root)
    volume.expect(b"", volume.root)
    volume.directory(volume.orphans, listed, volume.orphans, form=SMALL if listed else 0)
    node = volume.inodes[volume.orphans]
    put(node, 2, "H", get(node, 2, "H") | (NOT_ALL_ORPHANS if mark else 0))
    # The orphan directory's entry for itself is not a subdirectory.
    put(node, 4, "I", 2)
    return volume.finish()


class Log:
    """A journal by hand: commits one after another, from `tail` on, around the end of the ring."""

    def __init__(self, volume, tail=2, sequence=41):
        self.volume, self.at, self.sequence = volume, tail, sequence
        volume.write_journal_headers(tail, sequence)

    def write(self, block, checked=True):
        home = self.volume.journal + self.at * BLOCK
        self.volume.block(home)[:] = block
        if checked:
            self.volume.seal(home)
        self.at = self.at + 1 if self.at + 1 < self.volume.journal_blocks else 2
        return bytes(self.volume.block(home))

    def names(self, role, positions):
        block = bytearray(BLOCK)
        put(block, 0, "BBH", JOURNAL, role, len(positions))
        put(block, 16, "Q", self.sequence)
        put(block, 96, f"{len(positions)}Q", *positions)
        return self.write(block)

    def commit(self, descriptors, revoked=(), whole=True):
        """A commit with these descriptors: lists of (position, copy)."""
        written = [self.names(4, revoked)] if revoked else []
        for copies in descriptors:
            written.append(self.names(2, [at for at, _ in copies]))
            written += [self.write(copy, False) for _, copy in copies]
        record = bytearray(BLOCK)
        put(record, 0, "BB", JOURNAL, 3)
        put(record, 16, "QQI", self.sequence, len(written), crc32c(b"".join(written)) ^ (not whole))
        self.write(record)
        self.sequence += 1


def journal(name, tail, torn):
    """Everything that a log may have: a position twice in a commit and in two, a revoked block, file data."""
    volume = Volume(name, journal=40)
    volume.clean = False
    finish(volume, [
        filled(volume, b"d", 60, form=REGION, numbers=(1, 0)),
        file(volume, b"data", bytes(range(256)) * 40, "extents"),
    ])
    image = volume.image
    table, leaf = volume.table, next(b for b, (kind, _) in volume.kinds.items() if kind == LEAF) * BLOCK
    inodes = next(b for b, (kind, _) in volume.kinds.items() if kind == INODES) * BLOCK
    data, kept = sorted(volume.flushed)[:2]
    right = {at: bytes(volume.block(at)) for at in (table, leaf, inodes, data, kept)}
    wrong = b"\x5a" * BLOCK
    for at in (table, leaf, inodes, data):
        volume.block(at)[:] = wrong
    log = Log(volume, tail)
    # A later copy of a position counts, in one descriptor as in two and in a later commit.
    log.commit([[(leaf, wrong), (data, wrong), (leaf, right[leaf])], [(kept, wrong)]])
    log.commit([[(inodes, wrong), (table, wrong)], [(inodes, right[inodes])]], revoked=[kept])
    # A commit revokes first: its own copy of the block is not written either.
    log.commit([[(table, right[table]), (data, right[data])]])
    if torn:
        log.commit([[(table, wrong), (leaf, wrong)]], whole=False)
    return volume


def everything():
    for inode_size in (256, 128):
        yield small(inode_size)
        yield one_region(inode_size)
        yield trees(inode_size)
        yield files(inode_size, False)
        yield attributes(inode_size)
    yield files(256, True)
    yield large_pointer()
    yield places()
    yield seed_of_zeros()
    yield without_journal()
    yield two_superblocks(True)
    yield two_superblocks(False)
    yield orphans(False)
    yield orphans(True)
    yield journal("journal", 2, False)
    yield journal("journal-around", 30, False)
    yield journal("journal-torn", 37, True)


def main():
    for volume in everything():
        base = os.path.join(sys.argv[1], volume.name)
        with open(base + ".lane", "wb") as out:
            out.write(volume.image)
        with open(base + ".txt", "w", encoding="ascii") as out:
            out.write("".join(one + "\n" for one in sorted(volume.listing)))


if __name__ == "__main__":
    main()
