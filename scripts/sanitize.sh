#!/bin/sh
# Runs the tests under tools that see undefined behaviour, and fuzzes what reads foreign bytes.
#
#   scripts/sanitize.sh [miri] [tsan] [asan] [fuzz] [aarch64] [planted]     (default: all of them)
#
# A part whose tools are missing is named with what is missing, and the others go on. The exit code is 0 when
# every part that could run passed, and at least one could. With SANITIZE_OPTIONAL=1 (as in `.ci/run`) none
# has to. FUZZ_SECONDS bounds each fuzz target [default: 15]; SCHEDULES is how many schedules of threads Miri
# tries [default: 4]. SANITIZE_SECONDS bounds all parts together [default: 0, no limit]: a part that it cuts
# off is named, and is not a failure.
set -u
cd "$(dirname "$0")/.." || exit 1

: "${CARGO:=cargo}"
: "${FUZZ_SECONDS:=15}"
: "${SANITIZE_SECONDS:=0}"
: "${SCHEDULES:=4}"
HOST=x86_64-unknown-linux-gnu
ARM=aarch64-unknown-linux-gnu
TARGET=${CARGO_TARGET_DIR:-target}
export CARGO_INCREMENTAL=0
unset RUSTFLAGS MIRIFLAGS

say() { printf '==> sanitize: %s\n' "$*"; }
nightly() { "$CARGO" +nightly "$@"; }

# ---- what a part needs

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

# ---- Miri

# The heap reads the header and the bitmap of a slab through one pointer, which Tree Borrows allows and
# Stacked Borrows does not; it keeps addresses as numbers, and never unmaps what it has.
HEAP="-Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-ignore-leaks"

# Files, clocks and random numbers of the host.
FILES="-Zmiri-disable-isolation -Zmiri-permissive-provenance"

# miri FLAGS ARGUMENT...: tests under Miri with these of its flags.
miri() {
    flags=$1
    shift
    say "miri: $*"
    MIRIFLAGS=$flags nightly miri test --locked --target-dir "$TARGET/miri" "$@"
}

# Tests of memory, threads and directories that are small enough. Miri tries SCHEDULES schedules of the
# threads of some.
part_miri() {
    miri "" -p lanefs-format --lib &&
        miri "$HEAP" -p lanefs-alloc --lib -- policy bitmap ring &&
        miri "$HEAP" -p lanefs-alloc --test random &&
        miri "$FILES" -p lanefs-store --lib -- races pinned_blocks words buffer pending aligned &&
        miri "$FILES" -p lanefs --test it -- threads:: &&
        miri "$FILES -Zmiri-many-seeds=0..$SCHEDULES" -p lanefs --test it -- threads::a_reader threads::threads_in_a_small
}

# ---- ThreadSanitizer, ASan

# Tests ask for more memory than there is, and expect an error as from the host's allocator.
ALLOCATOR=allocator_may_return_null=1

# ThreadSanitizer needs a standard library that is built with it. It does not see what assembly does, so a
# copy in Rust takes the place of the store's.
tsan() {
    say "tsan: $*"
    TSAN_OPTIONS=$ALLOCATOR RUSTFLAGS="-Zsanitizer=thread --cfg lanefs_no_asm" \
        nightly test -j2 -Zbuild-std --target "$HOST" --target-dir "$TARGET/tsan" --locked "$@"
}

# Leaks are not looked for: drivers of Vulkan keep memory until the process ends.
asan() {
    say "asan: $*"
    ASAN_OPTIONS=detect_leaks=0:$ALLOCATOR RUSTFLAGS="-Zsanitizer=address" \
        nightly test -j2 --target "$HOST" --target-dir "$TARGET/asan" --locked "$@"
}

part_tsan() {
    tsan -p lanefs-store --lib -- --skip journal &&
        tsan -p lanefs --lib &&
        tsan -p lanefs --test it -- threads:: hold:: behind:: copy:: notice:: &&
        LANEFS_HISTORIES=200 LANEFS_CROWDS=1 LANEFS_WAVES=20 \
            tsan -p lanefs-testkit --test it -- linearizable::histories linearizable::waves
}

