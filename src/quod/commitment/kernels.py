"""The kernels of commitments by name, as `quod kernel list` shows them."""

from __future__ import annotations

from quod.commitment import polynomial_kernels as polynomials
from quod.commitment.claim_reduction import weigh_corners
from quod.commitment.ligero import combine, tree
from quod.commitment.ligero.checker import kernels as checker
from quod.commitment.ligero.encode import encode_rows
from quod.commitment.raw_prover import send_elements
from quod.commitment.rows import add_rows
from quod.commitment.tables import to_elements
from quod.field.moduli import BN254_FR
from quod.field.named_extensions import EXTENSIONS
from quod.hash.table import Hash
from quod.kernel.registry import register
from quod.transcript.digests import digest_runs

_FIELD = EXTENSIONS["m31.4"]
_BASE = _FIELD.modulus
_SCALARS = BN254_FR

register(f"commitment.send_elements[{_SCALARS.name}]", send_elements, modulus=_SCALARS)
for _hash in Hash:
    if _hash.has_kernel and _hash.field in (None, _BASE):
        register(
            f"commitment.digest_runs[{_hash.value}]", digest_runs, hash=_hash, words=_hash.run_words
        )

register(
    f"commitment.to_elements[{_BASE.name}]", to_elements, modulus=_BASE, type_name="i16"
)  # fmt: skip
# Tiles and columns that fit the workgroups of every browser.
register(f"ligero.encode_rows[{_BASE.name}]", encode_rows, modulus=_BASE, log_tile=10, log_folded=1)
register(f"ligero.hash_columns[{_BASE.name}]", tree.hash_columns, modulus=_BASE, rows=256)
register("ligero.hash_pairs", tree.hash_pairs)
register(f"ligero.sum_rows[{_FIELD.name}]", combine.sum_rows, field=_FIELD, unrolled=4)
register(f"ligero.add_parts[{_FIELD.name}]", combine.add_parts, field=_FIELD)
register(f"ligero.gather_columns[{_BASE.name}]", combine.gather_columns, modulus=_BASE)
register("ligero.gather_nodes", combine.gather_nodes)
register(f"commitment.add_rows[{_FIELD.name}]", add_rows, field=_FIELD, at_once=4)
register(f"commitment.weigh_corners[{_SCALARS.name}]", weigh_corners, field=_SCALARS)

for _definition in (checker.expand_corners, checker.check_claims, checker.check_columns):
    register(f"ligero.{_definition.name}[{_FIELD.name}]", _definition, field=_FIELD)
register(f"ligero.expand_places[{_BASE.name}]", checker.expand_places, modulus=_BASE)
register("ligero.hash_opened", checker.hash_opened, words=256)
register("ligero.hash_level", checker.hash_level)

for _definition in (polynomials.fold_pairs, polynomials.add_multiple):
    register(f"hyperkzg.{_definition.name}[{_SCALARS.name}]", _definition, field=_SCALARS)
register(
    f"hyperkzg.chunk_values[{_SCALARS.name}]", polynomials.chunk_values, field=_SCALARS,
    chunking=polynomials.Chunking(2),
)  # fmt: skip
register(
    f"hyperkzg.chunk_recurrence[{_SCALARS.name}]", polynomials.chunk_recurrence, field=_SCALARS,
    chunking=polynomials.Chunking(2), quotient=True,
)  # fmt: skip
