#!/bin/sh
# Builds the wheel of the Python package, and installs it into a virtual environment.
#
#   scripts/python.sh TARGET_DIR          (default: target) a wheel for this machine
#   scripts/python.sh TARGET_DIR test     a wheel of the profile dev, and its tests
#   scripts/python.sh TARGET_DIR torch    the same, and its tests with PyTorch
#   scripts/python.sh TARGET_DIR clients  the same, and its tests with pandas, zarr, dask and other clients
#   scripts/python.sh TARGET_DIR ray      the same, and its tests with a cluster of Ray on this machine
#
# The wheel goes to TARGET_DIR/wheels, the environments are TARGET_DIR/python, TARGET_DIR/python-torch,
# TARGET_DIR/python-clients and TARGET_DIR/python-ray.
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

# Installs the wheel in place of an older one.
install() {
    "$1" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$target"/wheels/*.whl || exit 1
}

environment "$target/python" python/requirements-test.txt
python=$target/python/bin/python
profile=release
cargo=${CARGO:-cargo}
if [ "$purpose" != wheel ]; then
    profile=dev
    # Nothing is built that scripts/tests.py has built.
    cargo=$PWD/scripts/workspace-cargo.sh
fi
rm -rf "$target/wheels" || exit 2
CARGO=$cargo "$python" -m maturin build --quiet --locked --manifest-path python/Cargo.toml --interpreter "$python" \
    --profile "$profile" --target-dir "$target" --out "$target/wheels" || exit 1
install "$python"
say "$(ls "$target"/wheels) is installed in $target/python"
[ "$purpose" = wheel ] && exit 0

if [ "$purpose" = torch ] || [ "$purpose" = clients ] || [ "$purpose" = ray ]; then
    environment "$target/python-$purpose" "python/requirements-$purpose.txt"
    python=$target/python-$purpose/bin/python
    install "$python"
    # The clients read tables that the program makes, and tasks of Ray run it.
    "$cargo" build --quiet --locked -p lanefs-cli --bin lanefs --target-dir "$target" || exit 1
    export LANEFS_PROGRAM="$target/debug/lanefs"
    # Beside the sources Python would import them in place of the package that is installed.
    cd python/tests || exit 2
    say "tests with $purpose"
    exec "$python" -m pytest -c ../pyproject.toml --rootdir . "test_$purpose"*.py
fi
cd python/tests || exit 2
say "stubs and types"
"$python" -m mypy --config-file ../pyproject.toml --cache-dir "$target/mypy" || exit 1
"$python" -m mypy.stubtest --mypy-config-file ../pyproject.toml lanefs._lanefs || exit 1
say "tests"
exec "$python" -m pytest -c ../pyproject.toml --rootdir . --ignore test_torch.py --ignore test_ray.py \
    --ignore-glob "*/test_clients*.py" .
