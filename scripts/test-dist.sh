#!/bin/sh
# Tries what scripts/dist.sh made, each where nothing else is installed.
#
#   scripts/test-dist.sh TARGET_DIR [sums] [static] [gnu] [deb] [wheel] [sdist] [conda] [cargo] [workflows]
#                                                                     (default: target, and all of them)
#
# A part whose tools, rights or mirror are missing is named with what is missing, and the others go on. The
# exit code is 0 when every part that could run passed, and at least one could. DEBIAN names the release in
# which the Debian package is tried [default: bookworm].
set -u
cd "$(dirname "$0")/.." || exit 2
: "${CARGO:=cargo}"
: "${DEBIAN:=bookworm}"
target=$(cd "${1:-target}" && pwd) || exit 2
[ $# -eq 0 ] || shift
dist=$target/dist
tools=$target/dist-tools
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
root=$PWD
export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR="$target"

say() { printf '==> test-dist: %s\n' "$*"; }
fail() { say "$part: $*"; exit 1; }
# A part that cannot run ends with this code.
CANNOT=77
cannot() { say "$part CANNOT RUN: $*"; exit $CANNOT; }

work=$(mktemp -d) || exit 2
# Chroots belong to root, and ordinary users read programs in them.
chmod 755 "$work"
# A part that fails may leave its mount.
trap 'umount -l "$work/user/mnt" 2>/dev/null || fusermount3 -uz "$work/user/mnt" 2>/dev/null; rm -rf "$work"' EXIT

# ---- what each program must do

# expect TEXT COMMAND...: the command succeeds, and prints this text.
expect() {
    text=$1
    shift
    output=$("$@" 2>&1) || fail "$*: exit code $?: $output"
    case $output in *"$text"*) ;; *) fail "$*: no '$text' in: $output" ;; esac
}

# main_job DIR COMMAND...: makes a volume in DIR, imports a tree and checks all answers. The command runs the
# program where DIR is the root directory, or with the names that it has outside if DIR is `.`.
main_job() {
    dir=$1
    shift
    rm -rf "$dir/tree" "$dir/v.lane"
    mkdir -p "$dir/tree/a" && echo hello >"$dir/tree/a/b" && ln -s b "$dir/tree/a/link" || exit 1
    base=
    # Relative names: qemu takes the root directory for that of the libraries (-L).
    [ "$dir" != . ] || base=.
    expect "$version" "$@" --version
    expect v.lane "$@" mkfs "$base/v.lane" --size 64M
    expect "imported 1 file" "$@" import "$base/v.lane" "$base/tree" /
    expect "/a/link" "$@" lookup "$base/v.lane" /a /a/b /a/link
    "$@" lookup "$base/v.lane" /none >/dev/null 2>&1
    [ $? -eq 1 ] || fail "$*: lookup of a path that is not there does not end with 1"
    expect hello "$@" cat "$base/v.lane" /a/b
    expect clean "$@" fsck "$base/v.lane"
    expect "" "$@" export "$base/v.lane" / "$base/back"
    cmp -s "$dir/tree/a/b" "$dir/back/a/b" || fail "$*: export gives other bytes"
    rm -rf "$dir/back"
}

# mounts PROGRAM: mounts a volume as a user who is not root, through fusermount3, and unmounts it.
mounts() {
    if ! command -v fusermount3 >/dev/null || [ ! -c /dev/fuse ]; then
        say "$part: NOT TRIED: mounting: fusermount3 (package fuse3) and /dev/fuse are needed"
        return
    fi
    as_user=
    user=$(id -un)
    if [ "$(id -u)" -ne 0 ]; then
        :
    elif [ "$(stat -c %a /dev/fuse)" = 666 ]; then
        as_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
        user="an unprivileged user"
    else
        say "$part: NOT TRIED: mounting as a user: /dev/fuse is not open to users (mode 666)"
    fi
    rm -rf "$work/user" && mkdir "$work/user" && cp "$1" "$work/user/lanefs" || exit 1
    [ -z "$as_user" ] || chown -R 65534:65534 "$work/user"
    # Words are split on purpose.
    # shellcheck disable=SC2086
    $as_user sh -euc 'cd "$1"; export HOME="$1"; mkdir mnt
        ./lanefs mkfs v.lane --size 64M >log 2>&1; ./lanefs chown v.lane "$(id -u):$(id -g)" / >>log 2>&1
        ./lanefs mount v.lane mnt >>log 2>&1; echo hello >mnt/file; cp lanefs mnt/; cmp lanefs mnt/lanefs
        ./lanefs umount mnt >>log 2>&1; [ "$(./lanefs cat v.lane /file)" = hello ]
        ./lanefs fsck v.lane >>log 2>&1' mounts "$work/user" ||
        { cat "$work/user/log"; fail "mounting fails"; }
    say "$part: mounted by $user, written, read, unmounted"
}

