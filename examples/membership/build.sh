#!/usr/bin/env bash
# Makes every file of this example again from membership.circom and make_input.py.
#
# Needs circom2 and snarkjs; `tools/setup.sh node` at the top of the repository installs them into
# build/node. The secret of the key is drawn here and thrown away, but nobody else took part, so
# the key proves nothing to anyone who was not watching: real keys come from a ceremony.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tools=${NODE_TOOLS:-$here/../../build/node/node_modules/.bin}
[ -x "$tools/snarkjs" ] && [ -x "$tools/circom2" ] || {
    echo "build.sh: no circom2 and snarkjs in $tools; run tools/setup.sh node" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/membership.circom" "$work"
python3 "$here/make_input.py" "$work/input.json"
cd "$work"

"$tools/circom2" membership.circom --r1cs --wasm --sym --O2
"$tools/snarkjs" wtns calculate membership_js/membership.wasm input.json witness.wtns

random() { head -c 64 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
"$tools/snarkjs" powersoftau new bn128 12 pot0.ptau
"$tools/snarkjs" powersoftau contribute pot0.ptau pot1.ptau --name=example -e="$(random)"
"$tools/snarkjs" powersoftau prepare phase2 pot1.ptau pot.ptau
"$tools/snarkjs" groth16 setup membership.r1cs pot.ptau circuit0.zkey
"$tools/snarkjs" zkey contribute circuit0.zkey circuit.zkey --name=example -e="$(random)"
"$tools/snarkjs" zkey export verificationkey circuit.zkey verification_key.json

cp membership_js/membership.wasm circuit.wasm
cp membership.sym circuit.sym
cp input.json witness.wtns circuit.zkey circuit.wasm circuit.sym verification_key.json "$here"
ls -l "$here"
