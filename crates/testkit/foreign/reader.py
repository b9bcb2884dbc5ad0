"""Reads volumes of format 4 from docs/format.md, strictly: `reader.py IMAGE` prints the listing of a closed
volume, or fails at the first contradiction. It shares only words and checksums with the writer."""

import sys

from format4 import *


class Wrong(Exception):
    """A volume that contradicts the document."""


def demand(holds, *what):
    if not holds:
        raise Wrong(" ".join(map(str, what)))


class Reader:
    """A volume, of which every block that is read must verify."""

    def __init__(self, image):
        self.image = image
        copies = [image[at : at + BLOCK] for at in (0, SUPERBLOCK_COPY)]
        # The seed of the sums lies in the block that has the sum.
        good = [copy for copy in copies if get(copy, 16, "Q") == MAGIC]
        good = [copy for copy in good if get(copy, 4, "I") == checksum(get(copy, 60, "I"), 0, copy, 4)]
        demand(good, "no good superblock")
        block = max(good, key=lambda copy: get(copy, 152, "Q"))
        self.seed, self.state = get(block, 60, "I"), get(block, 56, "I")
        demand(self.state & 1, "not closed")
        self.hash_seed = [get(block, 80 + 4 * i, "I") for i in range(4)]
        self.bytes, self.inode_size, self.root = (get(block, at, "Q") for at in (96, 104, 112))
        self.table, self.groups = get(block, 120, "Q"), get(block, 128, "Q")
        self.orphans, self.sums = get(block, 184, "Q"), get(block, 40, "Q") & DATA_CHECKSUMS
        demand(self.bytes <= len(image), "cut off")
        self.owned, self.tables, self.listing, self.links = {}, {}, [], {}
        self.free, self.inodes = get(block, 160, "Q"), get(block, 168, "Q")

    def block(self, at, kind, owner):
        """A metadata block of this kind and owner, which nothing else has."""
        demand(at % BLOCK == 0 and 0 < at < self.bytes, "a block at", at)
        data = self.image[at : at + BLOCK]
        said, users, total, said_owner = self.entry(at)
        demand(said == kind, "block", at, "has kind", said, "instead of", kind)
        if kind == INODES:
            return data
        self.own(at, 1, owner)
        demand(said_owner == owner and users == 0, "owner of block", at)
        if kind == POINTERS:
            demand(total == checksum(self.seed, at, data), "checksum of pointers", at)
        else:
            demand(data[0] == kind and get(data, 8, "Q") == owner, "head of block", at)
            self.verify(at, data)
        return data

    def verify(self, at, data, hole=4):
        demand(get(data, hole, "I") == checksum(self.seed, at, data, hole), "checksum at", at)

    def own(self, at, count, owner):
        for block in range(at // BLOCK, at // BLOCK + count):
            demand(block not in self.owned, "block", block, "belongs to", owner, "and", self.owned.get(block))
            self.owned[block] = owner

    def entry(self, at):
        """The entry of a block in the table of its metadata chunk."""
        chunk = at - at % CHUNK
        if chunk not in self.tables:
            table = self.image[chunk : chunk + 2 * BLOCK]
            demand(table[0] == CHUNK_KIND and get(table, 8, "Q") == chunk, "no metadata chunk at", chunk)
            self.verify(chunk, table[:BLOCK])
            second = checksum(self.seed, chunk + BLOCK, table[BLOCK:])
            demand(get(table, 20, "I") == second, "second block of the table at", chunk)
            used = 2 + sum(table[16 * i] != 0 for i in range(2, 512))
            demand(get(table, 16, "I") == used, "USED of", chunk)
            self.tables[chunk] = table
        table, i = self.tables[chunk], at % CHUNK // BLOCK * 16
        return table[i], table[i + 1], get(table, i + 4, "I"), get(table, i + 8, "Q")

    def inode(self, ino):
        at = ino * self.inode_size
        start = at % BLOCK
        node = self.block(at - start, INODES, 0)[start : start + self.inode_size]
        self.verify(at, node, 84)
        demand(get(node, 80, "I"), "generation of", ino)
        return node

    # File maps.

    def map(self, ino, node):
        """The stretches of a map, in order: first block of the file, position, blocks, unwritten; and the
        number of its blocks of pointers."""
        flags, word = get(node, 2, "H"), get(node, 24, "Q")
        depth, extents = flags >> 8 & 15, flags >> 12
        if depth:
            demand(extents == 0 and word & 31 == 7, "root of the map of", ino)
            below = []
            count = self.pointers(ino, word & ~127, depth, 0, below)
            return below, count
        if get(node, 0, "H") >> 12 == DIRECTORY:
            demand(word == 0 or word & 127 == 5, "map of directory", ino)
            return ([(0, word & ~127, 1, False)] if word else []), 0
        demand(word == 0, "a map beside extents of", ino)
        found, end = [], 0
        for i in range(extents):
            extent = node[96 + 16 * i : 112 + 16 * i]
            pointer, first, blocks = get(extent, 0, "Q"), get(extent, 8, "I"), get(extent, 12, "I")
            demand(pointer & 0x6F == 5 and first >= end and blocks, "extents of", ino)
            found.append((first, pointer & ~127, blocks, pointer & 16 != 0))
            end = first + blocks
        return found, 0

    def pointers(self, ino, at, level, first, found):
        block, count, covered, before = self.block(at, POINTERS, ino), 1, 512 ** (level - 1), len(found)
        for slot in range(512):
            word = get(block, 8 * slot, "Q")
            if not word:
                continue
            start, size = first + slot * covered, word >> 2 & 3
            demand(word & 1 and not word & 0x60 and (word & ~127) % BLOCK == 0, "a pointer of", ino)
            if word & 2:
                demand(size == 1 and not word & 16 and level > 1, "an indirect pointer of", ino)
                count += self.pointers(ino, word & ~127, level - 1, start, found)
            else:
                demand(size == level <= 3, "size of a pointer of", ino)
                found.append((start, word & ~127, covered, word & 16 != 0))
        demand(len(found) > before, "a block of pointers without any", at)
        return count

    def content(self, ino, node):
        """The content of a file or a symbolic link, and the blocks that it owns."""
        size, flags = get(node, 16, "Q"), get(node, 2, "H")
        if flags & INLINE:
            demand(size <= self.inode_size - 96 and not get(node, 24, "Q"), "inline content of", ino)
            return bytes(node[96 : 96 + size]), 0
        stretches, blocks = self.map(ino, node)
        content, is_file = bytearray(size), get(node, 0, "H") >> 12 in (FILE, SYMLINK)
        for first, at, count, unwritten in stretches:
            demand(is_file and at + count * BLOCK <= self.bytes, "blocks of", ino)
            self.own(at, count, ino)
            blocks += count
            last = (size + BLOCK - 1) // BLOCK
            demand(unwritten or first + count <= last, "written blocks past the end of", ino)
            for block in range(count if not unwritten else 0):
                position, start = at + block * BLOCK, (first + block) * BLOCK
                data = self.image[position : position + BLOCK]
                content[start : start + BLOCK] = data[: max(0, min(BLOCK, size - start))]
                demand(not any(data[max(0, size - start) :]), "bytes past the end of", ino, "at", position)
                if self.sums and not flags & 8:
                    self.data_sum(position, data)
        return bytes(content), blocks

    def data_sum(self, at, data):
        group, block = at // GROUP, at % GROUP // BLOCK
        home = group * GROUP + (CHUNK if group == 0 else 0) + (2 + block // 1008) * BLOCK
        sums = self.image[home : home + BLOCK]
        demand(sums[0] == SUMS and get(sums, 16, "Q") == block // 1008, "a block of checksums at", home)
        stored = get(sums, 64 + 4 * (block % 1008), "I")
        demand(stored in (0, checksum(self.seed, at, data) or 1), "data at", at)

    # Attributes.

    def attributes(self, ino, node):
        word, directory = get(node, 40, "Q"), get(node, 0, "H") >> 12 == DIRECTORY
        packed, blocks, found = b"", 0, {}
        if word < BLOCK:
            end, room = attribute_room(self.inode_size, directory)
            demand(word <= room, "attributes in inode", ino)
            packed = bytes(node[end - word : end])
        while word >= BLOCK:
            block = self.block(word, XATTR, ino)
            length = get(block, 24, "Q")
            demand(1 <= length <= 4064, "LENGTH at", word)
            packed, word, blocks = packed + bytes(block[32 : 32 + length]), get(block, 16, "Q"), blocks + 1
        at = 0
        while at < len(packed):
            name, value = get(packed, at, "H"), get(packed, at + 2, "I")
            end = at + 6 + name + value
            demand(name and end <= len(packed), "attributes of", ino)
            key = packed[at + 6 : at + 6 + name]
            demand(key not in found, "an attribute twice of", ino)
            found[key], at = packed[at + 6 + name : end], end
        for kind, flag in ((b"access", ACCESS_ACL), (b"default", DEFAULT_ACL)):
            key = b"system.posix_acl_" + kind
            demand((key in found) == (get(node, 2, "H") & flag != 0), "ACL flag of", ino)
        return found, blocks

    # Directories.

    def directory(self, ino, node):
        """The entries of a directory, each found by its leaf, by the list, and by a lookup; its blocks."""
        slots, root_at, tags_at, units_at = small_fields(self.inode_size)
        stretches, blocks = self.map(ino, node)
        entries, dummies, room = {}, set(), {}
        for number, at, count, unwritten in stretches:
            demand(count == 1 and not unwritten, "leaves of", ino)
            self.leaf(ino, number, at, entries, dummies, room)
        blocks += len(stretches)
        size, end = get(node, 16, "Q"), max((number + 1 for number, *_ in stretches), default=0) * BLOCK
        demand(size == end or size > end and get(node, 2, "H") & MAP_HOLES, "BYTES of", ino)
        self.room_list(ino, get(node, 96, "Q"), room)
        root = get(node, root_at, "Q")
        form, at = root & 3, root & ~4095
        demand(form or root == 0, "root of", ino)
        if form == 0:
            demand(not entries and not dummies, "an empty directory with entries", ino)
            return {}, blocks
        demand(entries, "a directory without entries is not empty:", ino)
        if form == SMALL:
            head = at + 5 * UNIT
            regions = [(0, 0)]
            used = [i for i in range(slots) if node[units_at + i]]
            index = {at + node[units_at + i] * UNIT: node[tags_at + i] for i in used}
            demand(index == {e: hash_ >> 24 for e, (hash_, *_) in entries.items()}, "small index of", ino)
        else:
            demand(not any(node[units_at : units_at + slots]), "a small index beside a large one", ino)
            regions = []
            if form == REGION:
                regions.append((0, at))
            else:
                blocks += self.tree(ino, at, None, 0, 1 << 32, regions, root >> 2 & 3, root >> 4 & 255)
            head = get(self.image, regions[0][1] + 16, "Q")
            blocks += len(regions)
        self.follow(ino, head, regions, entries, dummies)
        names = {}
        for hash_, name, target, kind in entries.values():
            demand(name not in names, "a name twice in", ino)
            names[name] = target, kind
        return names, blocks

    def leaf(self, ino, number, at, entries, dummies, room):
        leaf = self.block(at, LEAF, ino)
        used = [get(leaf, 40 + 8 * (unit // 64), "Q") >> unit % 64 & 1 for unit in range(256)]
        demand(all(used[:5]) and get(leaf, 2, "H") == 256 - sum(used), "units of leaf", at)
        demand(get(leaf, 16, "Q") == number, "number of leaf", at)
        room[at] = leaf[1], get(leaf, 24, "Q"), get(leaf, 32, "Q")
        unit, found = 5, 0
        while unit < 256:
            if not used[unit]:
                unit += 1
                continue
            here, length = unit * UNIT, leaf[unit * UNIT + 28]
            name = bytes(leaf[here + 32 : here + 32 + length])
            end = unit + entry_units(name)
            demand(end <= 256 and all(used[unit:end]), "entry at", at + here)
            hash_, kind = get(leaf, here + 24, "I"), leaf[here + 29]
            if length:
                demand(b"/" not in name and b"\0" not in name, "a name at", at + here)
                demand(hash_ == half_md4(self.hash_seed, name), "hash at", at + here)
                entries[at + here] = hash_, name, get(leaf, here + 16, "Q"), kind
            else:
                dummies.add(at + here)
            unit, found = end, found + 1
        demand(found, "a leaf without entries", at)

    def room_list(self, ino, at, room):
        seen, before = set(), 0
        while at:
            demand(at in room and at not in seen, "list of leaves with room of", ino)
            listed, after, previous = room[at]
            demand(listed == 1 and previous == before, "leaf", at, "in the list of those with room")
            seen.add(at)
            before, at = at, after
        demand(all(not room[leaf][0] for leaf in room.keys() - seen), "a leaf says that it is listed", ino)

    def tree(self, ino, at, level, low, end, regions, told, children):
        block = self.block(at, TREE, ino)
        here, count, blocks = block[1], get(block, 2, "H"), 1
        demand(1 <= count <= 255 and 1 <= here <= 5 and level in (None, here), "tree block", at)
        demand(not (told or children) or (told, children) == (here, count), "shape of the tree of", ino)
        lows = [get(block, 16 + 4 * i, "I") for i in range(count)] + [end]
        demand(lows[0] == low and all(a < b for a, b in zip(lows, lows[1:])), "order of tree block", at)
        for i in range(count):
            child = get(block, 2056 + 8 * i, "Q")
            form = REGION if here == 1 else TREE_FORM
            demand(get(block, 1036 + 4 * i, "I") == form, "form of a child of", at)
            if here == 1:
                regions.append((lows[i], child))
            else:
                blocks += self.tree(ino, child, here - 1, lows[i], lows[i + 1], regions, 0, 0)
        return blocks

    def follow(self, ino, head, regions, entries, dummies):
        """Follows the list: the regions in order, each with its entries and its index block."""
        at, before, left = head, 0, set(entries)
        for number, (low, index) in enumerate(regions):
            end = regions[number + 1][0] if number + 1 < len(regions) else 1 << 32
            demand(at in dummies, "no dummy opens region", number, "of", ino)
            dummies.remove(at)
            dummy = self.image[at : at + 32]
            demand(get(dummy, 24, "I") == low and get(dummy, 8, "Q") == before, "dummy at", at)
            demand(get(dummy, 16, "Q") == index, "index of the dummy at", at)
            head, members = at, []
            before, at = at, get(dummy, 0, "Q")
            while at and at not in dummies:
                demand(at in left, "the list of", ino, "leads to", at)
                left.remove(at)
                demand(low <= entries[at][0] < end, "hash of the entry at", at)
                demand(get(self.image, at + 8, "Q") == before, "link back of", at)
                members.append(at)
                before, at = at, get(self.image, at, "Q")
            self.index(ino, index, head, get(dummy, 30, "H"), members, entries)
        demand(not at and not left and not dummies, "the list of", ino, "lacks", len(left), len(dummies))

    def index(self, ino, at, dummy, count, members, entries):
        if not at:
            demand(count == len(members), "COUNT of the dummy at", dummy)
            return
        block = self.block(at, INDEX, ino)
        unindexed = get(block, 24, "I")
        demand(get(block, 16, "Q") == dummy, "dummy of index", at)
        demand(count + unindexed == len(members), "number of entries of index", at)
        demand(count <= 256 and (not unindexed or count == 256), "entries of index", at)
        slots = [get(block, 64 + 8 * i, "Q") for i in range(504)]
        there = [slot >> 17 for slot in slots if slot >> 17]
        demand(sorted(there) == sorted(one // UNIT for one in members[unindexed:]), "slots of index", at)
        for entry in members[unindexed:]:
            tag = entries[entry][0] & 0xFFFF
            bucket, wanted = tag * 63 >> 16, tag | entry // UNIT << 17
            for _ in range(63):
                part = slots[8 * bucket : 8 * bucket + 8]
                if wanted in (slot & ~(1 << 16) for slot in part):
                    break
                demand(part[0] >> 16 & 1, "a lookup in index", at, "ends before the entry at", entry)
                bucket = (bucket + 1) % 63

    # The whole.

    def visit(self, path, ino, parent):
        node = self.inode(ino)
        mode, links = get(node, 0, "H"), get(node, 4, "I")
        names, content = {}, b""
        if mode >> 12 == DIRECTORY:
            demand(get(node, 32, "Q") == parent, "parent of", ino)
            names, blocks = self.directory(ino, node)
            subdirectories = sum(kind == DIRECTORY for _, kind in names.values())
            demand(links == (2 if ino == self.orphans else 2 + subdirectories), "links of directory", ino)
        elif ino not in self.links:
            content, blocks = self.content(ino, node)
            self.links[ino] = [links, 1, content, {}]
        else:
            self.links[ino][1] += 1
            content, attributes = self.links[ino][2:]
            self.listing.append(line(path, mode >> 12, mode, links, get(node, 16, "Q"), content, attributes))
            return
        attributes, more = self.attributes(ino, node)
        if mode >> 12 != DIRECTORY:
            self.links[ino][3] = attributes
        demand(get(node, 88, "Q") == blocks + more, "BLOCKS of", ino, "is not", blocks + more)
        if ino != self.orphans:
            self.listing.append(line(path, mode >> 12, mode, links, get(node, 16, "Q"), content, attributes))
        for name, (target, kind) in names.items():
            if ino == self.orphans:
                demand(target == ino and name == b"%x" % ino, "an orphan on a closed volume", target)
                continue
            demand(get(self.inode(target), 0, "H") >> 12 == kind, "type of", name, "in", ino)
            self.visit(path + b"/" + name if path else name, target, ino)

    def space(self):
        """The bitmaps and the counts: what is used belongs to something."""
        free, inodes = 0, set()
        for number in range(self.groups):
            at = self.table + number * BLOCK
            group = self.image[at : at + BLOCK]
            demand(group[0] == GROUP_KIND and get(group, 8, "Q") == number, "group", number)
            self.verify(at, group)
            bits = int.from_bytes(group[64:], "little")
            demand(get(group, 16, "Q") == 63 * 512 - bits.bit_count(), "FREE of group", number)
            free += get(group, 16, "Q")
            for block in range(63 * 512):
                chunk = number * 63 + block // 512
                position = number * GROUP + block * BLOCK
                if get(group, 24, "Q") >> block // 512 & 1:
                    demand(bits >> block & 1, "a free block of metadata chunk", chunk)
                    kind, used, *_ = self.entry(position)
                    if block % 512 >= 2 and kind == INODES:
                        inodes |= self.inodes_of(position, used)
                    elif block % 512 >= 2 and kind not in (0, SUMS):
                        demand(position // BLOCK in self.owned, "a leaked block of metadata", position)
                elif position // BLOCK in self.owned:
                    demand(bits >> block & 1, "a block in use is free", position)
        demand((free, len(inodes)) == (self.free, self.inodes), "counts of the superblock", free, len(inodes))

    def inodes_of(self, at, used):
        nodes = range(at // self.inode_size, (at + BLOCK) // self.inode_size)
        found = {ino for ino in nodes if get(self.image, ino * self.inode_size, "H")}
        demand(len(found) == used, "USED of the inodes at", at)
        return found

    def read(self):
        self.visit(b"", self.root, self.root)
        self.visit(b"", self.orphans, self.orphans)
        for ino, (links, names, *_) in self.links.items():
            demand(links == names, "links of", ino)
        self.space()
        return sorted(self.listing)


def main():
    with open(sys.argv[1], "rb") as image:
        reader = Reader(memoryview(image.read()))
    try:
        print("\n".join(reader.read()))
    except Wrong as why:
        sys.exit(f"{sys.argv[1]}: {why}")


if __name__ == "__main__":
    main()
