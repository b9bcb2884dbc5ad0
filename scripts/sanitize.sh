#!/bin/sh
# Runs the tests under tools that see undefined behaviour, and fuzzes what reads foreign bytes.
#
#   scripts/sanitize.sh [miri] [tsan] [asan] [fuzz] [aarch64] [planted]     (default: all of them)
#
# A part whose tools are missing is named with what is missing, and the others go on. The exit code is 0 when every part
# that could run passed, and at least one could. With SANITIZE_OPTIONAL=1 (as in `.ci/run`) none has to.
# FUZZ_SECONDS bounds each fuzz target [default: 15].
set -u
cd "$(dirname "$0")/.." || exit 1

: "${CARGO:=cargo}"
: "${FUZZ_SECONDS:=15}"
HOST=x86_64-unknown-linux-gnu
ARM=aarch64-unknown-linux-gnu
TARGET=${CARGO_TARGET_DIR:-target}
export CARGO_INCREMENTAL=0
unset RUSTFLAGS MIRIFLAGS

say() { printf '==> sanitize: %s\n' "$*"; }
nightly() { "$CARGO" +nightly "$@"; }

# ------------------------------------------------------------------------------------------------ what a part needs

# Each prints what is missing, or nothing.
lacks_nightly() { nightly --version >/dev/null 2>&1 || echo "a nightly toolchain (rustup toolchain install nightly)"; }
lacks_source() {
    source=$(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library
    [ -d "$source" ] || echo "rust-src (rustup component add rust-src --toolchain nightly)"
}
lacks_miri() { nightly miri --version >/dev/null 2>&1 || echo "miri (rustup component add miri --toolchain nightly)"; }
lacks_fuzz() { "$CARGO" fuzz --version >/dev/null 2>&1 || echo "cargo-fuzz (cargo install --locked cargo-fuzz)"; }
lacks_host() { [ "$(uname -m)" = x86_64 ] || echo "an x86-64 machine"; }
lacks_cross() {
    rustc --print target-libdir --target "$ARM" 2>/dev/null | { read -r dir && [ -d "$dir" ]; } ||
        echo "the standard library for $ARM (rustup target add $ARM)"
    command -v aarch64-linux-gnu-gcc >/dev/null || echo "aarch64-linux-gnu-gcc (package gcc-aarch64-linux-gnu)"
    [ -e /usr/aarch64-linux-gnu/lib/libc.so.6 ] || echo "the C library for it (package libc6-dev-arm64-cross)"
    command -v qemu-aarch64 >/dev/null || echo "qemu-aarch64 (package qemu-user)"
}

lacks() {
    case $1 in
        miri) lacks_nightly; lacks_source; lacks_miri ;;
        tsan | asan) lacks_host; lacks_nightly; lacks_source ;;
        fuzz) lacks_host; lacks_nightly; lacks_fuzz ;;
        aarch64) lacks_cross ;;
        planted) lacks_host; lacks_nightly; lacks_source; lacks_miri ;;
    esac
}

# ------------------------------------------------------------------------------------------------------------- Miri

# The heap reads the header and the bitmap of a slab through one pointer, which Tree Borrows allows and Stacked Borrows does not; it
# keeps addresses as numbers, and never unmaps what it has.
HEAP="-Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-ignore-leaks"

# miri FLAGS ARGUMENT...: tests under Miri with these of its flags.
miri() {
    flags=$1
    shift
    say "miri: $*"
    MIRIFLAGS=$flags nightly miri test --locked --target-dir "$TARGET/miri" "$@"
}

part_miri() {
    miri "" -p lanefs-format --lib &&
        miri "$HEAP" -p lanefs-alloc --lib -- policy bitmap remote &&
        miri "$HEAP" -p lanefs-alloc --test random
}

# --------------------------------------------------------------------------------------------- ThreadSanitizer, ASan

# sanitized NAME FLAGS ARGUMENT...: tests with the standard library built anew under a sanitizer.
sanitized() {
    name=$1
    flags=$2
    shift 2
    say "$name: $*"
    RUSTFLAGS="$flags" nightly test -j2 -Zbuild-std --target "$HOST" --target-dir "$TARGET/$name" --locked "$@"
}

# ThreadSanitizer does not see what assembly does: the copy in Rust takes its place.
tsan() { sanitized tsan "-Zsanitizer=thread --cfg lanefs_no_asm" "$@"; }
asan() { sanitized asan "-Zsanitizer=address" "$@"; }

part_tsan() {
    tsan -p lanefs-store --lib
}

part_asan() {
    asan -p lanefs --lib
}

# ------------------------------------------------------------------------------------------------------------ fuzzing

part_fuzz() {
    say "fuzz: no target yet"
}

# ------------------------------------------------------------------------------------------------------------ aarch64

part_aarch64() {
    say "aarch64: format, alloc, store and fs, run by qemu-aarch64"
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
        "$CARGO" test -j2 --target "$ARM" --target-dir "$TARGET/aarch64" --locked --lib \
        -p lanefs-format -p lanefs-alloc -p lanefs-store -p lanefs
}

# ------------------------------------------------------------------------------------------------------------ planted

part_planted() {
    say "planted: nothing yet"
}

# --------------------------------------------------------------------------------------------------------------------

ran=0
failed=
for part in ${*:-miri tsan asan fuzz aarch64 planted}; do
    case $part in
        miri | tsan | asan | fuzz | aarch64 | planted) ;;
        *) say "unknown part '$part' (miri, tsan, asan, fuzz, aarch64 or planted)"; exit 2 ;;
    esac
    missing=$(lacks "$part")
    if [ -n "$missing" ]; then
        printf '%s\n' "$missing" | while read -r thing; do say "$part cannot run: missing: $thing"; done
        continue
    fi
    began=$(date +%s)
    if "part_$part"; then result=passed; else result=FAILED failed="$failed $part"; fi
    ran=$((ran + 1))
    say "$part $result in $(($(date +%s) - began)) s"
done

[ -z "$failed" ] || { say "failed:$failed"; exit 1; }
if [ "$ran" -eq 0 ] && [ "${SANITIZE_OPTIONAL:-0}" != 1 ]; then
    say "nothing could run"
    exit 1
fi
say "all that could run passed"
