"""The tree of commands. Each group has its own module, which imports lazily."""

from __future__ import annotations

from quod import bench
from quod.cli import (
    devices,
    export_web,
    gkr,
    inspect,
    r1cs,
    resident,
    wtns,
    zcash,
)
from quod.cli.ceremony import powersoftau, solidity, zkey
from quod.cli.filecoin import files as filecoin
from quod.cli.filecoin import proving as filecoin_proving
from quod.cli.filecoin import verifying as filecoin_verifying
from quod.cli.groth16 import commands as groth16
from quod.cli.groth16 import fullprove
from quod.cli.infer import answers
from quod.cli.infer import commands as infer
from quod.cli.kernel import commands as kernel
from quod.cli.parameters import Group
from quod.cli.service import generate, jobs, keys, serve

# Ordered by frequency of use, as in the root's help.
COMMANDS = Group(
    "Prove and verify on CPUs and GPUs.",
    {
        "groth16": Group(
            "Groth16 proofs with the keys and witnesses of circom and snarkjs.",
            {
                "prove": groth16.prove,
                "verify": groth16.verify,
                "setup": groth16.setup,
                "test-key": groth16.make_test_key,
                "fullprove": fullprove.fullprove,
            },
        ),
        "wtns": Group(
            "Witnesses.",
            {
                "calculate": wtns.calculate,
                "check": wtns.check,
                "export": Group("Write a witness in another form.", {"json": wtns.json}),
            },
        ),
        "zkey": Group(
            "Proving keys.",
            {
                "new": groth16.setup,
                "verify": zkey.verify,
                "contribute": zkey.contribute,
                "beacon": zkey.beacon,
                "export": Group(
                    "Export parts of a proving key.",
                    {
                        "verificationkey": zkey.verificationkey,
                        "bellman": zkey.bellman,
                        "json": zkey.json,
                        "solidityverifier": solidity.solidityverifier,
                        "soliditycalldata": solidity.soliditycalldata,
                    },
                ),
                "import": Group(
                    "Import a contribution of another program.", {"bellman": zkey.import_bellman}
                ),
            },
        ),
        "powersoftau": Group(
            "Powers of tau: the first phase of a ceremony.",
            {
                "new": powersoftau.new,
                "prepare": powersoftau.prepare,
                "truncate": powersoftau.truncate,
                "verify": powersoftau.verify,
                "contribute": powersoftau.contribute,
                "beacon": powersoftau.beacon,
                "export": Group(
                    "Export points for another program.", {"challenge": powersoftau.challenge}
                ),
                "import": Group(
                    "Import a contribution of another program.", {"response": powersoftau.response}
                ),
            },
        ),
        "r1cs": Group(
            "Constraint systems.",
            {
                "info": r1cs.info,
                "print": r1cs.print_constraints,
                "check": r1cs.check,
                "compile": r1cs.compile_circuit,
                "export": Group("Write a constraint system in another form.", {"json": r1cs.json}),
            },
        ),
        "inspect": inspect.inspect,
        "export-web": export_web.export_web,
        "gkr": Group(
            "GKR proofs of layered circuits, Quod's and Expander's. Not zero knowledge.",
            {
                "info": gkr.info,
                "compile": gkr.compile_key,
                "prove": gkr.prove,
                "verify": gkr.verify,
                "inspect": inspect.inspect,
            },
        ),
        "infer": Group(
            "Language models (GGUF) in exact integers: the same bits on every device.",
            {
                "inspect": infer.inspect,
                "plan": infer.plan,
                "run": infer.run,
                "score": infer.score,
                "commit": answers.commit,
                "prove": answers.prove,
                "verify": answers.verify,
            },
        ),
        "zcash": Group(
            "Proofs of Zcash's Sapling and of MASP: Spends, Outputs and Converts.",
            {
                "prove-spend": zcash.prove_spend,
                "prove-output": zcash.prove_output,
                "prove-convert": zcash.prove_convert,
                "prove-bundle": zcash.prove_bundle,
                "verify": zcash.verify,
                "circuit": zcash.write_circuit,
            },
        ),
        "filecoin": Group(
            "Filecoin's proofs of replication, of spacetime and of updates.",
            {
                "prove": filecoin_proving.prove,
                "prove-update": filecoin_proving.prove_update,
                "prove-window-post": filecoin_proving.prove_window_post,
                "prove-winning-post": filecoin_proving.prove_winning_post,
                "verify": filecoin_verifying.verify,
                "params": filecoin.params,
                "inspect": filecoin.inspect,
                "seal-test": filecoin.seal_test,
            },
        ),
        "serve": serve.serve,
        "submit": jobs.submit,
        "wait": jobs.wait,
        "generate": generate.generate,
        "models": generate.models,
        "status": jobs.status,
        "cancel": jobs.cancel,
        "keys": Group(
            "Keys of the proving service.",
            {
                "add": keys.add,
                "list": keys.list_keys,
                "show": keys.show_key,
                "check": keys.check,
                "remove": keys.remove,
                "served": keys.served,
                "preload": keys.preload,
                "evict": keys.evict,
                "resume": keys.resume,
            },
        ),
        "resident": Group(
            "The process that keeps opened keys for commands with --resident.",
            {"status": resident.status, "stop": resident.stop},
        ),
        "devices": devices.devices,
        "kernel": Group(
            "Kernels of Quod.",
            {
                "list": kernel.list_kernels,
                "emit": kernel.emit,
                "analyze": kernel.analyze,
                "build": kernel.build,
                "bench": kernel.bench,
            },
        ),
        "bench": bench.COMMANDS,
    },
)
