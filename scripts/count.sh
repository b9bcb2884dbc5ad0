#!/bin/sh
# Counts the instructions of the engine's main operations with callgrind, phase by phase: 20,000 small files,
# 2,000 files of 10 KB.
#
#   [PHASES="..."] scripts/count.sh PROGRAM [OTHER]
#
# PROGRAM is the built example `count` of crates/fs, or, with PHASES that it has, another one whose phases are
# functions `count_PHASE`. Functions `left_out_*` that a phase calls are not counted; the variable PHASE says
# which phase it is. OTHER is the same example of another commit: two more columns show its counts and the
# ratio. Counts repeat within 0.1 % on any machine and under any load, so they compare commits where times are
# noise.
set -u

[ $# -ge 1 ] || { echo "usage: $0 PROGRAM [OTHER]" >&2; exit 2; }
command -v valgrind >/dev/null 2>&1 || { echo "$0: valgrind is missing: apt-get install valgrind" >&2; exit 1; }
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

# Instructions of one phase of a program.
count() {
    PHASE="$2" valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect="*count_$2*" \
        --toggle-collect="*left_out_*" "$1" 2>"$log" >&2 ||
        { cat "$log" >&2; echo "$0: $1 failed" >&2; exit 1; }
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$log"
}

for phase in ${PHASES:-create resolve lookup read blocks reread many together large unlink}; do
    here=$(count "$1" "$phase") || exit 1
    if [ $# -ge 2 ]; then
        there=$(count "$2" "$phase") || exit 1
        awk -v n="$phase" -v a="$here" -v b="$there" 'BEGIN { printf "%-15s %12d %12d %7.4f\n", n, a, b, a / b }'
    else
        printf '%-15s %12d\n' "$phase" "$here"
    fi
done
