#!/bin/bash
# Publishes to real servers of object stores, on this machine, and reads from them.
#
#   [TREE=/usr/share/doc] [KILLS=20] scripts/publish-conformance.sh LANEFS TOOLS [PYTHON]
#   scripts/publish-conformance.sh --install TOOLS     (the servers only)
#
# LANEFS is the program, TOOLS the folder to install the servers in, PYTHON an interpreter with the package.
#
# * s3s-fs, an S3 server from crates.io.
# * Versity's S3 gateway, from the Go module proxy; left out where there is no go of 1.21 or later.
# * Azurite, Microsoft's server of Azure Blob Storage, from npm; left out where there is no npm.
#
# For each: publish, verify, export and compare; change, publish again, and read both versions; lookups, grep,
# a mount and Python; publishers and readers that are killed; a server that is away for a while; prune.
# Exit code 0: all was as it must be.
set -u
lanefs=$1 tools=$2 python=${3:-}
tree=${TREE:-/usr/share/doc} kills=${KILLS:-20}
s3s=0.14.1 versity=v1.8.0 azurite=3.35.0

say() { printf 'publish-conformance: %s\n' "$*"; }
fail() { say "FAILED: $*"; failures=$((failures + 1)); }
failures=0

mkdir -p "$tools" && tools=$(realpath "$tools") || exit 2
if [ ! -x "$tools/bin/s3s-fs" ]; then
    say "installing s3s-fs $s3s"
    cargo install --quiet --locked --version "$s3s" --features binary --root "$tools" s3s-fs || exit 2
fi
if [ ! -x "$tools/bin/versitygw" ]; then
    # A go of 1.21 or later fetches the one that the gateway needs.
    say "installing versitygw $versity"
    GOBIN=$tools/bin go install "github.com/versity/versitygw/cmd/versitygw@$versity" >/dev/null 2>&1 ||
        say "versitygw cannot be installed; its part is left out"
fi
if command -v npm >/dev/null 2>&1; then
    if [ ! -x "$tools/azurite/node_modules/.bin/azurite-blob" ]; then
        say "installing azurite $azurite"
        npm install --silent --no-fund --no-audit --prefix "$tools/azurite" "azurite@$azurite" >/dev/null ||
            say "azurite cannot be installed; its part is left out"
    fi
else
    say "no npm here: the part of Azure is left out"
fi

[ "$lanefs" = --install ] && exit
lanefs=$(realpath "$lanefs") || exit 2

work=$(mktemp -d) || exit 2
mkdir "$work/mnt" "$work/home"
server=
stop_server() {
    [ -n "$server" ] || return 0
    # Not killed: Azurite writes what it has acknowledged some seconds later, or at its end.
    kill "$server" 2>/dev/null
    wait "$server" 2>/dev/null
    server=
}
tidy() {
    mountpoint -q "$work/mnt" && umount -l "$work/mnt"
    stop_server
    rm -rf "$work"
}
trap tidy EXIT
trap 'exit 130' INT TERM

# A port that nobody uses now.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Waits until the port answers.
await() {
    for _ in $(seq 400); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return 0; fi
        sleep 0.05
    done
    say "the server does not answer"
    exit 2
}

s3_server() {
    mkdir -p "$work/objects/bucket"
    RUST_LOG=error "$tools/bin/s3s-fs" --host 127.0.0.1 --port "$port" --access-key "$AWS_ACCESS_KEY_ID" \
        --secret-key "$AWS_SECRET_ACCESS_KEY" "$work/objects" >/dev/null 2>&1 &
    server=$!
    await
}

versity_server() {
    mkdir -p "$work/gateway/bucket"
    "$tools/bin/versitygw" --port "127.0.0.1:$port" --access "$AWS_ACCESS_KEY_ID" \
        --secret "$AWS_SECRET_ACCESS_KEY" --region "$AWS_REGION" --quiet posix "$work/gateway" >/dev/null 2>&1 &
    server=$!
    await
}