# built FILE: ends the part if there is no such file.
built() { [ -e "$1" ] || fail "no $1: make dist builds it"; }

program() { printf '%s/lanefs-%s-%s-linux-%s' "$dist" "$version" "$1" "$2"; }

# dynamic_of FILE: the interpreter and libraries that a program asks for.
dynamic_of() { "$tools/bin/python" - "$1" <<'PYTHON'
import sys
from elftools.elf.elffile import ELFFile
elf = ELFFile(open(sys.argv[1], "rb"))
for segment in elf.iter_segments():
    if segment["p_type"] == "PT_INTERP":
        print(segment.get_interp_name())
    if segment["p_type"] == "PT_DYNAMIC":
        for tag in segment.iter_tags("DT_NEEDED"):
            print(tag.needed)
PYTHON
}

foreign() { case $(uname -m) in x86_64) echo aarch64 ;; *) echo x86_64 ;; esac; }

# ---- parts

part_sums() {
    (cd "$dist" && sha256sum --quiet --strict -c SHA256SUMS) || fail "a file is not what SHA256SUMS says"
    listed=$(wc -l <"$dist/SHA256SUMS")
    [ "$listed" -eq "$(($(ls "$dist" | wc -l) - 1))" ] || fail "SHA256SUMS lists $listed files, there are others"
    for file in "$dist"/lanefs-*-linux-*; do
        ! grep -qaF -e "$root/" -e "${CARGO_HOME:-$HOME/.cargo}/" "$file" ||
            fail "$file names a folder of the machine that built it"
    done
    "$tools/bin/python" - "$dist/lanefs-$version.cdx.json" <<'PYTHON' || fail "the list of parts is not CycloneDX"
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = open(sys.argv[1]).read()
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
sys.exit(str(error) if error else 0)
PYTHON
}

part_static() {
    [ "$(id -u)" -eq 0 ] || cannot "only root may chroot"
    own=$(program "$(uname -m)" static)
    other=$(program "$(foreign)" static)
    for file in "$own" "$other"; do
        built "$file"
        needed=$(dynamic_of "$file") || exit 1
        [ -z "$needed" ] || fail "$file is not static: $needed"
    done
    mkdir "$work/empty" && cp "$own" "$work/empty/lanefs" || exit 1
    main_job "$work/empty" chroot "$work/empty" /lanefs
    # It says that it has no GPU, and by its code that there is none.
    output=$(chroot "$work/empty" /lanefs gpu list 2>&1)
    [ $? -eq 4 ] || fail "gpu list does not end with 4: $output"
    case $output in *"is static"*) ;; *) fail "gpu list does not say that the program is static: $output" ;; esac
    say "static: main job in an empty chroot"
    mounts "$own"
    command -v "qemu-$(foreign)" >/dev/null || cannot "for $(foreign): no qemu-$(foreign) (package qemu-user); the rest passed"
    cd "$work" && main_job . "qemu-$(foreign)" "$other"
    say "static: main job of the program for $(foreign) under qemu"
}

part_gnu() {
    own=$(program "$(uname -m)" gnu)
    other=$(program "$(foreign)" gnu)
    built "$own"
    built "$other"
    cd "$work" && main_job . "$own"
    mounts "$own"
    # A machine without a device says so with 4; a program that cannot load the loader would say it there.
    output=$("$own" gpu list 2>&1)
    case $?:$output in
        0:*) say "gnu: devices: $(echo "$output" | grep -c .) lines of them" ;;
        *) cannot "the engine of the GPU: $output; the rest passed" ;;
    esac
    sysroot=/usr/$(foreign)-linux-gnu
    [ -e "$sysroot/lib/libc.so.6" ] && command -v "qemu-$(foreign)" >/dev/null ||
        cannot "for $(foreign): qemu-user and libc6-dev-arm64-cross are needed; the rest passed"
    main_job . "qemu-$(foreign)" -L "$sysroot" "$other"
    say "gnu: main job of the program for $(foreign) under qemu"
}

