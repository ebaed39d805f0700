"""Gas of verifier contracts, Quod's and snarkjs's; independent of the machine."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from quod.bench.measure.harness import Case, Parameter
from quod.bench.peers.evm import Job, call, run_contracts, why_no_evm
from quod.bench.peers.provers import find_snarkjs
from quod.errors import InputError

_CONSTRAINTS = 5
_SEED = 1
_HARDFORK = "prague"


def cases(curve: str) -> Iterator[Case]:
    """Yield the gas of `verifyProof` and of deployment, with and without solc's optimizer.

    `verifyProof` gets a valid proof with one public input; precompiles are warm.
    """
    from quod.bench.chain import ChainCircuit
    from quod.groth16 import ProvingKey
    from quod.groth16.encodings.solidity import solidity_calldata, solidity_verifier
    from quod.groth16.setup import make_key, write_key

    absent = why_no_evm()
    if absent is not None:
        raise InputError(f"gas cannot be measured: {absent}")
    circuit = ChainCircuit(curve, _CONSTRAINTS)
    with tempfile.TemporaryDirectory(prefix="quod-bench-solidity-") as folder:
        zkey = Path(folder) / "c.zkey"
        write_key(make_key(circuit, _SEED), zkey)
        key = ProvingKey.from_zkey(zkey, allow_insecure=True)
        proof, public = key.prove(circuit.witness())
        sources = {"quod": solidity_verifier(key.verifying_key, allow_insecure=True)}
        snarkjs = find_snarkjs()
        if snarkjs is not None and curve == "bn254":
            snarkjs_contract = Path(folder) / "theirs.sol"
            words = [
                snarkjs,
                "zkey",
                "export",
                "solidityverifier",
                str(zkey),
                str(snarkjs_contract),
            ]
            subprocess.run(words, check=True, capture_output=True)
            sources["snarkjs"] = snarkjs_contract.read_text()
    data = "".join(re.findall(r"0x([0-9a-f]{64})", solidity_calldata(proof, public)))
    rows = [(name, optimizer) for name in sources for optimizer in (True, False)]
    jobs = [
        Job(
            source=sources[name], contract="Groth16Verifier", optimizer=optimizer,
            hardfork=_HARDFORK, calls=[call("verifyProof", data)],
        )
        for name, optimizer in rows
    ]  # fmt: skip
    for (name, optimizer), outcome in zip(rows, run_contracts(jobs), strict=True):
        (call_result,) = outcome["calls"]
        if call_result["error"] or int(call_result["returned"], 16) != 1:
            raise InputError(
                f"the contract of {name} rejects a valid proof: {json.dumps(call_result)}"
            )
        parameters: dict[str, Parameter] = {
            "contract": name, "curve": curve, "inputs": len(public), "optimizer": optimizer,
        }  # fmt: skip
        for what, figure in (
            ("verifyProof", call_result["gas"]),
            ("deploy", outcome["deploy_gas"]),
        ):
            yield Case(
                parameters | {"what": what}, partial(int, figure), unit="gas", returns_figure=True
            )
