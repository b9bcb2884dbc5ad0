//! Limits of the kernels: sizes beyond which the host decides, rounds of loops, sizes of workgroups. The
//! assertions below tie them to each other, to the format and to the least that Vulkan guarantees.

use lanefs::format::dir::{BUCKET_SLOTS, BUCKETS, LEAF_HEADER_UNITS, MAX_TREE_LEVEL, REGION_MAX, entry};
use lanefs::format::{BLOCK, MAX_NAME, MAX_SYMLINKS_FOLLOWED, UNIT, UNITS_PER_LEAF};

/// Longest path in bytes; longer ones are left to the host.
pub(crate) const MAX_PATH_BYTES: usize = 16_384;

/// Texts whose rest a lookup keeps while it follows links; deeper ones are left to the host.
pub(crate) const MAX_DEPTH: usize = 8;

/// Buckets of the directory cache that a name may be in: its homes. With two buckets for each entry, some
/// three of a hundred names find both slots of the first taken, and of these each further home leaves one of
/// ten: of a million names four homes leave ten, and eight leave none.
pub(crate) const CACHE_HOMES: usize = 8;

/// Buckets of the directory-path table that a directory may be in.
pub(crate) const DIR_HOMES: usize = 8;

// Each home turns the hash by other bits.
const _: () = assert!(CACHE_HOMES <= 32 && DIR_HOMES <= 32);

/// Supplementary groups that a kernel checks; callers with more are left to the host.
pub(crate) const MAX_GROUPS: usize = 64;

/// Invocations of a workgroup, without other wishes.
pub(crate) const WORKGROUP: u32 = 64;

/// Fewest invocations for which the fuel of a software device suffices to rebuild the largest region.
const LEAST_WORKGROUP: usize = 32;

/// Rounds of loops that one component may take on a sound volume. With less left, a lookup stops before the
/// next component, and another dispatch resumes it.
pub(crate) const COMPONENT_FUEL: u32 = 1000;

/// Rounds of loops that it takes to write down all entries of a leaf block.
pub(crate) const COPY_FUEL: u32 = 400;

/// Rounds of loops of an invocation.
pub(crate) const FUEL: u32 = 1 << 20;

/// Rounds of loops of an invocation on llvmpipe. It ends all loops of the invocations of a vector after
/// [`VECTOR_ROUNDS`] rounds, without a word, so those of a whole vector stay below.
pub(crate) const FUEL_SOFTWARE: u32 = 4000;
const VECTOR_ROUNDS: u32 = 65_535;
const VECTOR_LANES: u32 = 16;

/// Dispatches that resume one another's lookups, at most.
pub(crate) const MAX_DISPATCHES: usize = 256;

/// Workgroups in one dimension of a dispatch that any device takes.
pub(crate) const MAX_GROUPS_PER_DIMENSION: u64 = 65_535;

// A vector of llvmpipe does not run into its bound, and a lookup that stops as unfinished has made progress.
const _: () = assert!(FUEL_SOFTWARE * VECTOR_LANES < VECTOR_ROUNDS);
const _: () = assert!(FUEL_SOFTWARE > 2 * COMPONENT_FUEL && FUEL >= FUEL_SOFTWARE);

// A component: its groups, its end and its hash, its homes in the directory cache, a step for each level of a
// tree, all buckets of an index, a comparison.
const _: () = {
    let name = (2 + MAX_NAME / 4) + (1 + MAX_NAME / 32);
    let region = BUCKETS * (1 + BUCKET_SLOTS);
    let comparison = MAX_NAME.div_ceil(4);
    let tree = MAX_TREE_LEVEL as usize + region;
    assert!(MAX_GROUPS + name + CACHE_HOMES + tree + comparison < COMPONENT_FUEL as usize);
};

// A leaf block: its words of used units, its entries, their units; and all names of a block are matched
// with the rest of the fuel.
const _: () = {
    let units = UNITS_PER_LEAF as usize - LEAF_HEADER_UNITS;
    let entries = units / (entry::SIZE / UNIT as usize);
    assert!(UNITS_PER_LEAF as usize / 32 + entries + units <= COPY_FUEL as usize);
    assert!(COPY_FUEL as usize + units + entries + BLOCK as usize / 4 < FUEL_SOFTWARE as usize);
};

// A region: each invocation of the smallest workgroup ranks its share of the entries among all, and fills
// its share of the buckets.
const _: () = {
    assert!(REGION_MAX.div_ceil(LEAST_WORKGROUP) * (REGION_MAX + 2) < FUEL_SOFTWARE as usize);
    assert!(BUCKETS.div_ceil(LEAST_WORKGROUP) * (2 * REGION_MAX + 1) < FUEL_SOFTWARE as usize);
    // Entries that overflow their bucket find a slot.
    assert!(REGION_MAX <= BUCKETS * BUCKET_SLOTS);
};

// Vulkan guarantees workgroups of 128 invocations and 16 KiB of shared memory. `build` has an entry's
// position, hash and successor, a slot and two words for each bucket; `gather` has less.
const _: () = {
    assert!(LEAST_WORKGROUP <= WORKGROUP as usize && WORKGROUP <= 128);
    assert!(REGION_MAX * (8 + 4 + 4) + BUCKETS * (BUCKET_SLOTS * 8 + 4 + 4) <= 16_384);
    assert!(REGION_MAX * (8 + 4 + 8) + 2 * 4 <= 16_384);
};

// An unfinished lookup keeps the number of the links that it has followed in a byte.
const _: () = {
    assert!(MAX_SYMLINKS_FOLLOWED < 256 && MAX_DEPTH <= MAX_SYMLINKS_FOLLOWED as usize);
};
