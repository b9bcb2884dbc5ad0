#!/bin/sh
# Builds the packages that people install without a toolchain, in TARGET_DIR/dist.
#
#   scripts/dist.sh TARGET_DIR [programs] [debs] [wheels] [parts]     (default: target, and all of them)
#
#   programs  lanefs-VERSION-MACHINE-linux-static, which needs no library, and
#             lanefs-VERSION-MACHINE-linux-gnu, which can load Vulkan and needs glibc 2.28 or later
#   debs      for Debian and its relatives: the latter program, pages, completions, helpers of mount(8) and
#             the malloc library
#   wheels    of the Python package, with the same program; abi3, and of Python 3.14 without a lock; the sdist
#   parts     the list of all crates in it (CycloneDX)
#
# MACHINES names the processors [default: "x86_64 aarch64"]. Zig's C compiler links for both, and for the
# oldest glibc, on either. Each call that succeeds ends with SHA256SUMS of all that is in the folder.
set -u
cd "$(dirname "$0")/.." || exit 2
: "${CARGO:=cargo}"
: "${MACHINES:=x86_64 aarch64}"
target=$(mkdir -p "${1:-target}" && cd "${1:-target}" && pwd) || exit 2
[ $# -eq 0 ] || shift
dist=$target/dist
tools=$target/dist-tools
GLIBC=2.28
export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR="$target"

say() { printf '==> dist: %s\n' "$*"; }
fail() { say "$*"; exit 1; }

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
# The time in packages is that of the last commit, so that the same tree gives the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) || SOURCE_DATE_EPOCH=$(stat -c %Y CHANGELOG.md)
export SOURCE_DATE_EPOCH
umask 022

# Panics and C's assertions name source files: by names that do not depend on the machine that builds.
cargo_home=$(cd "${CARGO_HOME:-$HOME/.cargo}" 2>/dev/null && pwd) || cargo_home=$HOME/.cargo
# remap OPTION SEPARATOR
remap() {
    printf '%s=%s=%s' "$1" "$cargo_home" "/cargo$2" "$1" "$target" "/target$2" "$1" "$PWD" /lanefs
}
CARGO_ENCODED_RUSTFLAGS=$(remap --remap-path-prefix "$(printf '\037')")
CFLAGS="${CFLAGS:-} $(remap -ffile-prefix-map ' ')"
export CARGO_ENCODED_RUSTFLAGS CFLAGS

# The requirements are kept in the environment, so that a run with the same ones needs no network.
install_tools() {
    cmp -s packaging/requirements.txt "$tools/requirements.txt" && return
    say "tools of packaging/requirements.txt, in $tools"
    rm -rf "$tools"
    "${PYTHON:-python3}" -m venv "$tools" || fail "no virtual environment: scripts/setup.sh installs python3-venv"
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check -r packaging/requirements.txt ||
        fail "the tools of packaging/requirements.txt cannot be installed from PyPI"
    cp packaging/requirements.txt "$tools/requirements.txt"
}

# zig_build TRIPLE ARGUMENT...
zig_build() {
    say "build for $*"
    triple=$1
    shift
    "$CARGO" zigbuild --quiet --profile ship --locked --target "$triple" "$@" || fail "$triple does not build"
}

program() { printf '%s/lanefs-%s-%s-linux-%s' "$dist" "$version" "$1" "$2"; }

# The static program of this machine, which writes its own pages and completions.
own_program() { program "$(uname -m)" static; }

# ---- programs

part_programs() {
    for machine in $MACHINES; do
        zig_build "$machine-unknown-linux-musl" -p lanefs-cli --bin lanefs
        install -m 755 "$target/$machine-unknown-linux-musl/ship/lanefs" "$(program "$machine" static)" || exit 1
        zig_build "$machine-unknown-linux-gnu.$GLIBC" -p lanefs-cli -p lanefs-alloc-c
        install -m 755 "$target/$machine-unknown-linux-gnu/ship/lanefs" "$(program "$machine" gnu)" || exit 1
    done
}

# ---- debs

# control ARCHITECTURE KILOBYTES
control() {
    cat <<CONTROL
Package: lanefs
Version: $version
Architecture: $1
Maintainer: The LaneFS authors <lanefs@localhost>
Installed-Size: $2
Section: admin
Priority: optional
Depends: libc6 (>= $GLIBC)
Recommends: fuse3
Suggests: libvulkan1
Description: file system for trees of millions of small files, in one file
 LaneFS answers whole batches of paths at once. A volume is a file, a device
 or a block of memory, and is used by commands, by libraries, or through a
 mount (FUSE, for which fuse3 is needed). Its GPU engine needs libvulkan1 and
 a driver.
CONTROL
}

# deb MACHINE ARCHITECTURE
deb() {
    root=$target/deb/$2
    rm -rf "$root"
    doc=$root/usr/share/doc/lanefs
    libraries=$root/usr/lib/$1-linux-gnu
    mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/usr/sbin" "$root/usr/share/man" "$doc" "$libraries" \
        "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" \
        "$root/usr/share/fish/vendor_completions.d" || exit 1
    install -m 755 "$(program "$1" gnu)" "$root/usr/bin/lanefs" &&
        install -m 644 "$target/$1-unknown-linux-gnu/ship/liblanefs_alloc.so" "$libraries/" || exit 1
    for name in mount.fuse.lanefs umount.fuse.lanefs mount.lanefs umount.lanefs; do
        ln -s ../bin/lanefs "$root/usr/sbin/$name" || exit 1
    done
    "$(own_program)" man "$root/usr/share/man/man1" && gzip -9n "$root"/usr/share/man/man1/* || exit 1
    "$(own_program)" completions bash >"$root/usr/share/bash-completion/completions/lanefs" &&
        "$(own_program)" completions zsh >"$root/usr/share/zsh/vendor-completions/_lanefs" &&
        "$(own_program)" completions fish >"$root/usr/share/fish/vendor_completions.d/lanefs.fish" || exit 1
    gzip -9nc CHANGELOG.md >"$doc/changelog.gz" && cat LICENSE-MIT LICENSE-APACHE >"$doc/copyright" || exit 1
    control "$2" "$(du -sk "$root" | cut -f 1)" >"$root/DEBIAN/control" || exit 1
    dpkg-deb --root-owner-group -Zxz --build "$root" "$dist/lanefs_${version}_$2.deb" >/dev/null ||
        fail "dpkg-deb fails"
}

part_debs() {
    command -v dpkg-deb >/dev/null || fail "no dpkg-deb: package dpkg"
    for machine in $MACHINES; do
        case $machine in
            x86_64) deb "$machine" amd64 ;;
            aarch64) deb "$machine" arm64 ;;
        esac
    done
}

# ---- wheels

# wheel MACHINE PYTHON: a wheel that installs the program as well.
wheel() {
    say "wheel for $1, $2"
    made=$target/ship-wheels/made
    rm -rf "$made"
    # Maturin has a linker of its own, so in one folder the programs and the wheels would rebuild each other.
    CARGO_TARGET_DIR=$target/ship-wheels "$tools/bin/maturin" build --quiet --locked --manifest-path python/Cargo.toml --profile ship --zig \
        --target "$1-unknown-linux-gnu" --compatibility "manylinux_$(echo $GLIBC | tr . _)" \
        --interpreter "$2" --out "$made" || fail "no wheel for $1, $2"
    "$tools/bin/wheel" unpack --dest "$made" "$made"/*.whl >/dev/null &&
        install -D -m 755 "$(program "$1" gnu)" "$made/lanefs-$version/lanefs-$version.data/scripts/lanefs" &&
        "$tools/bin/wheel" pack --dest-dir "$dist" "$made/lanefs-$version" >/dev/null || exit 1
}

part_wheels() {
    # abi3 and maturin's own tables need no interpreter. There is no abi3 of Pythons without a lock.
    for machine in $MACHINES; do
        rm -f "$dist"/lanefs-*_"$machine".whl
        wheel "$machine" python3.10
        wheel "$machine" python3.14t
    done
    "$tools/bin/maturin" sdist --manifest-path python/Cargo.toml --out "$dist" 2>"$target/sdist.log" ||
        { cat "$target/sdist.log"; fail "no sdist"; }
}

# ---- parts

part_parts() {
    "$tools/bin/python" scripts/parts.py "$version" >"$dist/lanefs-$version.cdx.json" || exit 1
}

# ----

wanted=${*:-programs debs wheels parts}
for part in $wanted; do
    case $part in
        programs | debs | wheels | parts) ;;
        *) say "unknown part '$part' (programs, debs, wheels or parts)"; exit 2 ;;
    esac
done
mkdir -p "$dist" || exit 2
install_tools
PATH=$tools/bin:$PATH
for part in $wanted; do
    say "$part"
    "part_$part"
done
(cd "$dist" && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS) || exit 1
(cd "$dist" && ls -l)
