#!/usr/bin/env bash
# Build the sdist and the wheel in a temporary folder from what git has staged, check what is in them, and run
# the demo from each in an empty environment.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
PIP=(-m pip --disable-pip-version-check install --quiet)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# holds LIST: every file named on the standard input is in the list
holds() {
  local missing
  if missing=$(grep -Fxv -f "$1"); then
    echo "The $(basename "$1") lacks these files:" >&2
    echo "$missing" >&2
    exit 1
  fi
}

# lacks LIST PATTERN: no file in the list matches the pattern
lacks() {
  if grep -E -- "$2" "$1" >&2; then
    echo "The $(basename "$1") should not have these files." >&2
    exit 1
  fi
}

git checkout-index --all --prefix="$work/source/"
"$PYTHON" -m venv "$work/tools"
"$work/tools/bin/python" "${PIP[@]}" build twine
if ! "$work/tools/bin/python" -m build --outdir "$work/dist" "$work/source" > "$work/build.log" 2>&1; then
  cat "$work/build.log" >&2
  exit 1
fi
"$work/tools/bin/python" -m twine check --strict "$work"/dist/*

# the sdist has every file of the package and the tests; the wheel has the package without C sources
tar -tzf "$work"/dist/*.tar.gz | cut -d/ -f2- > "$work/sdist"
"$work/tools/bin/python" -m zipfile --list "$work"/dist/*.whl | awk 'NR > 1 { print $1 }' > "$work/wheel"
git ls-files src tests LICENSE ./*.md ./*.cff ./*.py pyproject.toml | holds "$work/sdist"
git ls-files src | grep -Ev '\.[ch]$' | cut -d/ -f2- | holds "$work/wheel"
lacks "$work/sdist" '\.(so|pyd|pyc)$'
lacks "$work/wheel" '(^|/)tests?/|/(test_|conftest)[^/]*\.py$|\.[ch]$'
if command -v cc > /dev/null && ! grep -Eq '_kernel\.[^/]*\.so$' "$work/wheel"; then
  cat "$work/build.log" >&2
  echo "The wheel has no compiled kernel, although there is a C compiler." >&2
  exit 1
fi

cd "$work"  # outside of the checkout
for built in dist/*.whl dist/*.tar.gz; do
  "$PYTHON" -m venv --clear empty
  empty/bin/python "${PIP[@]}" "${built}[files]"
  empty/bin/epiloss demo > demo.txt
  empty/bin/python -c "import epiloss; print('epiloss', epiloss.__version__, 'runs from', '$built')"
done
echo "ok"