azure_server() {
    "$tools/azurite/node_modules/.bin/azurite-blob" --silent --skipApiVersionCheck --location "$work/blobs" \
        --blobHost 127.0.0.1 --blobPort "$port" >/dev/null 2>&1 &
    server=$!
    await
}

# Makes the container, which a publisher expects to be there.
azure_container() {
    (cd "$tools/azurite" && node - "$port" "$AZURE_STORAGE_ACCOUNT_NAME" "$AZURE_STORAGE_ACCOUNT_KEY" <<'JS'
const [port, account, key] = process.argv.slice(2);
const crypto = require("crypto");
const date = new Date().toUTCString();
const text = ["PUT", "", "", "", "", "", "", "", "", "", "", "", `x-ms-date:${date}\nx-ms-version:2021-08-06`,
    `/${account}/${account}/bucket\nrestype:container`].join("\n");
const signature = crypto.createHmac("sha256", Buffer.from(key, "base64")).update(text, "utf8").digest("base64");
fetch(`http://127.0.0.1:${port}/${account}/bucket?restype=container`, {
    method: "PUT",
    headers: { "x-ms-date": date, "x-ms-version": "2021-08-06", Authorization: `SharedKey ${account}:${signature}` },
}).then(async answer => { if (!answer.ok) { console.error(await answer.text()); process.exit(1); } });
JS
    ) || { say "the container cannot be made"; exit 2; }
}

# The program, with a cache of its own in `$cache`.
run() { "$lanefs" --cache-dir "$cache" "$@"; }
# The same must fail, with a message that names what is wrong, and no panic.
refuses() { # refuses WORDS ARGUMENTS...
    words=$1
    shift
    if run "$@" >"$work/out" 2>"$work/err"; then
        fail "'$*' succeeded"
    elif ! grep -qi -- "$words" "$work/err" || grep -qi 'panic' "$work/err"; then
        fail "'$*' does not say '$words': $(head -n 3 "$work/err")"
    fi
}
check() { "$@" >"$work/out" 2>&1 || fail "$*: $(tail -n 2 "$work/out")"; }

same_tree() { # same_tree URL TREE
    rm -rf "$work/back"
    run export "$1" / "$work/back" >/dev/null 2>"$work/err" || fail "export of $1: $(tail -n 2 "$work/err")"
    diff -r --no-dereference "$work/back" "$2" >"$work/diff" 2>&1 || fail "$1 differs: $(head -n 3 "$work/diff")"
}

