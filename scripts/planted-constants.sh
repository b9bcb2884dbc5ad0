#!/bin/sh
# Sees the const assertions of `alloc`, `store`, `fs` and `gpu` refuse a constant that contradicts the others,
# one by one.
# (Those of `format` are in crates/format/tests/it/ties.rs.)
#
#   scripts/planted-constants.sh TARGET_DIR     (default: target)
#
# The sources are copied; the copy's build has a folder of its own below TARGET_DIR.
set -u
cd "$(dirname "$0")/.." || exit 2
: "${CARGO:=cargo}"
target=$(mkdir -p "${1:-target}/planted-constants" && cd "${1:-target}/planted-constants" && pwd) || exit 2

say() { printf 'planted-constants: %s\n' "$*"; }

folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
cp -r Cargo.toml Cargo.lock crates fuzz python "$folder" || exit 2

check() { # check CRATE: the compiler's messages are in $folder/log
    (cd "$folder" && "$CARGO" check --quiet --locked --target-dir "$target" -p "$1" >log 2>&1)
}

# plant CRATE FILE TEXT PLANTED MESSAGE: with PLANTED in place of TEXT the crate must not compile, and the
# compiler must say MESSAGE.
plant() {
    file=$folder/crates/$2
    if [ "$(grep -cF "$3" "$file")" != 1 ]; then
        say "'$3' is not once in $2"
        exit 1
    fi
    cp "$file" "$folder/original"
    text=$(printf '%s' "$3" | sed 's/[][\.*^$]/\\&/g')
    sed -i "s|$text|$4|" "$file"
    if cmp -s "$file" "$folder/original"; then
        say "'$4' was not planted in $2"
        exit 1
    fi
    if check "$1"; then
        say "NOT REFUSED: '$4' in $2"
        exit 1
    fi
    if ! grep -qF "$5" "$folder/log"; then
        tail -n 20 "$folder/log"
        say "'$4' in $2 is refused, but not with '$5'"
        exit 1
    fi
    # A new time of change, so that cargo sees the file as it was.
    cat "$folder/original" >"$file"
    say "refused: $4"
}

for crate in lanefs-alloc lanefs-store lanefs lanefs-gpu; do
    check "$crate" || { tail -n 20 "$folder/log"; say "$crate does not compile as it is"; exit 1; }
done
plant lanefs-alloc alloc/src/frees/ring.rs 'size(1024, 4)' 'size(1000, 4)' 'a mask of its number'
plant lanefs-alloc alloc/src/frees/outbox.rs 'BATCH_OBJECTS: usize = size(32, 3)' 'BATCH_OBJECTS: usize = size(2048, 3)' 'room for a batch'
plant lanefs-alloc alloc/src/memory/pool.rs '{ 8 } else { 256 }' '{ 8 } else { 1 << 40 }' 'room for the largest piece'
plant lanefs-alloc alloc/src/memory/unit.rs 'POOL_PART: usize = 128' 'POOL_PART: usize = 512' 'POOL_PART < HEADER_BYTES'
plant lanefs-store store/src/memory/versions.rs 'TABLE: Grain = Grain(4)' 'TABLE: Grain = Grain(2)' 'a word belongs to one record'
plant lanefs fs/src/names/dir/many.rs 'REGION_FILLED: usize = 160' 'REGION_FILLED: usize = 300' 'neither divides nor merges'
plant lanefs fs/src/names/dir/leaf.rs 'LEAST_UNITS: u16 = 2' 'LEAST_UNITS: u16 = 100' 'takes the shortest entry'
plant lanefs fs/src/mounted/claims.rs 'TICK_BITS: u32 = 12' 'TICK_BITS: u32 = 20' 'the number of any block'
plant lanefs fs/src/mounted/claims.rs 'WRITER_BITS: u32 = 8' 'WRITER_BITS: u32 = 7' 'room for any writer'
plant lanefs fs/src/files/inode.rs 'FLAG_MAP_HOLES: u16 = 2' 'FLAG_MAP_HOLES: u16 = 1' 'leave the common flags alone'
plant lanefs fs/src/files/inode.rs 'FLAG_UNLISTED: u16 = 4' 'FLAG_UNLISTED: u16 = 2' 'flags of directories do not overlap'
plant lanefs fs/src/files/map/radix.rs 'POINTERS_PER_BLOCK.trailing_zeros()' '10' 'resolves whole bits'
plant lanefs fs/src/files/map/radix.rs '1 << (LEVEL_BITS * depth as u32)' '1 << (8 * depth as u32)' 'as far as files may'
plant lanefs fs/src/mounted/dir_table.rs 'size(1 << 13, 4)' 'size(1000, 4)' 'that `bit` takes'
plant lanefs fs/src/mounted/dir_table.rs 'LEVELS: usize = 10' 'LEVELS: usize = 12' 'fits the word of a slot'
plant lanefs fs/src/space/extents.rs 'FEW_BLOCKS: u64 = 8' 'FEW_BLOCKS: u64 = 16' 'each way to allocate'
plant lanefs fs/src/space/extents.rs 'GOOD_HOLE: u64 = 16' 'GOOD_HOLE: u64 = 1000' 'long enough'
plant lanefs fs/src/space/extents.rs 'NEAR: usize = 16' 'NEAR: usize = 256' 'before the search for any'
plant lanefs fs/src/files/xattr.rs 'MAX_TOTAL_BYTES: usize = 256 << 10' 'MAX_TOTAL_BYTES: usize = 64 << 10' 'the longest attribute'
plant lanefs format/src/inodes.rs 'dir_inode_256::UNITS.len,' '2 * dir_inode_256::UNITS.len,' 'a tag and a unit for each entry'
plant lanefs format/src/code.rs 'Success = 0, 0' 'Success = 200, 0' 'a row of zeros'
plant lanefs-gpu gpu/src/shared/limits.rs 'FUEL_SOFTWARE: u32 = 4000' 'FUEL_SOFTWARE: u32 = 5000' 'VECTOR_LANES < VECTOR_ROUNDS'
plant lanefs-gpu gpu/src/shared/limits.rs 'COMPONENT_FUEL: u32 = 1000' 'COMPONENT_FUEL: u32 = 500' 'COMPONENT_FUEL as usize'
plant lanefs-gpu gpu/src/shared/limits.rs 'WORKGROUP: usize = 32' 'WORKGROUP: usize = 8' 'FUEL_SOFTWARE as usize'
plant lanefs-gpu gpu/src/shared/limits.rs 'MAX_GROUPS: usize = 64' 'MAX_GROUPS: usize = 640' 'COMPONENT_FUEL as usize'
