"""Circuits for the tests: a configurable one in WebAssembly text, and one of circom."""

from __future__ import annotations

import wasmtime

from quod.field import NAMED
from quod.witness.inputs import halves

R = NAMED["bn254.fr"].value
NAME = "a"

_CIRCUIT = """(module
  (import "runtime" "exceptionHandler" (func $fail (param i32)))
  (import "runtime" "printErrorMessage" (func $say))
  {imports}
  {memory}
  (data (i32.const 0) "{prime}")
  (data (i32.const 1024) "{message}\\00")
  (global $char (mut i32) (i32.const 1024))
  (func $copy (param $to i32) (param $from i32)
    (memory.copy (local.get $to) (local.get $from) (i32.const 128)))
  (func $at (param i32) (result i32)
    (i32.add (i32.const 256) (i32.shl (local.get 0) (i32.const 2))))
  (func (export "init") (param i32) {init})
  (func (export "getFieldNumLen32") (result i32) (i32.const {words}))
  (func (export "getRawPrime") (call $copy (i32.const 256) (i32.const 0)))
  (func (export "readSharedRWMemory") (param i32) (result i32)
    (i32.load (call $at (local.get 0))))
  (func (export "writeSharedRWMemory") (param i32 i32)
    (i32.store (call $at (local.get 0)) (local.get 1)))
  (func (export "{prefix}getInputSignalSize") (param i32 i32) (result i32)
    (select (i32.const {size}) (i32.const -1)
      (i32.and (i32.eq (local.get 0) (i32.const {high}))
               (i32.eq (local.get 1) (i32.const {low})))))
  (func (export "{prefix}getInputSize") (result i32) (i32.const {inputs}))
  (func (export "setInputSignal") (param i32 i32 i32)
    (call $copy (i32.const 512) (i32.const 256)) {set})
  (func (export "getWitnessSize") (result i32) (i32.const {wires}))
  (func (export "getWitness") (param i32)
    (memory.fill (i32.const 256) (i32.const 0) (i32.const 128))
    (i32.store (i32.const 256) (i32.const 1))
    (if (local.get 0) (then (call $copy (i32.const 256) (i32.const 512)))) {witness})
  (func (export "getMessageChar") (result i32) (local $found i32)
    (local.set $found (i32.load8_u (global.get $char)))
    (global.set $char
      (select (i32.add (global.get $char) (i32.const 1)) (i32.const 1024) (local.get $found)))
    (local.get $found))
  {more}
)"""


def circuit(
    *, prime: int = R, words: int = 8, wires: int = 2, inputs: int = 1, size: int = 1,
    pages: str = "1", memory: str = "", imports: str = "", init: str = "", set: str = "",
    witness: str = "",
    message: str = "Error in template Test_1 line: 7", prefix: str = "", definitions: str = "",
) -> bytes:  # fmt: skip
    """A calculator of one input, `a`, whose witness is 1 and then that number again and again."""
    high, low = halves(NAME)
    escaped = "".join(f"\\{byte:02x}" for byte in prime.to_bytes(128, "little"))
    text = _CIRCUIT.format(
        memory=memory or f'(memory (export "memory") {pages})', prime=escaped, words=words,
        wires=wires, inputs=inputs, size=size,
        imports=imports, init=init, set=set, witness=witness, message=message, prefix=prefix,
        more=definitions, high=high, low=low,
    )  # fmt: skip
    return bytes(wasmtime.wat2wasm(text))


LOOP = "(loop $ever (br $ever))"


def failing(code: int) -> str:
    """Says where, and then raises an error of circom's."""
    return f"(call $say) (call $fail (i32.const {code}))"


VARIOUS = """
pragma circom 2.1.0;
template Square() {
    signal input in;
    signal output out;
    out <== in * in;
    log("a square of", in);
}
template Various(n, m) {
    signal input grid[n][m];
    signal input flag;
    signal output sum;
    signal input key;
    component squares[n][m];
    flag * (flag - 1) === 0;
    var total = 0;
    for (var i = 0; i < n; i++) {
        for (var j = 0; j < m; j++) {
            squares[i][j] = Square();
            squares[i][j].in <== grid[i][j];
            total += squares[i][j].out;
        }
    }
    assert(total != 77);
    signal inverse;
    inverse <-- key != 0 ? 1 / key : 0;
    sum <== total * flag + inverse;
}
component main {public [flag]} = Various(3, 2);
"""
