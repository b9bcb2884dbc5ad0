#!/bin/sh
# Builds the wheel of the Python package, and installs it into a virtual environment.
#
#   scripts/python.sh TARGET_DIR          (default: target) the wheel that people install
#   scripts/python.sh TARGET_DIR test     the package with the module that `cargo test` builds, and its tests
#   scripts/python.sh TARGET_DIR torch    the same, and its tests with PyTorch
#
# The wheel goes to TARGET_DIR/wheels, the environments are TARGET_DIR/python and TARGET_DIR/python-torch.
#
# maturin builds for one package, so with other features of what it depends on than the tests of the
# workspace: a wheel of the profile dev would compile most of the workspace once more.
# PYTHON names the interpreter. Without PyPI, or an interpreter that can make an environment, `test` leaves
# the tests out, which the output says.
set -u
cd "$(dirname "$0")/.." || exit 2
target=$(mkdir -p "${1:-target}" && cd "${1:-target}" && pwd) || exit 2
purpose=${2:-wheel}

say() { printf 'python: %s\n' "$*"; }

# Ends a run that lacks what it needs.
lacking() {
    if [ "$purpose" = test ]; then
        say "not tested: $*"
        exit 0
    fi
    say "$*"
    exit 1
}

# Makes an environment with the packages of a list. The list is kept in it, so that a run with the same list
# needs no network.
environment() {
    cmp -s "$2" "$1/packages" && return
    say "the packages of $2, in $1"
    "${PYTHON:-python3}" -m venv "$1" ||
        lacking "no virtual environment: python3 with venv and pip is needed, which scripts/setup.sh installs"
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check -r "$2" ||
        lacking "the packages of $2 cannot be installed"
    cp "$2" "$1/packages" || exit 2
}

# Builds the wheel that people install, and installs it in place of an older package.
install_wheel() {
    rm -rf "$target/wheels" || exit 2
    "$1" -m maturin build --quiet --locked --manifest-path python/Cargo.toml --interpreter "$1" \
        --profile release --target-dir "$target" --out "$target/wheels" || exit 1
    "$1" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps \
        "$target"/wheels/*.whl || exit 1
    say "$(ls "$target"/wheels) is installed in $target/python"
}

# Installs what the wheel would have in place of an older package: Python's files, the module, and the
# metadata, with which pip and entry points find them.
install_built() {
    CARGO_TARGET_DIR=$target "${CARGO:-cargo}" test --quiet --workspace --locked --no-run || exit 1
    site=$("$1" -c 'import sysconfig; print(sysconfig.get_path("platlib"))') || exit 1
    rm -rf "$site/lanefs" "$site"/lanefs-*.dist-info || exit 2
    "$target/python/bin/python" -m maturin pep517 write-dist-info --manifest-path python/Cargo.toml \
        --interpreter "$1" --metadata-directory "$site" >/dev/null 2>&1 || exit 1
    mkdir "$site/lanefs" || exit 2
    cp python/lanefs/*.py python/lanefs/*.pyi python/lanefs/py.typed "$site/lanefs/" || exit 2
    cp "$target/debug/lib_lanefs.so" "$site/lanefs/_lanefs.abi3.so" || exit 2
    (cd "$site" && info=$(echo lanefs-*.dist-info) && files=$(find lanefs "$info" -type f) &&
        printf '%s,,\n' $files "$info/RECORD" >"$info/RECORD") || exit 2
    say "the module that cargo built is installed in ${1%/bin/python}"
}

environment "$target/python" python/requirements-test.txt
python=$target/python/bin/python
if [ "$purpose" = wheel ]; then
    install_wheel "$python"
    exit 0
fi

if [ "$purpose" = torch ]; then
    environment "$target/python-torch" python/requirements-torch.txt
    python=$target/python-torch/bin/python
    install_built "$python"
    # Beside the sources Python would import them in place of the package that is installed.
    cd python/tests || exit 2
    say "tests with PyTorch"
    exec "$python" -m pytest -c ../pyproject.toml --rootdir . test_torch.py
fi
install_built "$python"
cd python/tests || exit 2
say "stubs and types"
"$python" -m mypy --config-file ../pyproject.toml --cache-dir "$target/mypy" || exit 1
"$python" -m mypy.stubtest --mypy-config-file ../pyproject.toml lanefs._lanefs || exit 1
say "tests"
exec "$python" -m pytest -c ../pyproject.toml --rootdir . --ignore test_torch.py .
