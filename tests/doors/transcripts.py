"""Transcripts and commitments in the table of public calls."""

from __future__ import annotations

from collections.abc import Iterator

from quod import commitment, field, transcript
from quod.field import NAMED, from_integers
from tests.doors.row import DEVICE, G1, GENERATOR, MODULUS, OPTIONAL, POWERS, Row
from tests.support.bound import bound


def rows_of_commitment(
    scheme: commitment.Scheme, modulus: field.Modulus
) -> Iterator[tuple[str, Row]]:
    """The calls of one scheme, about the constant 1."""
    name, size = scheme.name, {"field": modulus, "log2_size": 1}
    yield f"{name} error_terms", Row(scheme.error_terms, size)
    yield f"{name} committer", Row(
        scheme.committer, {"device": DEVICE, **size, "allow_bits": 0}
    )  # fmt: skip
    committer = scheme.committer(DEVICE, modulus, 1, allow_bits=0)
    table, claims = DEVICE.upload(from_integers(modulus, [1, 1])), [commitment.Claim(((5,),), (1,))]

    def writer() -> transcript.ProofWriter:
        return transcript.ProofWriter(bound())

    written = writer()
    yield f"{name} commit", Row(committer.commit, {"table": table, "writer": writer()})
    committer.commit(table, written)
    yield f"{name} open", Row(committer.open, {"claims": claims, "writer": written})
    # What comes to the host beside other work is there when claims are opened.
    committer.open(claims, writer())
    proof = written.getvalue()

    def reader() -> transcript.ProofReader:
        return transcript.ProofReader(proof, writer().transcript)

    yield f"{name} read", Row(
        scheme.read, {"reader": reader(), **size, "allow_bits": 0}
    )  # fmt: skip
    reading = reader()
    read = scheme.read(reading, modulus, 1, allow_bits=0)
    yield f"{name} check", Row(read.check, {"claims": claims, "reader": reading})


def rows() -> Iterator[tuple[str, Row]]:
    """Of transcripts and of commitments."""
    talk = transcript.Transcript()
    talk.absorb(transcript.Label.PROTOCOL, b"x")
    yield (
        "Transcript",
        Row(
            transcript.Transcript,
            {
                "state": bytes(32),
                "drawn": False,
                "bound": False,
                "hash": transcript.Hash.SHA_256,
                "recursive": False,
            },
            {"drawn": ("true",), "recursive": ("true",)},
        ),
    )
    yield "absorb_table", Row(
        talk.absorb_table, {"field": MODULUS, "table": from_integers(MODULUS, [1, 2])}
    )  # fmt: skip
    yield "begin", Row(talk.begin, {"protocol": "test 1"}, {"protocol": ("text",)})
    yield "digest", Row(
        transcript.Hash.SHA_256.digest, {"data": b"", "field": None},
        {"data": ("bytes",), "field": OPTIONAL},
    )  # fmt: skip
    label = transcript.Label.CLAIM
    yield "absorb", Row(
        talk.absorb, {"label": label, "message": b"", "field": None},
        {"message": ("bytes",), "field": OPTIONAL},
    )  # fmt: skip
    digested = {"label": label, "field": MODULUS, "data": b"", "before": b""}
    yield "absorb_digest", Row(
        talk.absorb_digest, digested, {"data": ("bytes",), "before": ("bytes",)}
    )  # fmt: skip
    yield "absorb_digested", Row(
        talk.absorb_digested, {"label": label, "digest": b"", "before": b""},
        {"digest": ("bytes",), "before": ("bytes",)},
    )  # fmt: skip
    yield "digest_by_runs", Row(
        transcript.Hash.SHA_256.digest_by_runs, {"data": b"", "field": None, "level": 0},
        {"data": ("bytes",), "field": OPTIONAL},
    )  # fmt: skip
    yield (
        "absorb_elements",
        Row(talk.absorb_elements, {"label": label, "field": MODULUS, "elements": [(1,)]}),
    )
    yield "challenge", Row(talk.challenge, {"field": MODULUS})
    yield "challenges", Row(talk.challenges, {"field": MODULUS, "count": 1})
    yield "ProofWriter", Row(transcript.ProofWriter, {"transcript": talk})
    writer = transcript.ProofWriter(talk)
    yield (
        "ProofWriter.elements",
        Row(writer.elements, {"label": label, "field": MODULUS, "elements": [(1,)]}),
    )
    yield (
        "ProofReader",
        Row(transcript.ProofReader, {"proof": b"", "transcript": talk}, {"proof": ("bytes",)}),
    )
    yield "ProofWriter.points", Row(
        writer.points, {"label": label, "group": G1, "points": [GENERATOR], "compressed": True},
        {"points": ("a list",), "compressed": ("true",)},
    )  # fmt: skip
    reader = transcript.ProofReader(bytes(32), transcript.Transcript())
    yield (
        "ProofReader.elements",
        Row(reader.elements, {"label": label, "field": MODULUS, "count": 1}),
    )
    yield "ProofReader.points", Row(
        transcript.ProofReader(bytes(31) + b"\x40", transcript.Transcript()).points,
        {"label": label, "group": G1, "count": 1, "compressed": True}, {"compressed": ("true",)},
    )  # fmt: skip
    yield (
        "ProofWriter.message",
        Row(writer.message, {"label": label, "message": b""}, {"message": ("bytes",)}),
    )
    yield "ProofReader.message", Row(reader.message, {"label": label, "size": 1})
    of_tau = commitment.ReferenceString.of_tau
    yield "ReferenceString", Row(of_tau, {"tau": 5, "log2_size": 1, "insecure": True},
                                 {"tau": ("huge",), "insecure": ("true",)})  # fmt: skip
    yield "ReferenceString.from_ptau", Row(
        commitment.ReferenceString.from_ptau,
        {"path": POWERS, "log2_size": 1, "device": DEVICE, "insecure": True},
        {"insecure": ("true",)},
    )  # fmt: skip
    string = of_tau(5, 1, insecure=True)
    yield "ReferenceString.of_verifier", Row(
        commitment.ReferenceString.of_verifier,
        {"tau_g1": string.tau_g1[1:], "tau_g2": string.tau_g2, "insecure": True},
        {"insecure": ("true",)},
    )  # fmt: skip
    yield "HyperKzg", Row(commitment.HyperKzg, {"reference": string})
    for scheme in (commitment.Raw(), commitment.Hyrax(), commitment.HyperKzg(string)):
        yield from rows_of_commitment(scheme, MODULUS)
    yield from rows_of_commitment(commitment.Ligero(), NAMED["goldilocks"])
    yield "Ligero", Row(commitment.Ligero, {"log_blowup": 2, "column_bits": 110})
    yield "shape", Row(commitment.Ligero().shape, {"field": NAMED["m31"], "log2_size": 1})
