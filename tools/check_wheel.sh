#!/usr/bin/env bash
# Builds the source archive and the wheel of this checkout into dist/, and tries the wheel where
# there is nothing else: its contents, and a proof made and verified by an installation of it alone.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -z "$(git status --porcelain)" ] || {
    echo "check_wheel: the checkout has changes that no commit has; commit or remove them" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf dist
"${QUOD_PYTHON:-python3}" -m venv "$work/build"
"$work/build/bin/pip" install --quiet --disable-pip-version-check build
# The wheel is built from the source archive, so what that lacks shows.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) "$work/build/bin/python" -m build --outdir dist .
wheel=$(echo dist/quod-*.whl)

"$work/build/bin/python" - "$wheel" <<'PYTHON'
import subprocess
import sys
import zipfile

names = set(zipfile.ZipFile(sys.argv[1]).namelist())
tracked = subprocess.run(
    ["git", "ls-files", "src/quod"], check=True, capture_output=True, text=True
).stdout.split()
modules = {name.removeprefix("src/") for name in tracked}
packaged = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
if packaged != modules:
    sys.exit(f"check_wheel: the wheel and src/ differ in {sorted(packaged ^ modules)}")
if not any(name.endswith("licenses/LICENSE") for name in names):
    sys.exit("check_wheel: the wheel lacks the licence")
PYTHON

"${QUOD_PYTHON:-python3}" -m venv "$work/user"
"$work/user/bin/pip" install --quiet --disable-pip-version-check \
    --constraint constraints.txt "$wheel"
cp -r examples/membership "$work/membership"
cd "$work"
quod=$work/user/bin/quod
"$quod" --version
"$quod" groth16 prove membership/circuit.zkey membership/witness.wtns proof.json public.json --quiet
"$quod" groth16 verify membership/verification_key.json public.json proof.json --insecure-test-key
cd "$OLDPWD"
sha256sum dist/*
