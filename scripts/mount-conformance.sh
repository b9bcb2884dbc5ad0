#!/bin/sh
# Runs the test suites of other projects on mounted volumes, in memory and in a file.
#
#   [SEEDS="1 2 3"] [IMAGES="mem:4G FILE"] [TRANSPORTS="dev uring"] \
#       scripts/mount-conformance.sh LANEFS TOOLS [STEPS]
#
# LANEFS is the program, TOOLS the folder to install the testers in, STEPS the steps of each fsx [default:
# 1,000,000], SEEDS the seeds of fsx, IMAGES the volumes; files among them are made again. TRANSPORTS are the
# ways of the kernel's requests; for rings the script switches the kernel's parameter on, and back at its end.
#
# * pjdfstest: every test that applies; docs/semantics.md lists the others.
# * fsx: all its operations, with several seeds, alone and two at once.
# * fio, if installed: random writes with checksums, in mixed sizes, past the kernel's cache and through it.
#
# It needs root, because pjdfstest changes users. Exit code 0: all passed, and fsck found nothing.
set -u
lanefs=$1 tools=$2 steps=${3:-1000000}
seeds=${SEEDS:-1 2 3}

say() { printf 'mount-conformance: %s\n' "$*"; }
fail() { say "FAILED: $*"; failures=$((failures + 1)); }
failures=0

[ "$(id -u)" -eq 0 ] || { say "this takes root: pjdfstest changes users"; exit 2; }
for tool in pjdfstest@0.2.2 fsx@0.3.2; do
    [ -x "$tools/bin/${tool%@*}" ] && continue
    say "installing $tool"
    cargo install --quiet --locked --root "$tools" "$tool" || exit 2
done

work=$(mktemp -d) || exit 2
# Other users must get through.
chmod 755 "$work"
mkdir "$work/one" "$work/two"
switch=/sys/module/fuse/parameters/enable_uring
before=
tidy() {
    [ -n "$before" ] && echo "$before" >"$switch"
    for dir in one two; do mountpoint -q "$work/$dir" && umount -l "$work/$dir"; done
    rm -rf "$work"
}
trap tidy EXIT
trap 'exit 130' INT TERM

cat >"$work/pjdfstest.toml" <<'TOML'
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
[settings]
# Longer than a tick of the clock that the kernel takes its times from.
naptime = 0.03
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
TOML

# All of fsx's operations, on files of its usual length: longer ones make a step more expensive and find no
# more. The kernel implements those that a file system may refuse (posix_fadvise, sendfile), so they run as
# well.
cat >"$work/fsx.toml" <<'TOML'
flen = 262144
[opsize]
# posix_fallocate of an empty range is an error everywhere, and fsx takes it for a file system without the
# call.
min = 1
max = 65536
[weights]
close_open = 1.0
invalidate = 0.3
mapread = 1.0
mapwrite = 1.0
read = 1.0
write = 1.0
truncate = 0.5
fsync = 0.05
fdatasync = 0.05
posix_fallocate = 0.5
punch_hole = 0.5
sendfile = 0.5
posix_fadvise = 0.3
copy_file_range = 0.5
TOML

# In parts with seeds of their own: fsx leaks mappings, and after some hundred thousand steps the host grants
# no more.
one_fsx() { # directory, name, seed
    part=0
    while [ $((part * 100000)) -lt "$steps" ]; do
        left=$((steps - part * 100000))
        [ "$left" -gt 100000 ] && left=100000
        "$tools/bin/fsx" -q -q -f "$work/fsx.toml" -N "$left" -S $(($3 * 1000 + part)) -P "$work" "$1/$2" >"$work/fsx-$2.log" 2>&1 || {
            fail "fsx, seed $(($3 * 1000 + part)): $(tail -n 3 "$work/fsx-$2.log" | tr '\n' ' ')"
            return 1
        }
        rm -f "$1/$2"
        part=$((part + 1))
    done
}

one_fio() { # directory, name, 1 past the cache or 0 through it
    # It leaves its state where it runs.
    (cd "$work" && fio --name="$2" --directory="$1" --rw=randwrite --bsrange=512-64k --blockalign=512 --size=64m --nrfiles=4 --ioengine=psync \
        --direct="$3" --verify=crc32c --do_verify=1 --verify_fatal=1 --randseed=7 --end_fsync=1) >"$work/fio-$2.log" 2>&1 ||
        { fail "fio, $2: $(tail -n 3 "$work/fio-$2.log" | tr '\n' ' ')"; return 1; }
}

all_tests() { # image, transport
    image=$1 transport=$2
    case $image in mem:*) kind="in memory" ;; *) kind="in a file"; "$lanefs" mkfs -q --force "$image" --size 4G || exit 1 ;; esac
    kind="$kind, requests by $transport"
    "$lanefs" mount -q -o "transport=$transport" "$image" "$work/one" || exit 1
    "$lanefs" mount -q -o "transport=$transport" mem:256M "$work/two" || exit 1
    say "pjdfstest, a volume $kind"
    if ! "$tools/bin/pjdfstest" -c "$work/pjdfstest.toml" -p "$work/one" -s "$work/two" >"$work/pjdfstest.log" 2>&1; then
        fail "pjdfstest: $(grep -A1 FAILED "$work/pjdfstest.log" | tr '\n' ' ')"
    fi
    tail -n 1 "$work/pjdfstest.log"
    for seed in $seeds; do
        say "fsx, a volume $kind, seed $seed, $steps steps"
        one_fsx "$work/one" "alone-$seed" "$seed"
    done
    say "fsx, a volume $kind, two at once"
    one_fsx "$work/one" left 4 &
    other=$!
    one_fsx "$work/one" right 5
    wait "$other" || failures=$((failures + 1))
    if command -v fio >/dev/null; then
        say "fio, a volume $kind"
        one_fio "$work/one" buffered 0
        one_fio "$work/one" direct 1
    else
        say "no fio: what it would check is left out"
    fi
    for dir in one two; do "$lanefs" umount "$work/$dir" || fail "umount"; done
    case $image in mem:*) ;; *) "$lanefs" fsck "$image" || fail "fsck" ;; esac
}

# True where the kernel has this transport.
has() {
    [ "$1" = uring ] || return 0
    [ -w "$switch" ] || { say "not tried: rings, which Linux has from 6.14 on: no $switch"; return 1; }
    [ -n "$before" ] || before=$(cat "$switch")
    echo Y >"$switch"
    "$lanefs" mount -q -o transport=uring mem:16M "$work/one" 2>"$work/rings.log" ||
        { say "not tried: rings: $(cat "$work/rings.log")"; return 1; }
    "$lanefs" umount "$work/one"
}

for transport in ${TRANSPORTS:-dev uring}; do
    has "$transport" || continue
    for image in ${IMAGES:-mem:4G "$work/volume.lane"}; do
        all_tests "$image" "$transport"
    done
done
[ "$failures" -eq 0 ] || { say "$failures failed"; exit 1; }
say "all passed"