part_asan() {
    asan -p lanefs --lib &&
        asan -p lanefs --test it -- threads:: posix:: copy:: prealloc:: volume:: &&
        asan -p lanefs-gpu --lib &&
        asan -p lanefs-gpu --test it -- lookup:: list:: find:: changes:: &&
        asan -p lanefs-serve -p lanefs-fuse --lib &&
        asan -p lanefs-fuse --test it -- posix:: coherence::
}

# ---- fuzzing

TARGETS="image journal archive words control answers publication"

# Kept inputs first, then new ones for FUZZ_SECONDS. New inputs stay below the target folder.
part_fuzz() {
    # Most of a short run is its build, so that is of little optimised code; a long one is worth more.
    profile=--dev
    [ "$FUZZ_SECONDS" -lt 60 ] || profile=--release
    nightly fuzz build $profile --features libfuzzer --target-dir "$TARGET/fuzz" || return
    for target in $TARGETS; do
        say "fuzz: $target, $FUZZ_SECONDS s"
        mkdir -p "$TARGET/fuzz-corpus/$target"
        nightly fuzz run $profile --features libfuzzer --target-dir "$TARGET/fuzz" "$target" "$TARGET/fuzz-corpus/$target" "fuzz/corpus/$target" -- \
            -max_total_time="$FUZZ_SECONDS" -max_len=4096 -timeout=20 -rss_limit_mb=4096 -print_final_stats=0 \
            >"$TARGET/fuzz-$target.log" 2>&1 || { tail -n 40 "$TARGET/fuzz-$target.log"; return 1; }
        grep -E '^Done|DONE' "$TARGET/fuzz-$target.log" | tail -n 1
    done
}

# ---- aarch64

part_aarch64() {
    say "aarch64: format, alloc, store and fs, run by qemu-aarch64"
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
        "$CARGO" test -j2 --target "$ARM" --target-dir "$TARGET/aarch64" --locked --lib \
        -p lanefs-format -p lanefs-alloc -p lanefs-store -p lanefs
}

# ---- planted

# finds TEXT COMMAND...: the command must fail, and say so with this text. A race is seen where threads
# overlap, which is up to the scheduler, so the command has several tries.
finds() {
    text=$1
    shift
    log=$TARGET/planted.log
    tries=30
    while "$@" >"$log" 2>&1; do
        tries=$((tries - 1))
        if [ "$tries" -eq 0 ]; then
            say "planted: NOT FOUND by: $*"
            return 1
        fi
    done
    if ! grep -q "$text" "$log"; then
        tail -n 30 "$log"
        say "planted: failed for another reason than '$text': $*"
        return 1
    fi
    say "planted: found '$text' by: $*"
}

# with_fault FAULT TOOL...: tests of threads by a tool, with undefined behaviour in the store. The flag is for
# the store alone, so its dependencies are not built once more.
with_fault() {
    fault=$1
    shift
    "$@" -Zprofile-rustflags --config "profile.dev.package.lanefs-store.rustflags = ['--cfg=lanefs_planted=\"$fault\"']" \
        -p lanefs --test it -- threads::a_reader_of_a_file
}

# Each tool is seen to fail: constants that contradict each other, and, in the store, a race, an access out of
# bounds and an aliasing violation.
part_planted() {
    sh scripts/planted-constants.sh "$TARGET" || return
    finds "WARNING: ThreadSanitizer: data race" with_fault race tsan &&
        finds "ERROR: AddressSanitizer: heap-buffer-overflow" with_fault overrun asan &&
        finds "Undefined Behavior: Data race" with_fault race miri "$FILES" &&
        finds "Undefined Behavior: memory access failed" with_fault overrun miri "$FILES" &&
        finds "Undefined Behavior: .*borrow stack" with_fault alias miri "$FILES"
}

# ----

# run_part PART: runs a part, in the time that is left where SANITIZE_SECONDS sets a limit. The exit code is
# 124 where the time ends before the part does.
run_part() {
    if [ "$SANITIZE_SECONDS" -eq 0 ]; then
        "part_$1"
        return
    fi
    left=$((SANITIZE_SECONDS - $(date +%s) + start))
    [ "$left" -ge 60 ] || return 124
    timeout --kill-after=30 "$left" env SANITIZE_SECONDS=0 SANITIZE_INNER=1 sh scripts/sanitize.sh "$1"
}

