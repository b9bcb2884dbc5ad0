#!/bin/sh
# Measures what docs/gpu.md says of a device, on a machine that is lent for minutes: the programs of this
# commit beside those of another one, in one run. It needs no compiler.
#
#   [SECONDS_LEFT=480] [FILES=N] [PATHS=N] [RUNS=N] scripts/gpu-device.sh NEW [BASE]
#
# NEW and BASE are folders with the built programs `lanefs` and `lanefs-bench`, and with `host_side`, the
# example of crates/gpu, if it is wanted. A part that does not fit into the time that is left is named and
# left out, so the run ends in time; the parts come in the order of their weight. Reports of lanefs-bench stay
# in the folder OUT [default: gpu-device]. Uploads beside kernels (docs/gpu.md) have no switch: to compare
# them, BASE is a commit without them. Small sizes, for a try on llvmpipe: FILES=2000 PATHS=2000 RUNS=1.
set -u

[ $# -ge 1 ] || { echo "usage: $0 NEW [BASE]" >&2; exit 2; }
for folder in "$@"; do
    for program in lanefs lanefs-bench; do
        [ -x "$folder/$program" ] || { echo "$0: $folder has no $program" >&2; exit 2; }
    done
done
files=${FILES:-1000000} paths=${PATHS:-4000000} runs=${RUNS:-3} out=${OUT:-gpu-device}
start=$(date +%s) budget=${SECONDS_LEFT:-480}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" || exit 1

left() { echo $((budget - $(date +%s) + start)); }

# Runs a part, unless fewer seconds are left than it may take: part SECONDS NAME COMMAND...
part() {
    may_take=$1 name=$2
    shift 2
    if [ "$(left)" -lt "$may_take" ]; then
        echo "-- $name: left out, $(left) s are left and it may take $may_take" >&2
        return 1
    fi
    timeout "$may_take" "$@" || { echo "-- $name: failed or took longer than $may_take s ($?)" >&2; return 1; }
}

# Milliseconds of a command, the median of the runs: timed NAME COMMAND...
timed() {
    name=$1
    shift
    run=0
    : >"$work/times"
    while [ "$run" -lt "$runs" ]; do
        begun=$(date +%s%N)
        timeout 60 "$@" >/dev/null 2>"$work/err" || { echo "-- $name: $(tail -n 1 "$work/err")"; return; }
        echo $((($(date +%s%N) - begun) / 1000)) >>"$work/times"
        run=$((run + 1))
    done
    sort -n "$work/times" | awk -v name="$name" '{ us[NR] = $1 }
        END { printf "%-58s %10.1f ms\n", name, us[int((NR + 1) / 2)] / 1000 }'
}

echo "== opening: each start of a process; the first one has an empty cache"
for folder in "$@"; do
    export XDG_CACHE_HOME="$work/cache-$(echo "$folder" | tr / _)"
    mkdir -m 700 -p "$XDG_CACHE_HOME"
    RUNS_KEPT=$runs runs=1
    timed "$folder: gpu check, first" "$folder/lanefs" gpu check
    runs=$RUNS_KEPT
    timed "$folder: gpu list" "$folder/lanefs" gpu list
    timed "$folder: gpu check" "$folder/lanefs" gpu check
done

echo "== whole commands, by engine"
few=$((files < 200000 ? files : 200000))
mkdir -p "$work/tree" && awk -v n="$few" 'BEGIN { for (i = 0; i < n; i++)
    printf "/tree/a%d/b%d/c/file_%06d.txt\n", i % 10, i % 200, i }' >"$work/all"
sed 's,/[^/]*$,,' "$work/all" | sort -u | (cd "$work/tree" && sed 's,^/,,' | xargs mkdir -p)
(cd "$work/tree" && sed 's,^/,,' "$work/all" | xargs touch)
"$1/lanefs" mkfs "$work/v.lane" --size 2G >/dev/null && "$1/lanefs" import "$work/v.lane" "$work/tree/tree" /tree \
    >/dev/null 2>&1 || echo "-- the import failed"
head -n 1 "$work/all" >"$work/1" && head -n 1000 "$work/all" >"$work/1000"
for i in 1 2 3 4 5; do cat "$work/all"; done >"$work/many"
for folder in "$@"; do
    export XDG_CACHE_HOME="$work/cache-$(echo "$folder" | tr / _)"
    for count in 1 1000 many; do
        for engine in cpu auto gpu; do
            [ "$(left)" -gt 60 ] || { echo "-- $folder, $count paths, $engine: left out"; continue; }
            timed "$folder: lookup of $(wc -l <"$work/$count") paths, $engine" \
                "$folder/lanefs" lookup "$work/v.lane" --engine "$engine" --paths "$work/$count"
        done
    done
    for engine in cpu gpu; do
        [ "$(left)" -gt 60 ] || { echo "-- $folder, find, $engine: left out"; continue; }
        timed "$folder: find --name, $engine" "$folder/lanefs" find "$work/v.lane" --engine "$engine" --name '*99.txt'
        timed "$folder: find --fuzzy, $engine" "$folder/lanefs" find "$work/v.lane" --engine "$engine" --fuzzy f99
    done
done

echo "== rows of lanefs-bench gpu"
number=0
for folder in "$@"; do
    number=$((number + 1))
    export XDG_CACHE_HOME="$work/cache-$(echo "$folder" | tr / _)"
    part 150 "$folder: paths and columns" "$folder/lanefs-bench" gpu --files "$files" --paths "$paths" --runs "$runs" \
        --columns exists,ino,attrs --json "$out/columns-$number.json" >/dev/null
    part 100 "$folder: other rows" "$folder/lanefs-bench" gpu --quick --files "$few" --runs "$runs" \
        --rows '{gpu-latency-*,gpu-find,gpu-fuzzy,gpu-dups,gpu-chain-create}' \
        --json "$out/others-$number.json" >/dev/null
done
part 120 "$1: auto" "$1/lanefs-bench" gpu --quick --files "$few" --runs "$runs" --rows 'gpu-auto-*' \
    --json "$out/auto-1.json" >/dev/null
python3 - "$out" "$@" <<'PYTHON' || echo "-- no table: python3 is missing"
import json, pathlib, sys
out, folders = pathlib.Path(sys.argv[1]), sys.argv[2:]
values, units = {}, {}
for report in sorted(out.glob("*-[12].json")):
    number = int(report.stem[-1])
    for row in json.loads(report.read_text() or '{"rows": []}')["rows"]:
        own = {f"{number} lanefs": row["lanefs"]} | {f"{number} {name}": peer for name, peer in row["peers"].items()}
        values.setdefault(row["name"], {}).update({name: value["median"] for name, value in own.items()})
        units[row["name"]] = row["unit"]
for number, folder in enumerate(folders, 1):
    print(f"{number}: {folder}")
for name, all_of in values.items():
    cells = ", ".join(f"{which} {value:.4g}" for which, value in sorted(all_of.items()))
    print(f"{name:<22} {units[name]:<12} {cells}")
PYTHON

if [ -x "$1/host_side" ]; then
    echo "== the host's part, on a device that does nothing"
    part 60 "$1: host_side" "$1/host_side"
fi
echo "== done after $(($(date +%s) - start)) s"
