#!/bin/sh
# One task of a Slurm array: makes a volume of one directory, and publishes it as the shard of a join.
#
#   FAMILY=photos sbatch --array=1-1000 scripts/slurm-shard.sh DIRECTORIES URL RECEIPTS
#   lanefs join URL RECEIPTS/*.json        # when all tasks have ended
#
# DIRECTORIES is a file with one absolute path a line: the task with number N takes line N, and the join has
# the directory at the same path. RECEIPTS is a directory on a file system that all tasks share. FAMILY is the
# name of the family of all shards, SIZE the size of each volume [default: 64G], of which a file on the local
# disk takes what the content needs. A task that is killed, or runs twice, may run again: it writes the same
# objects, or those of another version, of which the last receipt counts.
set -eu
if [ $# -ne 3 ] || [ -z "${FAMILY:-}" ] || [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
directories=$1 url=$2 receipts=$3
source=$(sed -n "${SLURM_ARRAY_TASK_ID}p" "$directories")
refuse() {
    echo "$0: line $SLURM_ARRAY_TASK_ID of $directories: $1" >&2
    exit 2
}
case $source in
'') refuse "there is no directory" ;;
*/) refuse "$source ends with /" ;;
/*) [ -d "$source" ] || refuse "$source is not a directory" ;;
*) refuse "$source is not an absolute path" ;;
esac
work=$(mktemp -d "${TMPDIR:-/tmp}/lanefs-shard.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 143' HUP INT TERM
lanefs mkfs "$work/shard.lane" --quiet --size "${SIZE:-64G}" --family "$FAMILY"
lanefs import "$work/shard.lane" "$source" /
lanefs publish "$work/shard.lane" "$url" --prefix "$source" --receipt "$receipts/$SLURM_ARRAY_TASK_ID.json"