# lane PART...: runs parts one after another. The output of each is printed when it ends, and a line about it
# goes to $results.
lane() {
    for part in "$@"; do
        missing=$(lacks "$part")
        if [ -n "$missing" ]; then
            printf '%s\n' "$missing" | while read -r thing; do say "$part cannot run: missing: $thing"; done
            echo "$part MISSING" >>"$results"
            continue
        fi
        began=$(date +%s)
        say "$part begins"
        run_part "$part" >"$TARGET/sanitize-$part.log" 2>&1
        case $?:$SANITIZE_SECONDS in
            0:*) result=passed ;;
            124:0 | 137:0) result=FAILED ;;
            124:* | 137:*) result="NOT FINISHED (make sanitize PARTS=$part)" ;;
            *) result=FAILED ;;
        esac
        flock "$results" cat "$TARGET/sanitize-$part.log"
        say "$part $result in $(($(date +%s) - began)) s"
        echo "$part $result" >>"$results"
    done
}

# Prints the parts whose line in $results begins with this result.
with_result() {
    sed -n "s/^\([a-z0-9]*\) $1.*/ \1/p" "$results" | tr -d '\n'
}

for part in "$@"; do
    case $part in
        miri | tsan | asan | fuzz | aarch64 | planted) ;;
        *) say "unknown part '$part' (miri, tsan, asan, fuzz, aarch64 or planted)"; exit 2 ;;
    esac
done
# A part within a time limit: its output is the limit's to collect.
if [ "${SANITIZE_INNER:-0}" = 1 ]; then
    "part_$1"
    exit
fi

# The first lane, which another process of this script has started.
if [ -n "${SANITIZE_RESULTS:-}" ]; then
    results=$SANITIZE_RESULTS
    start=$SANITIZE_START
    lane "$@"
    exit 0
fi

# Each part uses one processor for a good part of its time, so two lanes of parts take a third less. Where
# parts of both build in one folder, cargo lets one wait.
start=$(date +%s)
mkdir -p "$TARGET"
results=$(mktemp) || exit 2
trap 'rm -f "$results"' EXIT
wanted=${*:-miri tsan planted asan fuzz aarch64}
first=
second=
for part in miri fuzz; do case " $wanted " in *" $part "*) first="$first $part" ;; esac; done
for part in tsan asan planted aarch64; do case " $wanted " in *" $part "*) second="$second $part" ;; esac; done
# Both lanes may need Miri's standard library, which is built once.
case " $wanted " in
    *" miri "* | *" planted "*) [ -n "$(lacks miri)" ] || nightly miri setup >/dev/null 2>&1 || : ;;
esac
# The first lane is a process group of its own, so that a signal which ends this script can end all of it.
# Words are split on purpose.
# shellcheck disable=SC2086
[ -z "$first" ] || SANITIZE_RESULTS=$results SANITIZE_START=$start setsid sh scripts/sanitize.sh $first &
other=$!
trap 'kill -TERM -- "-$other" 2>/dev/null; exit 130' INT TERM HUP
# shellcheck disable=SC2086
lane $second
wait "$other"
ended=$?

failed=$(with_result FAILED)
unfinished=$(with_result "NOT FINISHED")
passed=$(with_result passed)
# A lane that was killed leaves parts without a result.
for part in $wanted; do
    grep -q "^$part " "$results" || failed="$failed $part"
done
[ -z "$failed" ] && [ "$ended" -eq 0 ] || { say "failed:$failed"; exit 1; }
if [ -z "$passed$unfinished" ] && [ "${SANITIZE_OPTIONAL:-0}" != 1 ]; then
    say "nothing could run"
    exit 1
fi
[ -z "$unfinished" ] || say "SANITIZE_SECONDS=$SANITIZE_SECONDS ended before:$unfinished"
say "all that finished passed, in $(($(date +%s) - start)) s"
