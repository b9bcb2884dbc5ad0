#!/bin/sh
# Checks docs/device.md on a machine with an NVIDIA GPU that is lent for minutes: tensors, loader, lookups and
# reads by a kernel, each beside the host's own bytes, with rates. It takes six minutes at most.
#
#   [SECONDS_LEFT=360] [FILES=N] [PYTHON=FILE] scripts/device-door.sh PROGRAMS
#
# PROGRAMS is a folder with the built program `export_to`, an example of crates/gpu. PYTHON has the packages
# lanefs, numpy and torch. A part that does not fit, or lacks something, is named and left out.
set -u

[ $# -eq 1 ] && [ -d "$1" ] || { echo "usage: $0 PROGRAMS" >&2; exit 2; }
programs=$(cd "$1" && pwd) here=$(cd "$(dirname "$0")/.." && pwd) || exit 2
python=${PYTHON:-python3} files=${FILES:-200000} budget=${SECONDS_LEFT:-360} start=$(date +%s) failed=0
work=$(mktemp -d -p "${TMPDIR:-/dev/shm}") || exit 1
trap 'rm -rf "$work"' EXIT
door=$here/scripts/device_door.py

left() { echo $((budget - $(date +%s) + start)); }

# Runs a part, unless fewer seconds are left than it may take: part SECONDS NAME COMMAND...
part() {
    may_take=$1 name=$2
    shift 2
    if [ "$(left)" -lt "$may_take" ]; then
        echo "-- $name: left out, $(left) s are left and it may take $may_take"
        return
    fi
    echo "== $name"
    timeout "$may_take" "$@" || { echo "-- $name: failed or took longer than $may_take s ($?)"; failed=1; }
}

part 60 "a volume of $files files" "$python" "$door" make "$work" "$files"
part 60 "tensors beside the host's bytes, and rates" "$python" "$door" tensors "$work" "$files"
part 60 "a kernel that Python launches, by addresses" "$python" "$door" kernels "$work" "$files"
part 90 "DeviceLoader beside DataLoader and .cuda()" "$python" "$door" loader "$work" "$files"
compiler=$(command -v nvcc || command -v hipcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
if [ -z "$compiler" ]; then
    echo "-- the example: left out, neither nvcc nor hipcc is here"
elif [ ! -x "$programs/export_to" ]; then
    echo "-- the example: left out, $programs has no export_to"
else
    case $compiler in *hipcc) language="-x hip" ;; *) language=-arch=native ;; esac
    # shellcheck disable=SC2086
    part 60 "the example is compiled by $compiler" "$compiler" -std=c++17 -O3 $language \
        -I "$here/crates/gpu/include" -o "$work/cuda_grep" "$here/crates/gpu/examples/cuda_grep.cu"
    part 60 "the example beside the host's search" "$programs/export_to" "$work/door.lane" "$work/paths" lane \
        "$work/cuda_grep"
fi
echo "== $(left) of $budget s are left"
exit $failed
