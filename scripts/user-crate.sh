#!/bin/sh
# Builds and runs a program that uses LaneFS as a library, with its own newer versions of LaneFS's
# dependencies: the program of docs/rust.md, with the lines for Cargo.toml of that page.
#
#   scripts/user-crate.sh TARGET_DIR     (default: target)
#
# The program asks for exactly the versions in Cargo.lock, which are newer than the oldest ones that
# Cargo.toml allows, so that cargo needs no network. Then the script sees the check fail: with `=` before each
# version of a copy of LaneFS, cargo must find no solution.
set -u
cd "$(dirname "$0")/.." || exit 2
root=$(pwd)
target=$(mkdir -p "${1:-target}/user-crate" && cd "${1:-target}/user-crate" && pwd) || exit 2

# Dependencies of `lanefs` that the program has too.
SHARED='smallvec thiserror memchr rustix libc parking_lot'

say() { printf 'user-crate: %s\n' "$*"; }

folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT

locked() { # the newest version of a package in Cargo.lock
    sed -n "/^name = \"$1\"$/{n;s/^version = \"\(.*\)\"$/\1/p}" Cargo.lock | sort -V | tail -n 1
}

required() { # the version that LaneFS requires of a package
    sed -n "s/^$1 = .*\"[=^]*\([0-9][0-9.]*\)\".*/\1/p" Cargo.toml | head -n 1
}

# block LANGUAGE NUMBER: a block of code of the page.
block() {
    awk -v open="\`\`\`$1" -v number="$2" '
        $0 == open { seen += 1; inside = seen == number; next }
        /^```/ { inside = 0 }
        inside' docs/rust.md
}

# Writes the program to a folder; the second argument is the folder of LaneFS.
write_program() {
    mkdir -p "$1/src" || exit 2
    cp Cargo.lock "$1/Cargo.lock"
    {
        printf '[package]\nname = "user-crate"\nversion = "0.0.0"\nedition = "2024"\npublish = false\n\n[workspace]\n\n'
        block toml 1 | sed "s|\"lanefs/|\"$2/|"
        for package in $SHARED; do printf '%s = "=%s"\n' "$package" "$(locked "$package")"; done
    } >"$1/Cargo.toml"
    block rust 1 >"$1/src/main.rs"
}

# The versions must differ, or the check shows nothing.
newer=
for package in $SHARED; do
    [ "$(locked "$package")" = "$(required "$package")" ] || newer="$newer $package"
done
[ -n "$newer" ] || { say "Cargo.lock has the oldest allowed version of each of: $SHARED"; exit 1; }
say "newer than LaneFS requires:$newer"

write_program "$folder/program" "$root"
CARGO_TARGET_DIR=$target cargo run --offline --quiet --manifest-path "$folder/program/Cargo.toml" ||
    { say "a program with its own newer dependencies does not build, or fails"; exit 1; }
say "the program of docs/rust.md has run"

# The lines for the other crates resolve; the crates are built elsewhere.
write_program "$folder/others" "$root"
block toml 2 | sed "1d; s|\"lanefs/|\"$root/|" >>"$folder/others/Cargo.toml"
cargo tree --offline --quiet --manifest-path "$folder/others/Cargo.toml" --depth 1 >"$folder/tree" ||
    { say "the lines of docs/rust.md for the other crates do not resolve"; exit 1; }
for name in $(sed -n 's/^| .* | `\(lanefs[a-z-]*\)` |.*/\1/p' docs/rust.md); do
    grep -q " $name v" "$folder/tree" || { say "docs/rust.md names $name, and has no line for it"; exit 1; }
done

mkdir "$folder/pinned" && cp -R Cargo.toml crates fuzz python "$folder/pinned/" || exit 2
sed '/^\[workspace.dependencies\]/,/^$/{/path = /!s/"\([0-9]\)/"=\1/;}' Cargo.toml >"$folder/pinned/Cargo.toml"
write_program "$folder/canary" "$folder/pinned"
if output=$(cargo tree --offline --quiet --manifest-path "$folder/canary/Cargo.toml" 2>&1); then
    say "a copy of LaneFS that requires exact versions resolves as well, so this check shows nothing"
    exit 1
fi
case $output in
    *"failed to select a version"*) say "seen to fail: with exact versions cargo finds no solution" ;;
    *) say "a copy of LaneFS with exact versions fails for another reason:"; printf '%s\n' "$output"; exit 1 ;;
esac
