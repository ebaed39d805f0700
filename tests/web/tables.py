"""A site whose GPU computes nothing: its graph copies the sums of one witness from a table.

So the page, the runtime and the assembly of proofs are tested in seconds. What the kernels compute
is tested where they are real.
"""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np

from quod.curve.groups import GROUPS
from quod.curve.weierstrass.affine import affine_group
from quod.device.cpu.device import CpuDevice
from quod.device.export.device import ExportDevice
from quod.device.memory.buffer import Buffer
from quod.device.runtime.timeline import or_null
from quod.formats import Witness, Zkey
from quod.groth16 import ProvingKey
from quod.groth16.gpu.graph import GraphStage, ProofGraph
from quod.msm import msm
from quod.msm.gpu.layout import GpuMsmPlan
from quod.web import site
from quod.web.action import action_key
from quod.web.site import Site
from quod.zcash.proofs.infos import ProofInfo
from tests.msm.sums import sums_of as xyzz_sums

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "membership"


def sums_of(zkey: Zkey, witness: Witness) -> dict[str, object]:
    """The five sums of a proof, as plain points."""
    key = ProvingKey(zkey)
    g1, g2 = key.groups
    law1, law2 = affine_group(g1), affine_group(g2)
    with patch("quod.groth16.prover.blinding", lambda *_: (0, 0)):
        proof, _ = key.prove(witness)
    key.close()
    values = witness.values
    device = CpuDevice()
    private = np.ascontiguousarray(values[zkey.public + 1 :])
    c = msm(device, g1, zkey.c, private)
    return {
        "A": law1.add(proof.a, law1.negate(key.alpha_g1)),
        "B1": msm(device, g1, zkey.b_g1, np.ascontiguousarray(values)),
        "B2": law2.add(proof.b, law2.negate(key.beta_g2)),
        "C": c,
        "H": law1.add(proof.c, law1.negate(c)),
    }


def table_graph(zkey: Zkey, sums: dict[str, object], device: ExportDevice) -> ProofGraph:
    """A graph that gives these sums whatever the witness."""
    lines: dict[str, Buffer | None] = {}
    plans: dict[str, GpuMsmPlan] = {}
    flags: dict[str, Buffer] = {}
    witness = device.allocate(32 * zkey.variables, zero=False)
    stages = []
    constants = []
    for name, point in sums.items():
        group = GROUPS[f"{zkey.curve}.g{2 if name == 'B2' else 1}"]
        # The one window has two lines, of which the first weighs 1.
        plans[name] = GpuMsmPlan(group, 1, 2, 1, 1, 1, 1)
        words = xyzz_sums(group, [point, None])
        source, zero = device.upload(words), device.allocate(16)
        lines[name] = out = device.allocate(words.nbytes, zero=False)
        flags[name] = flag = device.allocate(16, zero=False)
        recording = device.stream(name).record()
        recording.copy(source, out)
        recording.copy(zero, flag)
        stages.append(GraphStage(f"MSM {name}", recording.finish().recording))
        constants += [source, zero]
    return ProofGraph(
        device, zkey.curve, zkey.variables, zkey.public, witness, tuple(stages), lines, plans,
        flags, tuple(constants), 0,
    )  # fmt: skip


def export_table_site(folder: Path, *, symbols: bool = True, calculator: bool = True) -> Site:
    """The site of the example, for the example's witness; without a calculator it takes that."""
    sums = sums_of(Zkey.open(EXAMPLE / "circuit.zkey"), Witness.open(EXAMPLE / "witness.wtns"))
    with patch.object(site, "record_proof", lambda zkey, device: table_graph(zkey, sums, device)):
        return site.export_site(
            EXAMPLE / "circuit.zkey", EXAMPLE / "circuit.wasm" if calculator else None, folder,
            name="Membership", example=EXAMPLE / "input.json" if calculator else None,
            symbols=EXAMPLE / "circuit.sym" if symbols else None,
        )  # fmt: skip


def export_action_table_site(folder: Path, parameters: Path, info: ProofInfo) -> Site:
    """The site of a Spend, an Output or a Convert with a test key, for one document."""
    kind = info.kind
    key = action_key(kind, parameters, or_null(None), allow_insecure=True)
    sums = sums_of(key, kind.circuit().witness(info.inputs, check=False))
    with patch.object(site, "record_proof", lambda zkey, device: table_graph(zkey, sums, device)):
        return site.export_site(parameters, None, folder, action=kind, allow_insecure=True)
