"""Names of signals in findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from quod.r1cs.determinism.arithmetic import centred
from quod.r1cs.determinism.normal_form import Affine
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rows import Rows

_MAX_NAMES = 3
_MAX_TERMS = 4


def listed(rows: Rows, wires: Sequence[int]) -> str:
    """Return the names of the first wires, and the number of the others."""
    counts = Counter(map(rows.name, wires))
    names = [
        f"{name} ({count:,} signals)" if count > 1 else name
        for name, count in list(counts.items())[:_MAX_NAMES]
    ]
    if others := len(wires) - sum(list(counts.values())[:_MAX_NAMES]):
        return f"{', '.join(names)} and {others:,} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def expression(facts: Propagation, term: Affine) -> str:
    """Return an affine term as a sum of signals: ``main.x - main.y + 1``."""
    rows, prime = facts.rows, facts.prime
    terms = [(k, rows.name(wire)) for wire, k in wire_terms(facts, term).items()]
    if len(terms) > _MAX_TERMS:
        return f"a sum of {listed(rows, list(wire_terms(facts, term)))}"
    if term.constant % prime:
        terms.append((term.constant, ""))
    # A sum begins with a positive term, if it has any.
    signed = sorted([(centred(k, prime), name) for k, name in terms], key=lambda each: each[0] < 0)
    text = ""
    for k, name in signed:
        sign = (" - " if text else "-") if k < 0 else " + " if text else ""
        size = name if abs(k) == 1 and name else f"{abs(k)} * {name}" if name else str(abs(k))
        text += sign + size
    return text or "0"


def wire_terms(facts: Propagation, term: Affine) -> dict[int, int]:
    """Return the coefficients of the wires of an affine term."""
    form = facts.form
    if not term.factor:
        return {}
    if term.node < form.wires:
        return {term.node: term.factor}
    wires, coefficients = form.forms[term.node - form.wires]
    return {wire: k * term.factor for wire, k in zip(wires, coefficients)}
