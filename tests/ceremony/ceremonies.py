"""Files that snarkjs 0.7.6 made with `powersoftau new`, `contribute` and `beacon`."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data" / "ceremony"

PTAU = {name: DATA / f"{name}.ptau" for name in ("bn254", "bls12_381")}
RESPONSES = {
    "bn254": (
        "2faede6eb2cdd0bb88e551da590760403cbe83bfbd631bfa6db08d4023535905"
        "b56a30867cfa4f300b4b60feb041f38206d915e937171820a62034d89c040b1c",
        "faee440277478a3d20f7a687834633fa26b114b8f4402f7305f1a9003659b661"
        "2c830ff4ecb5a7611f627793e63a89555389faf00a5620fd0f4b8b3b320400be",
    ),
    "bls12_381": (
        "b962210059e47c7446741eea4240ee3266563966c0f6ea52ac96f05771a9e71e"
        "e98a92a13f56cb80bfe51a15d211420bf874954e9d90b62ac71cf5b999307a6f",
        "8e78d55ea6bdb48354b95e6ae5849deee6fa22512f7ef9d762826724"
        "3e94ab64"
        "32a7a95f2675f4dacd3eabbe9006d031bba717391ef566dd93a98e644e221821",
    ),
}
"""The hashes of the responses that snarkjs printed."""
