#!/bin/sh
# Builds the wheel of the Python package, and installs it into a virtual environment.
#
#   scripts/python.sh TARGET_DIR          (default: target) the wheel that people install
#   scripts/python.sh TARGET_DIR test     a wheel of the profile dev, and its tests
#
# The wheel goes to TARGET_DIR/wheels, the environment is TARGET_DIR/python. PYTHON names the interpreter.
# Without PyPI, or an interpreter that can make an environment, the tests are left out, which the output says.
set -u
cd "$(dirname "$0")/.." || exit 2
target=$(mkdir -p "${1:-target}" && cd "${1:-target}" && pwd) || exit 2
purpose=${2:-wheel}
environment=$target/python
python=$environment/bin/python

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

# The list of packages that are installed is kept, so that a run with the same list needs no network.
packages=python/requirements-test.txt
if ! cmp -s "$packages" "$environment/packages"; then
    say "packages for building and testing, in $environment"
    "${PYTHON:-python3}" -m venv "$environment" ||
        lacking "no virtual environment: python3 with venv and pip is needed, which scripts/setup.sh installs"
    "$python" -m pip install --quiet --disable-pip-version-check -r "$packages" ||
        lacking "the packages of $packages cannot be installed"
    cp "$packages" "$environment/packages" || exit 2
fi

profile=release
[ "$purpose" = test ] && profile=dev
rm -rf "$target/wheels" || exit 2
"$python" -m maturin build --quiet --locked --manifest-path python/Cargo.toml --interpreter "$python" \
    --profile "$profile" --target-dir "$target" --out "$target/wheels" || exit 1
"$python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$target"/wheels/*.whl || exit 1
say "$(ls "$target"/wheels) is installed in $environment"
[ "$purpose" = test ] || exit 0

# Beside the sources Python would import them in place of the package that is installed.
cd python/tests || exit 2
say "stubs and types"
"$python" -m mypy --config-file ../pyproject.toml --cache-dir "$target/mypy" || exit 1
"$python" -m mypy.stubtest --mypy-config-file ../pyproject.toml lanefs._lanefs || exit 1
say "tests"
exec "$python" -m pytest -c ../pyproject.toml --rootdir . .
