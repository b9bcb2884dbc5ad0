#!/bin/sh
# Installs the missing ones of the tools that LaneFS needs beside a Rust toolchain.
#
#   scripts/setup.sh [build] [test] [bench] [publish] [header] [python] [sanitize] [fuzz] [dist]
#                                                                        (default: build test)
#
# As root, or if `sudo -n` works, missing packages come from apt-get. Otherwise the script names them, each
# with its purpose, and goes on: a test that needs one says so when it runs. The exit code is 0 unless nothing
# can be built.
set -u

# One row: probe, Debian package, purpose, why. The probe is a command, a pattern of files if it begins with
# '/', or `python3:` and a module of it. A tool that needs several packages has one row for each.
needs() {
    cat <<'ROWS'
cc                      gcc         build  links the programs
/usr/include/stdlib.h   libc6-dev   build  headers and start files to link with
debugfs                 e2fsprogs   test   dx_hash is the outside oracle of the directory hash
mkfs.ext4               e2fsprogs   test   makes the ext4 peer of benchmarks
tar                     tar         test   archives to import, and to compare exports with
zstd                    zstd        test   archives that tar compresses with it, to import and to compare exports with
rsync                   rsync       test   compares trees with all attributes
getfattr                attr        test   reads extended attributes of exported files
setfattr                attr        test   sets extended attributes on files to import
fusermount3             fuse3       test   mounts volumes for users
mount                   mount       test   mounts the ext4 and tmpfs peers
losetup                 mount       test   puts the ext4 peer on its own image
setpriv                 util-linux  test   runs tests as an unprivileged user
glslc                   glslc       test   compiles the shaders, which are compared with those that are kept
/usr/lib/*/libvulkan.so.1 libvulkan1 test  the Vulkan loader
/usr/share/vulkan/icd.d/lvp* mesa-vulkan-drivers test  llvmpipe, a Vulkan device on any machine
/usr/share/vulkan/icd.d/radeon* mesa-vulkan-drivers test  RADV, whose compiler counts the registers of kernels without a GPU
/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json vulkan-validationlayers test  checks how Vulkan is used
git                     git         test   runs on the heap
python3                 python3     test   runs on the heap, and writes volumes from the document alone
python3:ensurepip       python3-venv test  makes the environment of the Python package's tests
python3                 python3     python builds the Python package
python3:ensurepip       python3-venv python makes the environment of the Python package
sqlite3                 sqlite3     test   runs on the heap
unshare                 util-linux  test   gives the documents that run mounts of their own
bash                    bash        test   runs the documents
jq                      jq          test   reads JSON in examples of the help
xz                      xz-utils    test   archives in examples, and to import
bzip2                   bzip2       test   archives to import
lz4                     lz4         test   archives to import
rg                      ripgrep     test   the oracle of `lanefs grep`
fzf                     fzf         test   the oracle of `lanefs pick`
script                  bsdutils    test   the terminal on which `lanefs pick` is tested
c++                     g++         test   compiles the header for kernels of other programs, with sanitizers
gcc                     gcc         test   runs on the heap, and compiles the C programs that use it
sort                    coreutils   test   runs on the heap, in threads
valgrind                valgrind    bench  counts instructions
fio                     fio         bench  the peer of the rows that fill the cache, and reads random blocks of a mount
make                    make        test   builds C in a test of the benchmark of builds
make                    make        bench  builds C on a mount and its peers
squashfuse_ll           squashfuse  bench  mounts images through FUSE: a peer of a mount that is read
c++                     g++         bench  builds snmalloc, a peer of the allocator
cmake                   cmake       bench  configures snmalloc
/usr/lib/*/libtcmalloc_minimal.so.4 libtcmalloc-minimal4 bench tcmalloc, a peer of the allocator
restic                  restic      bench  a peer of syncs
curl                    curl        publish  makes a bucket
restic                  restic      publish  a peer of publications
clang++                 clang       header  compiles the header for kernels of other programs as HIP
rclone                  rclone      publish  stores an archive, and mounts a bucket: peers of publications
s3fs                    s3fs        publish  mounts a bucket: a peer of publications
mksquashfs              squashfs-tools bench  makes images: a peer of reads, of a mount that is read, and of the size of publications
go                      golang-go   publish  builds Versity's S3 gateway
npm                     npm         publish  installs Azurite, a server of Azure Blob Storage
aarch64-linux-gnu-gcc   gcc-aarch64-linux-gnu   sanitize  links programs for aarch64
/usr/aarch64-linux-gnu/lib/libc.so.6 libc6-dev-arm64-cross sanitize  the C library for aarch64
qemu-aarch64            qemu-user   sanitize  runs programs for aarch64
c++                     g++         sanitize  links libFuzzer, which is C++
python3                 python3     dist    runs Zig and maturin, and lists the parts
python3:ensurepip       python3-venv dist   makes the environments of the tools and of the tests of wheels
dpkg-deb                dpkg        dist    packs for Debian
mmdebstrap              mmdebstrap  dist    makes the Debian in which the package is tried
/usr/share/keyrings/debian-archive-keyring.gpg debian-archive-keyring dist checks what mmdebstrap fetches
qemu-aarch64            qemu-user   dist    runs programs for aarch64
/usr/aarch64-linux-gnu/lib/libc.so.6 libc6-dev-arm64-cross dist the C library for aarch64
/usr/lib/*/libvulkan.so.1 libvulkan1 dist   the Vulkan loader
/usr/share/vulkan/icd.d/lvp* mesa-vulkan-drivers dist llvmpipe, a Vulkan device on any machine
fusermount3             fuse3       dist    mounts volumes for users
setpriv                 util-linux  dist    mounts as an unprivileged user
unshare                 util-linux  dist    gives the tests mounts of their own
go                      golang-go   dist    builds actionlint, which checks workflow files
ROWS
}

# System tools live in sbin directories, which are often not in the PATH of ordinary users.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PATH

say() { printf 'setup: %s\n' "$*"; }

present() {
    case $1 in
        /*) for file in $1; do [ -e "$file" ] && return 0; done; return 1 ;;
        python3:*) python3 -c "import ${1#python3:}" >/dev/null 2>&1 ;;
        *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

purposes=${*:-build test}
for purpose in $purposes; do
    case $purpose in
        build | test | bench | publish | header | python | sanitize | fuzz | dist) ;;
        *) say "unknown purpose '$purpose' (build, test, bench, publish, header, python, sanitize, fuzz or dist)"; exit 2 ;;
    esac
done

# Prints the rows of the requested purposes whose probe fails.
missing() {
    needs | while read -r probe package purpose why; do
        case " $purposes " in *" $purpose "*) ;; *) continue ;; esac
        present "$probe" || printf '%s %s %s %s\n' "$probe" "$package" "$purpose" "$why"
    done
}

packages_of() { printf '%s\n' "$1" | while read -r _ package _; do printf '%s\n' "$package"; done | sort -u | tr '\n' ' '; }

install() {
    if ! command -v apt-get >/dev/null 2>&1; then
        say "no apt-get here: install by hand: $*"
        return
    fi
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        say "not root and no sudo without a password. To install: sudo apt-get install $*"
        return
    fi
    say "installing: $*"
    log=$(mktemp) || return
    # Words are split on purpose: an empty prefix, and one argument a package.
    # shellcheck disable=SC2086,SC2048
    {
        $as_root apt-get -q -o DPkg::Lock::Timeout=300 update &&
            $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
                install --no-install-recommends $*
    } >"$log" 2>&1 </dev/null || { say "apt-get failed:"; tail -n 15 "$log"; }
    rm -f "$log"
}

# Adds what sanitizers need of Rust. `scripts/sanitize.sh` names the parts that cannot run without.
toolchains() {
    if ! command -v rustup >/dev/null 2>&1; then
        say "no rustup here: sanitizers need a nightly toolchain with miri and rust-src, by hand"
    else
        if ! cargo +nightly --version >/dev/null 2>&1; then
            say "installing: the nightly toolchain"
            rustup -q toolchain install nightly --profile minimal || say "missing: the nightly toolchain"
        fi
        for component in miri rust-src; do
            rustup component list --toolchain nightly --installed 2>/dev/null | grep -q "^$component" && continue
            say "installing: rustup component $component for nightly"
            rustup -q component add "$component" --toolchain nightly || say "missing: $component: for Miri and sanitizers"
        done
        targets aarch64-unknown-linux-gnu
    fi
}

# targets TRIPLE...: adds the standard libraries for them.
targets() {
    if ! command -v rustup >/dev/null 2>&1; then
        say "no rustup here: the standard libraries for $* are needed, by hand"
        return
    fi
    for triple; do
        rustup target list --installed | grep -q "^$triple\$" && continue
        say "installing: rustup target $triple"
        rustup -q target add "$triple" || say "missing: the standard library for $triple"
    done
}

# It is compiled for minutes, so only who fuzzes gets it.
fuzzer() {
    cargo fuzz --version >/dev/null 2>&1 && return
    say "installing: cargo-fuzz"
    cargo install -q --locked cargo-fuzz || say "missing: cargo-fuzz: 'make fuzz' runs the fuzz targets with it"
}

rows=$(missing)
if [ -n "$rows" ]; then
    # shellcheck disable=SC2046
    install $(packages_of "$rows")
    rows=$(missing)
fi

# Without udev, as in a container, only root may use the kernel's device for mounts.
case " $purposes " in
    *" test "*)
        if [ -c /dev/fuse ] && [ "$(stat -c %a /dev/fuse)" != 666 ]; then
            chmod 666 /dev/fuse 2>/dev/null || say "/dev/fuse is not open to users (mode 666): tests that mount as a user fail"
        fi
        [ -c /dev/fuse ] || say "missing: /dev/fuse: tests that mount fail; load the kernel's module with 'modprobe fuse'"
        ;;
esac

unbuildable=0
if ! command -v cargo >/dev/null 2>&1; then
    say "missing: cargo: LaneFS is built with a Rust toolchain (https://rustup.rs), which this script does not install"
    unbuildable=1
else
    case " $purposes " in
        *" test "*)
            for component in fmt clippy; do
                cargo "$component" --version >/dev/null 2>&1 && continue
                package=$component
                [ "$component" = fmt ] && package=rustfmt
                if command -v rustup >/dev/null 2>&1; then
                    say "installing: rustup component $package"
                    rustup -q component add "$package"
                fi
                cargo "$component" --version >/dev/null 2>&1 ||
                    say "missing: $package: 'make test' checks the code with it"
            done
            if ! cargo deny --version >/dev/null 2>&1; then
                say "installing: cargo-deny, which takes some minutes"
                cargo install --quiet --locked cargo-deny >/dev/null 2>&1 ||
                    say "missing: cargo-deny: 'make lint' checks licences and duplicates with it"
            fi
            ;;
    esac
    case " $purposes " in *" sanitize "*) toolchains ;; esac
    case " $purposes " in *" fuzz "*) fuzzer ;; esac
    case " $purposes " in
        *" dist "*)
            targets x86_64-unknown-linux-gnu x86_64-unknown-linux-musl \
                aarch64-unknown-linux-gnu aarch64-unknown-linux-musl
            ;;
    esac
fi

if [ -z "$rows" ]; then
    [ "$unbuildable" -eq 0 ] && say "all that is needed to $purposes is installed"
else
    say "these are missing; what does not need them goes on:"
    printf '%s\n' "$rows" | while read -r probe package purpose why; do
        printf '  %-22s package %-11s for %-6s %s\n' "$probe" "$package" "$purpose" "$why"
    done
    case "$rows" in
        "cc "* | *"
cc "*) unbuildable=1 ;;
    esac
fi
[ "$unbuildable" -eq 0 ] || { say "nothing can be built without the above"; exit 1; }
