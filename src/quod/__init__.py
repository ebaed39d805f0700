"""Proofs and verification on GPUs and CPUs, with kernels written in Python.

    import quod

    key = quod.ProvingKey.from_zkey("circuit.zkey")
    proof, public = key.prove("witness.wtns")
    assert key.verifying_key.verify(public, proof)

The public names below are imported on first use (PEP 562), so that ``import quod`` is fast.
"""

from __future__ import annotations

from quod.errors import DeviceError as DeviceError
from quod.errors import InputError as InputError
from quod.errors import InsecureKeyError as InsecureKeyError
from quod.errors import KernelError as KernelError
from quod.errors import MismatchError as MismatchError
from quod.errors import OutputError as OutputError
from quod.errors import QuodError as QuodError
from quod.errors import ServiceError as ServiceError
from quod.errors import TryAgainError as TryAgainError
from quod.errors import VerificationError as VerificationError
from quod.lazy import lazy_names

# Not the name of `typing`, whose import takes as long as the start of Python.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from quod import msm as msm
    from quod import ntt as ntt
    from quod.device import devices as devices
    from quod.device.cache.compilations import progress as progress
    from quod.device.runtime.timeline import Timeline as Timeline
    from quod.groth16 import Proof as Proof
    from quod.groth16 import ProvingKey as ProvingKey
    from quod.groth16 import VerifyingKey as VerifyingKey

__version__ = "0.1.0"

_PACKAGES = (
    "msm", "ntt", "sumcheck", "transcript", "commitment", "ceremony", "lookup", "layered", "gkr",
    "groth16", "inference", "formats", "kernel", "codegen", "device", "field", "curve", "witness",
    "service", "r1cs", "zcash", "tensor", "testing",
)  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__, _PACKAGES)
