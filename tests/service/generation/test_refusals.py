"""Requests, files and configurations that a server of language models refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import grpc
import pytest

from quod.device.memory.budget import OutOfMemory
from quod.errors import InputError, MismatchError, ServiceError
from quod.inference import Transformer
from quod.inference.transformer.transformer import plan_path
from quod.service.client import GenerationRequest, ProofRequest
from quod.service.errors import NotFoundError, PermissionDeniedError
from quod.service.generation.models import ServedModel, read_model
from quod.service.generation.requests import Prompt
from quod.service.payload import PayloadKind, payload_header
from quod.service.protocol import quod_pb2 as pb
from quod.service.protocol.calls import CALLS
from quod.service.queue import JobState, Submission
from quod.service.server.clients import hashed_token
from quod.service.server.config import Config
from quod.service.server.pools import served_models
from tests.inference.transformer.models import altered
from tests.service.generation.conftest import Start
from tests.service.server.running_server import ConfiguredServer

GOOD = {"model": "tiny", "prompt": "the", "max_tokens": 3}
MESSAGE = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("fields", "status", "field", "message"),
    [
        ({"model": "other"}, 404, None, "there is no model of this name; `quod models`"),
        ({"model": ""}, 400, None, "the model must be text"),
        ({"model": 5}, 400, "model", "valid string"),
        ({"prompt": ""}, 400, None, "the prompt has no tokens"),
        ({"prompt": None}, 400, "prompt", "give either a prompt or messages"),
        ({"prompt": ["the"]}, 400, "prompt", "valid string"),
        ({"prompt": "b" * 256}, 400, None, "the prompt has 256 tokens, which leave no room"),
        ({"prompt": "b" * 3_000_000}, 400, "prompt", "has 3000000 bytes, at least"),
        ({"messages": [MESSAGE]}, 400, "prompt", "give either a prompt or messages"),
        ({"prompt": None, "messages": []}, 400, "messages", "a list of 1 to 4096 messages"),
        ({"prompt": None, "messages": [{"role": "user"}]}, 400, "messages.0.content", "required"),
        ({"prompt": None, "messages": [MESSAGE | {"x": "y"}]}, 400, "messages.0.x", "unknown"),
        ({"prompt": None, "messages": [MESSAGE] * 5000}, 400, "messages", "a list of 1 to 4096"),
        ({"max_tokens": -1}, 400, "max_tokens", "greater than or equal to 0"),
        ({"max_tokens": 1 << 40}, 400, None, "max_tokens must be a whole number from 0"),
        ({"max_tokens": "many"}, 400, "max_tokens", "valid integer"),
        ({"temperature": 1e-3}, 400, None, "the temperature must be 0, or from 0.01 to 100"),
        ({"temperature": -1}, 400, None, "the temperature must be 0, or from 0.01 to 100"),
        ({"temperature": 1e300}, 400, None, "the temperature must be 0, or from 0.01 to 100"),
        ({"seed": -1}, 400, "seed", "greater than or equal to 0"),
        ({"seed": 1 << 64}, 400, "seed", "less than or equal to"),
        ({"priority": 10}, 400, "priority", "less than or equal to 9"),
        ({"deadline": 5}, 504, None, "deadline"),
        ({"top_k": 5}, 400, "top_k", "unknown field"),
    ],
)
def test_wrong_requests(
    server: ConfiguredServer, fields: dict[str, Any], status: int, field: str | None, message: str
) -> None:
    with server.http() as http:
        for path in ("/v1/generations", "/v1/generate"):
            answer = http.post(path, json=GOOD | fields)
            assert answer.status_code == status, answer.text
            error = answer.json()["error"]
            assert (error.get("field"), message in error["message"]) == (field, True), error
    assert not server.queue.unfinished()


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"null", b'{"model": "tiny", "prompt": "a", "temperature": NaN}',
        b'{"model": "tiny", "model": "tiny", "prompt": "a"}', b"\xff", b"[" * 5000,
        b'{"model": "tiny", "prompt": "a", "seed": ' + b"9" * 5000 + b"}",
    ],
)  # fmt: skip
def test_malformed_bodies(server: ConfiguredServer, body: bytes) -> None:
    with server.http(headers={"Content-Type": "application/json"}) as http:
        answer = http.post("/v1/generate", content=body)
        assert (answer.status_code, answer.json()["error"]["reason"]) == (400, "INVALID_ARGUMENT")


def test_odd_unicode(server: ConfiguredServer) -> None:
    """NUL and characters of four bytes are texts like others."""
    with server.http(headers={"Content-Type": "application/json"}) as http:
        for text in (r"\u0000", r"\ud83d\ude00", r"\uffff", r"e\u0301\u202e"):
            body = '{"model": "tiny", "max_tokens": 2, "prompt": "' + text + '"}'
            assert "succeeded" in http.post("/v1/generate", content=body).text
        for field in (
            r'"prompt": "\ud800"', r'"messages": [{"role": "user", "content": "\udfff"}]'
        ):  # fmt: skip
            answer = http.post("/v1/generate", content='{"model": "tiny", ' + field + "}")
            assert answer.status_code == 400
            assert "has half of a pair of surrogates" in answer.text


def test_errors_of_a_model_do_not_show_its_path(start: Start, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    served = {}
    for name, template in (
        ("strict", "{{ raise_exception('roles must alternate') }}"), ("none", None),
        ("endless", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
    ):  # fmt: skip
        path = tmp_path / f"{name}.gguf"
        altered(path, model, {"tokenizer.chat_template": template}, {})
        Transformer.make_plan(path).write(plan_path(path))
        served[name] = {"path": path}
    with start(models=served).http() as http:
        for name, message in (
            ("strict", "fails: roles must alternate"), ("none", "has no chat template"),
            ("endless", "fails: it calls itself without end"),
        ):  # fmt: skip
            answer = http.post("/v1/generate", json={"model": name, "messages": [MESSAGE]})
            assert answer.status_code == 400
            assert f"the model '{name}'" in answer.text
            assert message in answer.text
            assert str(tmp_path) not in answer.text


def test_wrong_requests_over_grpc(server: ConfiguredServer) -> None:
    call = CALLS["Generate"]
    message = pb.GenerationRequest(model="tiny", prompt="a", temperature=float("nan"))
    with grpc.insecure_channel(server.listeners.grpc[0]) as channel:
        send = channel.unary_stream(call.path)
        for data in (message.SerializeToString(), b"\xff\xff", b"\x0a\x03\xff\xfe\xfd"):
            with pytest.raises(grpc.RpcError) as caught:
                list(send(data))
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with server.client() as client:
        with pytest.raises(NotFoundError, match="there is no model of this name"):
            client.submit_generation(GenerationRequest("nothing", "a"))
        # This server proves nothing.
        with pytest.raises(NotFoundError):
            client.submit(ProofRequest("membership", wtns=b"wtns"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": None}, "the model must be text"),
        ({}, "give either a prompt or messages"),
        ({"prompt": b"a"}, "must be text, not a bytes"),
        ({"messages": "hi"}, "must be a list of 1 to 4096 messages"),
        ({"messages": [{"role": "user", "content": 5}]}, "a role and a content"),
        ({"prompt": "a", "max_tokens": 2.5}, "max_tokens must be a whole number"),
        ({"prompt": "a", "temperature": "hot"}, "must be a number, not 'hot'"),
        ({"prompt": "a", "temperature": 10**400}, "is too large"),
        ({"prompt": "a", "seed": -1}, "seed must be"),
        ({"prompt": "a", "seed": 1 << 64}, "seed must be"),
    ],
)
def test_wrong_arguments_of_clients(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        GenerationRequest(**{"model": "tiny", **arguments})


def test_clients_have_their_models(start: Start, model: Path) -> None:
    token = "quod_" + "a" * 43
    server = start(
        models={"tiny": {"path": model}, "secret": {"path": model}},
        listen={"grpc": ["127.0.0.1:0"]},
        clients={"ann": {"tokens": [hashed_token(token)], "keys": ["tiny"]}},
    )
    with server.client(token=token) as client:
        assert [each.name for each in client.models()] == ["tiny"]
        assert list(client.generate(GenerationRequest("tiny", "a", max_tokens=2)))
        for name in ("secret", "absent"):
            with pytest.raises(PermissionDeniedError, match="ann may not use this key"):
                client.submit_generation(GenerationRequest(name, "a"))


def test_a_server_without_models(proving_server: ConfiguredServer) -> None:
    with proving_server.client() as client, proving_server.http() as http:
        with pytest.raises(NotFoundError, match="this server has no models"):
            client.submit_generation(GenerationRequest("tiny", "a"))
        with pytest.raises(NotFoundError, match="this server has no models"):
            client.models()
        assert http.post("/v1/generate", json=GOOD).status_code == 404


def test_jobs_of_another_configuration(server: ConfiguredServer) -> None:
    """Jobs that an earlier server accepted, whose model is another now; and damaged payloads."""
    queue = server.queue

    def ended(key: str, body: bytes, kind: PayloadKind = PayloadKind.PROMPT) -> tuple[str, str]:
        payload = queue.blob_store.write([payload_header(kind, [len(body)]), body])
        job, _ = queue.wait(queue.submit(Submission("ann", key, b"d" * 32, payload)).id)
        assert job.state is JobState.FAILED
        return job.code, job.message

    prompt = Prompt("0" * 64, (1, 2), 3, 0.0, None)
    code, message = ended("tiny", prompt.body())
    assert (code, "was replaced since the job was submitted" in message) == (
        "FAILED_PRECONDITION", True,
    )  # fmt: skip
    assert ended("gone", prompt.body())[0] == "NOT_FOUND"
    [served] = served_models(server.config)
    prompt = replace_prompt(prompt, plan=served.plan.identity)
    bodies = [b"{}", b"[1]", b"\xff", b"[" * 9000, prompt.body().replace(b"[1,2]", b'["a"]')]
    bodies += [
        replace_prompt(prompt, tokens=(10**6,)).body(),
        replace_prompt(prompt, tokens=()).body(),
        replace_prompt(prompt, temperature=1e-9).body(),
    ]
    for body in bodies:
        assert ended("tiny", body)[0] == "INVALID_ARGUMENT"
    assert "no workers for jobs of the kind wtns" in ended("tiny", b"x", PayloadKind.WTNS)[1]


def replace_prompt(prompt: Prompt, **fields: Any) -> Prompt:
    return Prompt(**{**vars(prompt), **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"filecoin": {"params": "/tmp"}}, "no workers for Filecoin, nor on a cluster"),
        ({"workers": {"warm": ["tiny"]}}, "all loaded at its start: omit warm"),
        ({"models": {"tiny:v2": {"path": "/m"}}}, "the name of a model has no tag"),
        ({"models": {"a b": {"path": "/m"}}}, "models"),
        ({"models": {"a": {"path": ""}}}, "must be a path"),
        ({"models": {"a": {"path": "/m", "context": 1}}}, "greater than or equal to 2"),
        ({"models": {"a": {"path": "/m", "sequences": 0}}}, "greater than or equal to 1"),
    ],
)
def test_wrong_configurations(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    config = {"data": tmp_path, "models": {"tiny": {"path": "/m"}}} | fields
    with pytest.raises(ValueError, match=re.escape(message)):
        Config.model_validate(config)


def test_wrong_files(tmp_path: Path, model: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.gguf"):
        read_model("a", tmp_path / "absent.gguf")
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(model.read_bytes())
    with pytest.raises(InputError, match=r"has no plan: .* make it with `quod infer plan"):
        read_model("a", copy)
    data = bytearray(copy.read_bytes())
    data[-1] ^= 1
    copy.write_bytes(data)
    with pytest.raises(MismatchError, match="the plan is for the model with SHA-256"):
        read_model("a", copy, plan=plan_path(model))


def test_too_little_memory(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server says so and is not ready; it opens the model once there is enough."""
    opened = ServedModel.open

    def fails(*_: object) -> None:
        raise OutOfMemory("the model needs 12.0 GiB, and the device has 8.0 GiB", "free memory")

    monkeypatch.setattr(ServedModel, "open", fails)
    server = start()
    with server.http() as http:
        assert http.get("/health/ready").status_code == 503
        job = http.post("/v1/generations", json=GOOD).json()
        while not (worker := http.get("/status").json()["workers"][0])["problem"]:
            pass
        assert (worker["state"], worker["problem"]) == (
            "dead", "the model needs 12.0 GiB, and the device has 8.0 GiB; free memory",
        )  # fmt: skip
        monkeypatch.setattr(ServedModel, "open", opened)
        job = http.get(f"/v1/proofs/{job['id']}?timeout=60").json()
        assert job["state"] == "succeeded"


def test_operators_calls(server: ConfiguredServer) -> None:
    with server.client() as client:
        with pytest.raises(ServiceError, match="stay open"):
            client.evict("tiny")
        with pytest.raises(NotFoundError):
            client.evict("other")
