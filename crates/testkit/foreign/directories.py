"""Directories of every form and shape that docs/format.md allows."""

from format4 import *


class Directory:
    """One directory: where its entries lie, how its regions are cut, how its tree stands.

    `form`: 0 empty, SMALL, REGION or TREE_FORM. `numbers`: the numbers of its leaves. `dummies_last`: the
    dummy entries are the last ones of their leaves. `cuts`: the lowest hashes of the regions. `fans`: for
    each level of the tree the numbers of children of its blocks.
    """

    def __init__(self, volume, ino, entries, form=SMALL, numbers=(0,), depth=None, dummies_last=False,
                 cuts=(0,), fans=(), shape_in_root=True, listed=True, long_end=0):
        self.volume, self.ino, self.form, self.rng = volume, ino, form, volume.rng
        seed = volume.hash_seed
        self.entries = [(half_md4(seed, name), name, target, kind) for name, target, kind in entries]
        self.numbers, self.depth, self.dummies_last = numbers, depth, dummies_last
        self.cuts, self.fans, self.shape_in_root = cuts, fans, shape_in_root
        self.listed, self.long_end, self.blocks = listed, long_end, 0

    def write(self, parent, mode):
        node, subdirectories = self.volume.inodes[self.ino], sum(e[3] == DIRECTORY for e in self.entries)
        if self.form == 0:
            self.volume.fill(self.ino, 0o40000 | mode, 2, parent=parent)
            return
        self.leaves = [self.volume.headed(LEAF, self.ino) for _ in self.numbers]
        self.blocks += len(self.leaves)
        regions = self.place()
        self.link(regions)
        slots, root_at, tags_at, units_at = small_fields(self.volume.inode_size)
        if self.form == SMALL:
            self.small_index(node, regions[0], tags_at, units_at, slots)
            root = self.leaves[0] | SMALL
        else:
            indexes = [self.index(region) for region in regions]
            root = indexes[0] | REGION if self.form == REGION else self.tree(regions, indexes)
        put(node, root_at, "Q", root)
        put(node, 96, "Q", self.room_list())
        map_word, depth = self.map()
        end = (max(self.numbers) + 1 + self.long_end) * BLOCK
        flags = MAP_HOLES if self.long_end or len(self.numbers) <= max(self.numbers) else 0
        self.volume.fill(self.ino, 0o40000 | mode, 2 + subdirectories, end, flags, map_word, depth, 0, parent,
                         self.blocks)

    def place(self):
        """Gives each entry and each dummy its units. Returns the regions: lowest hash, dummy, entries."""
        ends = list(self.cuts[1:]) + [1 << 32]
        regions = [
            [low, None, [e for e in self.entries if low <= e[0] < end]] for low, end in zip(self.cuts, ends)
        ]
        items = [(region, None) for region in regions] + [(r, e) for r in regions for e in r[2]]
        if self.form != SMALL:
            self.rng.shuffle(items)
            items.sort(key=lambda item: (item[1] is None) == self.dummies_last)
        for region in regions:
            region[2] = []
        next_unit = [5] * len(self.leaves)
        for number, (region, entry) in enumerate(items):
            name = entry[1] if entry else b""
            leaf = number % len(self.leaves)
            unit, units = next_unit[leaf], entry_units(name)
            if unit + units > 256:
                leaf = next(i for i, free in enumerate(next_unit) if free + units <= 256)
                unit = next_unit[leaf]
            at = self.leaves[leaf] + unit * UNIT
            self.mark(self.leaves[leaf], unit, units)
            next_unit[leaf] = unit + units + (self.rng.randrange(3) if unit > 5 and unit < 150 else 0)
            if entry:
                hash_, name, target, kind = entry
                put(self.volume.image, at, "QQQIBBH", 0, 0, target, hash_, len(name), kind, 0)
                self.volume.image[at + 32 : at + 32 + len(name)] = name
                # The rest of the last unit has no meaning.
                rest = units * UNIT - 32 - len(name)
                self.volume.image[at + 32 + len(name) : at + units * UNIT] = b"\xa5" * rest
                region[2].append((hash_, at))
            else:
                region[1] = at
        for leaf, number in zip(self.leaves, self.numbers):
            self.mark(leaf, 0, 5)
            put(self.volume.image, leaf + 16, "Q", number)
            words = [get(self.volume.image, leaf + 40 + 8 * i, "Q") for i in range(4)]
            put(self.volume.image, leaf + 2, "H", 256 - sum(word.bit_count() for word in words))
        return regions

    def mark(self, leaf, first, count):
        for unit in range(first, first + count):
            at = leaf + 40 + unit // 64 * 8
            put(self.volume.image, at, "Q", get(self.volume.image, at, "Q") | 1 << unit % 64)

    def link(self, regions):
        """The hash-ordered list; inside a region in any order."""
        chain = []
        for low, dummy, members in regions:
            self.rng.shuffle(members)
            put(self.volume.image, dummy + 24, "IBBH", low, 0, 0, len(members))
            chain += [dummy] + [at for _, at in members]
        for before, at, after in zip([0] + chain, chain, chain[1:] + [0]):
            put(self.volume.image, at, "QQ", after, before)

    def small_index(self, node, region, tags_at, units_at, slots):
        for slot, (hash_, at) in zip(self.rng.sample(range(slots), len(region[2])), region[2]):
            node[tags_at + slot] = hash_ >> 24
            node[units_at + slot] = at % BLOCK // UNIT

    def index(self, region):
        """The index block of a region, with overflow bits that nothing needs, too."""
        at, image = self.volume.headed(INDEX, self.ino), self.volume.image
        self.blocks += 1
        put(image, at + 16, "Q", region[1])
        put(image, region[1] + 16, "Q", at)
        slots = [0] * 504
        for bucket in self.rng.sample(range(63), 9):
            slots[8 * bucket] |= 1 << 16
        for hash_, entry in region[2]:
            tag = hash_ & 0xFFFF
            bucket = tag * 63 >> 16
            while not (free := [i for i in range(8 * bucket, 8 * bucket + 8) if not slots[i] >> 17]):
                slots[8 * bucket] |= 1 << 16
                bucket = (bucket + 1) % 63
            slot = self.rng.choice(free)
            slots[slot] |= tag | entry // UNIT << 17
        put(image, at + 64, "504Q", *slots)
        return at

    def tree(self, regions, indexes):
        """Tree blocks over the regions. Returns the word of the root."""
        children, form = [(region[0], at) for region, at in zip(regions, indexes)], REGION
        for level, fan in enumerate(self.fans, 1):
            above, left = [], list(children)
            for count in fan:
                part, left = left[:count], left[count:]
                at, image = self.volume.headed(TREE, self.ino), self.volume.image
                self.blocks += 1
                put(image, at + 1, "BH", level, count)
                for i, (low, child) in enumerate(part):
                    put(image, at + 16 + 4 * i, "I", low)
                    put(image, at + 1036 + 4 * i, "I", form)
                    put(image, at + 2056 + 8 * i, "Q", child)
                above.append((part[0][0], at))
            assert not left, "a fan that leaves children out"
            children, form = above, TREE_FORM
        assert len(children) == 1
        level, count = len(self.fans), self.fans[-1][0]
        shape = level << 2 | count << 4 if self.shape_in_root and level <= 3 else 0
        return children[0][1] | TREE_FORM | shape

    def room_list(self):
        """The list of leaves with room, in any order; a writer may leave leaves out."""
        if not self.listed:
            return 0
        listed = self.rng.sample(self.leaves, (len(self.leaves) + 1) // 2)
        for before, at, after in zip([0] + listed, listed, listed[1:] + [0]):
            self.volume.image[at + 1] = 1
            put(self.volume.image, at + 24, "QQ", after, before)
        return listed[0]

    def map(self):
        if self.depth is None and tuple(self.numbers) == (0,):
            return self.leaves[0] | 5, 0
        depth = self.depth or 1
        words = {number: leaf | 5 for number, leaf in zip(self.numbers, self.leaves)}
        root, blocks = self.volume.radix(self.ino, words, depth)
        self.blocks += blocks
        return root, depth