part_deb() {
    [ "$(id -u)" -eq 0 ] || cannot "only root may chroot"
    command -v mmdebstrap >/dev/null || cannot "no mmdebstrap (package mmdebstrap)"
    architecture=$(dpkg --print-architecture)
    deb=$dist/lanefs_${version}_$architecture.deb
    other=$dist/lanefs_${version}_$(dpkg_foreign).deb
    built "$deb"
    built "$other"
    log=$work/mmdebstrap.log
    mmdebstrap --quiet --variant=minbase --include=fuse3,man-db,mount "$DEBIAN" "$work/debian" >"$log" 2>&1 ||
        cannot "no Debian $DEBIAN from the mirror: $(grep '^E:' "$log" | head -n 1)"
    cp "$deb" "$work/debian/lanefs.deb" || exit 1
    chroot "$work/debian" sh -c 'DEBIAN_FRONTEND=noninteractive apt-get -q -y install /lanefs.deb' >"$log" 2>&1 ||
        { tail -n 5 "$log"; fail "apt-get cannot install it"; }
    main_job "$work/debian" chroot "$work/debian" lanefs
    expect "lanefs" chroot "$work/debian" man -w lanefs-mount
    expect "lanefs" chroot "$work/debian" sh -c 'cat /usr/share/bash-completion/completions/lanefs'
    expect "" chroot "$work/debian" sh -c 'LD_PRELOAD=liblanefs_alloc.so sort /etc/passwd'
    if [ -c /dev/fuse ]; then
        # In a name space of its own, where this chroot is the root directory.
        unshare --mount sh -ec 'mount --rbind /dev "$1/dev"; mount -t proc proc "$1/proc"
            exec chroot "$1" sh -ec "mkdir /there; mount -t fuse.lanefs /v.lane /there; cat /there/a/b; umount /there"' \
            mounts "$work/debian" >"$log" 2>&1 && grep -qx hello "$log" ||
            { cat "$log"; fail "mount -t fuse.lanefs fails"; }
        say "deb: mount -t fuse.lanefs and umount"
    else
        say "deb: NOT TRIED: mounting: there is no /dev/fuse"
    fi
    chroot "$work/debian" dpkg --purge lanefs >"$log" 2>&1 || { cat "$log"; fail "dpkg --purge fails"; }
    [ ! -e "$work/debian/usr/bin/lanefs" ] || fail "purged, and the program is still there"
    dpkg-deb --contents "$other" >"$log" && grep -q usr/bin/lanefs "$log" ||
        fail "the package for the other machine has no program"
    say "deb: installed, tried and purged in Debian $DEBIAN"
}

dpkg_foreign() { case $(foreign) in aarch64) echo arm64 ;; *) echo amd64 ;; esac; }

# environment: a bare one, and with PyPI for numpy.
environment() {
    "${PYTHON:-python3}" -m venv "$work/$1" || cannot "no virtual environment: package python3-venv"
}

# readme LANGUAGE: the lines of the README for Python that run without PyTorch.
readme_python() {
    printf 'import lanefs\nwith lanefs.Volume.open("example.lane", "x", size=64 << 20) as volume:\n'
    printf '    volume.write_many(["/data/2024/a.txt", "/data/2024/b.txt"], [b"hello", b""], make_directories=True)\n'
    awk '/^```python$/ && !seen { on = 1; seen = 1; next } /^```$/ { on = 0 } on' "$root/README.md"
    printf '    assert bytes(files[0]) == b"hello" and list(found.size) == [5], (files, found)\n'
}

# tries ENVIRONMENT: the package that is installed in it.
tries_package() {
    mkdir -p "$work/user-dir" && cd "$work/user-dir" && rm -f example.lane || exit 1
    readme_python >lines.py
    "$work/$1/bin/python" lines.py || fail "the README's lines fail"
}

