"""The modules that a calculator is linked with in the sandbox, as WebAssembly text.

`RUNTIME` has the functions that circom's modules import. It never calls Python: it stores an error
as a number, and messages as bytes in its memory. `GLUE` sets all inputs and extracts the witness in
one call, so that Python writes and reads its memory only once.

The interface is that of circom's code producers (wasm_elements), 2.0.3 and later.
"""

from __future__ import annotations

import functools

import wasmtime

MAX_MESSAGE_BYTES = 65_536

RUNTIME = f"""(module
  (type $next (func (result i32)))
  (memory (export "messages") 1 1)
  (table (export "table") 1 1 funcref)
  (global $code (export "code") (mut i32) (i32.const -1))
  (global $end (export "end") (mut i32) (i32.const 0))

  (func (export "exceptionHandler") (param $number i32)
    (global.set $code (local.get $number))
    unreachable)

  ;; Takes the pending message, and stores it if $kept is 1.
  (func $take (param $kept i32) (local $char i32)
    (loop $more
      (local.set $char (call_indirect (type $next) (i32.const 0)))
      (if (i32.and (local.get $kept) (i32.lt_u (global.get $end) (i32.const {MAX_MESSAGE_BYTES})))
        (then
          (i32.store8 (global.get $end)
            (select (local.get $char) (i32.const 10) (local.get $char)))
          (global.set $end (i32.add (global.get $end) (i32.const 1)))))
      (br_if $more (local.get $char))))

  (func (export "printErrorMessage") (call $take (i32.const 1)))
  (func (export "writeBufferMessage") (call $take (i32.const 0)))
  ;; A number that the circuit logs, which may be secret.
  (func (export "showSharedRWMemory"))
)"""
"""The functions that circuits import; `code` and `messages` are read after an error."""

GLUE = """(module
  (import "circuit" "init" (func $init (param i32)))
  (import "circuit" "setInputSignal" (func $set (param i32 i32 i32)))
  (import "circuit" "getWitness" (func $witness (param i32)))
  (import "circuit" "getRawPrime" (func $prime))
  (import "circuit" "readSharedRWMemory" (func $read (param i32) (result i32)))
  (import "circuit" "writeSharedRWMemory" (func $write (param i32 i32)))
  (import "runtime" "table" (table 1 funcref))
  {messages}
  (memory (export "memory") 1)

  ;; Stores the number in shared memory to $to; returns the address after it.
  (func $store (param $to i32) (param $words i32) (result i32) (local $word i32)
    (loop $more
      (i32.store (local.get $to) (call $read (local.get $word)))
      (local.set $to (i32.add (local.get $to) (i32.const 4)))
      (br_if $more (i32.lt_u
        (local.tee $word (i32.add (local.get $word) (i32.const 1))) (local.get $words))))
    (local.get $to))

  (func (export "prime") (param $words i32)
    (call $prime)
    (drop (call $store (i32.const 0) (local.get $words))))

  ;; Signals from 0 to $end, each as two words of a hash, a count, and so many numbers.
  (func $put (param $end i32) (param $words i32)
    (local $at i32) (local $high i32) (local $low i32) (local $count i32) (local $index i32)
    (local $word i32)
    (block $done
      (loop $signal
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $high (i32.load (local.get $at)))
        (local.set $low (i32.load offset=4 (local.get $at)))
        (local.set $count (i32.load offset=8 (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 12)))
        (local.set $index (i32.const 0))
        (loop $number
          (local.set $word (i32.const 0))
          (loop $more
            (call $write (local.get $word) (i32.load (local.get $at)))
            (local.set $at (i32.add (local.get $at) (i32.const 4)))
            (br_if $more (i32.lt_u
              (local.tee $word (i32.add (local.get $word) (i32.const 1))) (local.get $words))))
          (call $set (local.get $high) (local.get $low) (local.get $index))
          (br_if $number (i32.lt_u
            (local.tee $index (i32.add (local.get $index) (i32.const 1))) (local.get $count))))
        (br $signal))))

  (func (export "calculate")
    (param $end i32) (param $words i32) (param $to i32) (param $wires i32) (local $wire i32)
    (call $init (i32.const 0))
    (call $put (local.get $end) (local.get $words))
    (loop $more
      (call $witness (local.get $wire))
      (local.set $to (call $store (local.get $to) (local.get $words)))
      (br_if $more (i32.lt_u
        (local.tee $wire (i32.add (local.get $wire) (i32.const 1))) (local.get $wires)))))
)"""
"""The functions `prime` and `calculate`, which read and write `memory`."""

# Part of GLUE for circuits with messages.
_MESSAGES = """(import "circuit" "getMessageChar" (func $char (result i32)))
  (elem (i32.const 0) $char)"""


@functools.lru_cache(maxsize=2)
def builtin_modules(
    engine: wasmtime.Engine, messages: bool
) -> tuple[wasmtime.Module, wasmtime.Module]:
    """Compile RUNTIME and GLUE; `messages` is true if the circuit exports getMessageChar."""
    glue = GLUE.replace("{messages}", _MESSAGES if messages else "")
    return wasmtime.Module(engine, RUNTIME), wasmtime.Module(engine, glue)
