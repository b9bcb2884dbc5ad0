#!/bin/sh
# Packages every crate that is published, and builds each from its package alone.
#
#   scripts/package.sh TARGET_DIR     (default: target)
#
# `cargo package` would build all of them with their dependencies once more. `cargo check` of the unpacked
# packages takes the dependencies as the lints have checked them, and each package has only the features that
# it asks for. Nothing is fetched: cargo has what Cargo.lock names by now.
set -u
cd "$(dirname "$0")/.." || exit 2
: "${CARGO:=cargo}"
target=$(mkdir -p "${1:-target}" && cd "${1:-target}" && pwd) || exit 2

say() { printf 'package: %s\n' "$*"; }

# A folder of its own, always the same, or each run would leave what it built.
folder=$target/packages
rm -rf "$folder" && mkdir "$folder" || exit 2

# Published crates; the others have `publish = false`.
names=$(grep -L '^publish = false' crates/*/Cargo.toml python/Cargo.toml | xargs sed -n 's/^name = "\(lanefs[^"]*\)"$/\1/p' | sort -u)

# Everything packs, as `cargo package` does it without options, what is not published too; the fuzz targets do
# not, because they need the test tools.
"$CARGO" package --workspace --exclude lanefs-fuzz --locked --offline --no-verify --allow-dirty --quiet --target-dir "$target" 2>"$folder/log" ||
    { cat "$folder/log"; say "cargo package fails"; exit 1; }

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
{
    printf '[workspace]\nresolver = "3"\nmembers = ["*"]\n\n[patch.crates-io]\n'
    for name in $names; do printf '%s = { path = "%s" }\n' "$name" "$name"; done
    # The profile of the lints with that of each dependency, or their results for dependencies do not count.
    printf '\n'
    awk '/^\[/ { is_dev = /^\[profile\.dev[].]/ } is_dev && !/^#/' Cargo.toml
} >"$folder/Cargo.toml"
cp Cargo.lock "$folder/Cargo.lock"
for name in $names; do
    # Without the times in the archive, which are always the same: cargo would take what it built before.
    tar -xmf "$target/package/$name-$version.crate" -C "$folder" || exit 1
    mv "$folder/$name-$version" "$folder/$name" || exit 1
    for file in README.md LICENSE-MIT LICENSE-APACHE; do
        [ -s "$folder/$name/$file" ] || { say "$name has no $file"; exit 1; }
    done
done
for name in $names; do
    (cd "$folder" && "$CARGO" check --quiet --offline --target-dir "$target" -p "$name") ||
        { say "$name does not build from its package"; exit 1; }
done
say "packed and built each from its package:" $names
