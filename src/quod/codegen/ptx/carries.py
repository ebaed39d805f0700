"""PTX rules of additions, subtractions and multiply-adds with carry."""

from __future__ import annotations

from quod.codegen.ptx.body import BodyEmitter, Rule
from quod.codegen.ptx.types import register_kind, suffix
from quod.kernel.ir.nodes import Op

# ptxas's machine code stores a borrow complemented in CC.CF: subc accounts for that, but addc does
# not and would add 1 - borrow. A carry value has no register, so its name in `body.names` is the
# kind of flag, "carry" or "borrow"; the kind is converted where necessary.


def _carry(instruction: str, *, half: str = "", carry_in: bool, carry_out: bool) -> Rule:
    borrows = instruction == "sub"
    flag_kind = "borrow" if borrows else "carry"

    def rule(body: BodyEmitter, op: Op) -> None:
        result = op.results[0]
        operands = op.operands
        kind = suffix(result.type)
        if carry_in:
            *numbers, carry = operands
            operands = tuple(numbers)
            if body.get(carry) != flag_kind:
                if not carry_out and instruction == "add":
                    _add_borrow(body, op)
                    return
                _convert_flag(body, flag_kind)
        sets_flag = carry_out and op.results[1] in body.module.used_carries
        if sets_flag:
            body.names[op.results[1]] = flag_kind
        name = instruction
        if carry_in:
            name += "c"
        name += half
        if sets_flag:
            name += ".cc"
        body.define(result, f"{name}.{kind}", ", ".join([body.get(value) for value in operands]))

    return rule


def _convert_flag(body: BodyEmitter, wanted_kind: str) -> None:
    """Convert CC.CF, which holds a flag of the other kind, to the wanted kind."""
    if wanted_kind == "carry":
        mask = body.fresh("r", "subc.u32", "0, 0")
        body.fresh("r", "add.cc.u32", f"{mask}, 1")
    else:
        number = body.fresh("r", "addc.u32", "0, 0")
        body.fresh("r", "sub.cc.u32", f"0, {number}")


def _add_borrow(body: BodyEmitter, op: Op) -> None:
    """Emit a + b + borrow by subtracting the borrow's mask, 0 or all ones."""
    result = op.results[0]
    a, b, _ = op.operands
    kind, register = suffix(result.type), register_kind(result.type)
    mask = body.fresh(register, f"subc.{kind}", "0, 0")
    if a.constant == 0 and b.constant == 0:
        body.define(result, f"neg.s{result.type.bits}", mask)
        # A comparison of the result with zero reads the mask instead, see `rules`.
        body.borrow_masks[result] = mask
        return
    total = body.fresh(register, f"add.{kind}", f"{body.get(a)}, {body.get(b)}")
    body.define(result, f"sub.{kind}", f"{total}, {mask}")


RULES: dict[str, Rule] = {
    "add_cc": _carry("add", carry_in=False, carry_out=True),
    "addc_cc": _carry("add", carry_in=True, carry_out=True),
    "addc": _carry("add", carry_in=True, carry_out=False),
    "sub_cc": _carry("sub", carry_in=False, carry_out=True),
    "subc_cc": _carry("sub", carry_in=True, carry_out=True),
    "subc": _carry("sub", carry_in=True, carry_out=False),
    "mad_lo_cc": _carry("mad", half=".lo", carry_in=False, carry_out=True),
    "madc_lo_cc": _carry("mad", half=".lo", carry_in=True, carry_out=True),
    "mad_hi_cc": _carry("mad", half=".hi", carry_in=False, carry_out=True),
    "madc_hi_cc": _carry("mad", half=".hi", carry_in=True, carry_out=True),
    "madc_hi": _carry("mad", half=".hi", carry_in=True, carry_out=False),
}