suite() { # suite URL
    url=$1
    cache=$work/cache
    rm -rf "$cache" "$work/v.lane" "$work/tree" "$work/old"
    cp -r --no-dereference --preserve=mode,timestamps,links "$tree" "$work/tree"
    check "$lanefs" mkfs "$work/v.lane" --size 4G
    check "$lanefs" import "$work/v.lane" "$work/tree" /
    refuses 'no such tag' ls "$url"

    say "$url: publish, verify, export"
    check run publish "$work/v.lane" "$url"
    check run remote verify "$url"
    same_tree "$url" "$work/tree"
    old=$(run remote ls "$url" --json | python3 -c 'import json, sys
print(next(v["version"] for v in map(json.loads, sys.stdin) if "version" in v))')

    say "$url: publish again, both versions"
    cp -r "$work/tree" "$work/old"
    echo changed >"$work/tree/changed"
    check "$lanefs" import "$work/v.lane" "$work/tree/changed" /
    check run publish "$work/v.lane" "$url"
    same_tree "$url" "$work/tree"
    same_tree "$url#$old" "$work/old"
    run remote diff "$url#$old" "$url" | grep -q changed || fail "remote diff does not name the changed file"

    say "$url: lookups, grep, du, a mount, Python"
    (cd "$work/tree" && find . -mindepth 1 -printf '/%P\n') >"$work/paths"
    check run lookup "$url" --paths "$work/paths" --no-follow --quiet
    grep -rlF license "$work/tree" 2>/dev/null | wc -l >"$work/expected"
    run grep "$url" -lF license / 2>/dev/null | wc -l >"$work/found"
    check cmp "$work/expected" "$work/found"
    check run du "$url"
    run mount "$url" "$work/mnt" --foreground >/dev/null 2>&1 &
    mounted=$!
    for _ in $(seq 200); do mountpoint -q "$work/mnt" && break; sleep 0.05; done
    diff -r --no-dereference "$work/mnt" "$work/tree" >"$work/diff" 2>&1 || fail "the mount differs: $(head -n 3 "$work/diff")"
    check umount "$work/mnt"
    wait "$mounted"
    if [ -n "$python" ]; then
        "$python" - "$url" "$work/tree" "$work/paths" "$LANEFS_ENDPOINT" <<'PY' || fail "Python reads something else"
import os, sys
import lanefs

url, tree, paths, endpoint = sys.argv[1:]
files = [p for p in open(paths).read().splitlines() if os.path.isfile(tree + p) and not os.path.islink(tree + p)]
with lanefs.Volume.open(url, endpoint=endpoint) as volume:
    for path, content in zip(files, volume.read(files)):
        with open(tree + path, "rb") as file:
            assert bytes(content) == file.read(), path
PY
    fi

    say "$url: $kills publishers and readers are killed"
    for round in $(seq "$kills"); do
        head -c 3000000 /dev/urandom >"$work/tree/random"
        check "$lanefs" import "$work/v.lane" "$work/tree/random" / --overwrite
        "$lanefs" --cache-dir "$cache" publish "$work/v.lane" "$url" >/dev/null 2>&1 &
        victim=$!
        sleep "$(printf '0.%03d' $((RANDOM % 300)))"
        kill -9 "$victim" 2>/dev/null
        wait "$victim" 2>/dev/null
        run remote verify "$url" >/dev/null 2>"$work/err" || fail "round $round: damaged: $(tail -n 2 "$work/err")"
        "$lanefs" --cache-dir "$cache" export "$url" / "$work/half" >/dev/null 2>&1 &
        victim=$!
        sleep "$(printf '0.%03d' $((RANDOM % 300)))"
        kill -9 "$victim" 2>/dev/null
        wait "$victim" 2>/dev/null
        rm -rf "$work/half"
    done
    check run publish "$work/v.lane" "$url"
    same_tree "$url" "$work/tree"

    say "$url: the server is away for a while"
    warm=$(run cat "$url" /changed)
    stop_server
    run cat "$url" /changed >"$work/out" 2>"$work/err" && fail "cat succeeded without the server"
    grep -qi panic "$work/err" && fail "cat: $(head -n 3 "$work/err")"
    "$restart"
    [ "$(run cat "$url" /changed)" = "$warm" ] || fail "cat differs once the server is back"

    say "$url: prune"
    check run remote prune "$url" --grace 0s
    check run remote verify "$url"
    same_tree "$url" "$work/tree"
}

export AWS_ACCESS_KEY_ID=lanefs-test AWS_SECRET_ACCESS_KEY=not-a-secret AWS_REGION=us-east-1
for restart in s3_server versity_server; do
    [ "$restart" = s3_server ] || [ -x "$tools/bin/versitygw" ] || continue
    port=$(free_port)
    say "$restart"
    "$restart"
    export LANEFS_ENDPOINT="http://127.0.0.1:$port" AWS_ENDPOINT_URL="http://127.0.0.1:$port"
    suite s3://bucket/folder
    stop_server
done

if [ -x "$tools/azurite/node_modules/.bin/azurite-blob" ]; then
    # The account and the key that every Azurite has.
    export AZURE_STORAGE_ACCOUNT_NAME=devstoreaccount1
    export AZURE_STORAGE_ACCOUNT_KEY=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==
    port=$(free_port)
    say azure_server
    azure_server
    azure_container
    export LANEFS_ENDPOINT="http://127.0.0.1:$port/devstoreaccount1" AZURE_ENDPOINT="http://127.0.0.1:$port/devstoreaccount1"
    restart=azure_server
    suite az://bucket/folder
fi

[ "$failures" -eq 0 ] || { say "$failures checks failed"; exit 1; }
say "all passed"