part_wheel() {
    for wheel in "$dist"/*.whl; do
        expect "manylinux_2_" "$tools/bin/auditwheel" show "$wheel"
        tag=$(printf '%s\n' "$output" | tr -d '\n' | sed -n 's/.*platform tag: "manylinux_2_\([0-9]*\)_.*/\1/p')
        [ -n "$tag" ] && [ "$tag" -le 28 ] || fail "auditwheel: $(basename "$wheel"): $output"
        say "wheel: auditwheel: $(basename "$wheel"): manylinux_2_$tag"
    done
    environment wheel
    "$work/wheel/bin/pip" install --quiet --disable-pip-version-check "$dist"/lanefs-*-abi3-*"_$(uname -m).whl" ||
        fail "pip cannot install it (numpy comes from PyPI)"
    tries_package wheel
    cd "$work" && main_job . "$work/wheel/bin/lanefs"
    say "wheel: installed in a bare environment; the README's lines and the command work"
    command -v python3.14t >/dev/null || cannot "for Python without a lock: no python3.14t; the rest passed"
    PYTHON=python3.14t
    environment free
    "$work/free/bin/pip" install --quiet --disable-pip-version-check "$dist"/lanefs-*-cp314t-*"_$(uname -m).whl" ||
        fail "pip of python3.14t cannot install it"
    expect False "$work/free/bin/python" -c 'import lanefs, sys; print(sys._is_gil_enabled())'
    tries_package free
}

part_sdist() {
    environment sdist
    # Dependencies as Cargo.lock has them; the profile dev, of which most is built by now.
    MATURIN_PEP517_ARGS="--profile dev" "$work/sdist/bin/pip" install --quiet --disable-pip-version-check \
        "$dist/lanefs-$version.tar.gz" || fail "pip cannot build it"
    tries_package sdist
    say "sdist: built and installed in a bare environment; the README's lines work"
}

part_conda() {
    "$tools/bin/python" - packaging/conda "$version" <<'PYTHON' || fail "the recipe does not render"
import sys
from rattler_build import Stage0Recipe, VariantConfig
folder, version = sys.argv[1:]
recipe = Stage0Recipe.from_file(f"{folder}/recipe.yaml")
rendered = recipe.render(VariantConfig.from_file(f"{folder}/variants.yaml"))
packages = {(str(variant.recipe.package.name), str(variant.recipe.package.version)) for variant in rendered}
if packages != {("lanefs", version), ("python-lanefs", version)}:
    sys.exit(f"the recipe renders {packages}")
PYTHON
    cannot "building: it needs conda's channels and rattler-build; the recipe renders, which is all that is checked"
}

part_cargo() {
    # Of the profile dev, whose crates the tests have built. (`make test` builds each published crate from its
    # package.)
    "$CARGO" install --quiet --locked --debug --force --path crates/cli --root "$work/cargo" ||
        fail "cargo install --path crates/cli fails"
    cd "$work" && main_job . "$work/cargo/bin/lanefs"
}

part_workflows() {
    linter=$tools/bin/actionlint
    if [ ! -x "$linter" ]; then
        command -v go >/dev/null || cannot "no go (package golang-go), which builds actionlint"
        GOBIN=$tools/bin go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 >"$work/log" 2>&1 ||
            cannot "actionlint cannot be built: $(tail -n 1 "$work/log")"
    fi
    "$linter" .github/workflows/*.yml || fail "actionlint finds faults"
}

# ----

wanted=${*:-sums static gnu deb wheel sdist conda cargo workflows}
passed=
failed=
left_out=
for part in $wanted; do
    case $part in
        sums | static | gnu | deb | wheel | sdist | conda | cargo | workflows) ;;
        *) say "unknown part '$part'"; exit 2 ;;
    esac
done
for part in $wanted; do
    began=$(date +%s)
    ("part_$part" </dev/null)
    case $? in
        0) result=passed; passed="$passed $part" ;;
        "$CANNOT") result="not complete"; left_out="$left_out $part" ;;
        *) result=FAILED; failed="$failed $part" ;;
    esac
    say "$part $result in $(($(date +%s) - began)) s"
done
[ -z "$left_out" ] || say "not complete, for the reasons above:$left_out"
[ -z "$failed" ] || { say "failed:$failed"; exit 1; }
[ -n "$passed" ] || { say "nothing could run"; exit 1; }
say "passed:$passed"
