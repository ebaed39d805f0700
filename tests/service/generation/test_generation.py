"""Text from a server: the tokens of the model alone, streamed, cancelled and retried."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from quod.errors import DeviceError, InputError, ServiceError
from quod.inference import Batch, Transformer
from quod.inference.transformer.generation import Step
from quod.inference.transformer.tokenizer import Tokenizer
from quod.service.client import AsyncClient, GenerationRequest, JobState, Tokens
from quod.service.errors import UnavailableError
from quod.service.queue import JobQueue, Lease
from tests.service.generation.conftest import Start
from tests.service.server.running_server import ConfiguredServer

PROMPTS = ("the 12 an", "a", "b" * 150, "the the 1 an", "zz", "12")


def alone(transformer: Transformer, prompt: str, count: int, **options: Any) -> list[int]:
    return [each.token for each in transformer.generate(prompt, count, **options)]


def joined(stream: Iterator[Tokens]) -> tuple[list[int], str]:
    """All tokens of a stream, which leaves none out, and their text."""
    tokens, text = list[int](), ""
    for part in stream:
        assert part.first == len(tokens)
        tokens += part.tokens
        text += part.text
    return tokens, text


def events(answer: str) -> list[tuple[str, dict[str, Any]]]:
    """The events of a stream of HTTP, with their data."""
    stream = []
    for block in answer.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        if fields:
            stream.append((fields["event"], json.loads(fields["data"])))
    return stream


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each token take a while."""
    step = Batch.step

    def slow_step(batch: Batch) -> list[Step]:
        time.sleep(0.02)
        return step(batch)

    monkeypatch.setattr(Batch, "step", slow_step)


def test_streams_are_what_the_model_generates(
    server: ConfiguredServer, transformer: Transformer
) -> None:
    expected = alone(transformer, "the 12 an", 20)
    with server.client() as client:
        [model] = client.models()
        assert joined(client.generate(GenerationRequest("tiny", "the 12 an", max_tokens=20))) == (
            expected, transformer.tokenizer.decode(expected)
        )  # fmt: skip
        assert (model.name, model.architecture, model.context) == ("tiny", "llama", 256)
        job = client.jobs(1)[0]
        [result] = client.wait(job.id, 60).results
        assert client.wait(job.id).text == result["text"] == transformer.tokenizer.decode(expected)
        assert result == {
            "text": result["text"], "tokens": expected, "prompt_tokens": 6, "finish": "length",
            "model": transformer.plan.digest.hex(), "plan": transformer.plan.identity,
        }  # fmt: skip
        assert (model.digest, model.plan) == (result["model"], result["plan"])


def test_jobs_share_a_batch_without_a_change_of_a_token(
    server: ConfiguredServer, transformer: Transformer
) -> None:
    """More jobs than sequences, which enter and leave one batch; each is as it would be alone."""

    def generate(number: int) -> list[int]:
        request = GenerationRequest(
            "tiny", PROMPTS[number % 6], None, 15 + 9 * number, 2.5 * (number % 2), number
        )
        with server.client() as client:
            return joined(client.generate(request))[0]

    with ThreadPoolExecutor(9) as threads:
        texts = list(threads.map(generate, range(9)))
    for number, tokens in enumerate(texts):
        assert tokens == alone(
            transformer, PROMPTS[number % 6], 15 + 9 * number, temperature=2.5 * (number % 2),
            seed=number.to_bytes(8, "little"),
        )  # fmt: skip


def test_chat_over_http(server: ConfiguredServer, transformer: Transformer) -> None:
    messages = [{"role": "user", "content": "an 12"}]
    expected = alone(transformer, transformer.chat(messages), 7)
    body = {"model": "tiny", "messages": messages, "max_tokens": 7}
    with server.http() as http:
        assert http.get("/v1/models").json()["models"][0]["name"] == "tiny"
        stream = events(http.post("/v1/generate", json=body).text)
        kinds = [kind for kind, _ in stream]
        assert kinds[0] == kinds[-1] == "job"
        assert kinds[1:3] == ["queued", "started"]
        tokens = [
            int(token)
            for kind, event in stream
            if kind == "progress"
            for token in event["data"]["tokens"].split()
        ]
        assert tokens == expected == stream[-1][1]["results"][0]["tokens"]
        # The same as a job, and its events.
        answer = http.post("/v1/generations", json=body | {"idempotency_key": "k"})
        again = http.post("/v1/generations", json=body, headers={"Idempotency-Key": "k"})
        assert (answer.status_code, answer.json()["id"]) == (202, again.json()["id"])
        job = http.get(f"{answer.headers['location']}?timeout=60").json()
        assert job["results"][0]["tokens"] == expected
        assert "progress" in http.get(f"{answer.headers['location']}/events").text
        other = http.post("/v1/generations", json=body | {"idempotency_key": "k", "seed": 1})
        assert other.status_code == 409


def test_the_asynchronous_client(server: ConfiguredServer, transformer: Transformer) -> None:
    async def run() -> None:
        request = GenerationRequest("tiny", "a", max_tokens=5)
        async with AsyncClient(server.listeners.grpc[0]) as client:
            parts = [part async for part in client.generate(request)]
            assert [token for part in parts for token in part.tokens] == alone(transformer, "a", 5)
            assert [model.name for model in await client.models()] == ["tiny"]
            job = await client.submit_generation(request)
            assert (await client.wait(job.id, 60)).state is JobState.SUCCEEDED

    asyncio.run(run())


def test_the_ends_of_a_text(server: ConfiguredServer, transformer: Transformer) -> None:
    with server.client() as client:
        nothing = client.submit_generation(GenerationRequest("tiny", "a", max_tokens=0))
        [result] = client.wait(nothing.id, 60).results
        assert (result["tokens"], result["finish"]) == ([], "length")
        full = client.submit_generation(GenerationRequest("tiny", "a b" * 80, max_tokens=10**6))
        [result] = client.wait(full.id, 60).results
        assert result["prompt_tokens"] + len(result["tokens"]) == transformer.context
        hot = [GenerationRequest("tiny", "a", None, 250, 50.0, seed) for seed in range(4)]
        results = [client.wait(client.submit_generation(each).id, 60).results[0] for each in hot]
        assert "stop" in [each["finish"] for each in results]
        assert all(len(each["tokens"]) < 250 for each in results if each["finish"] == "stop")


@pytest.mark.usefixtures("slow")
def test_cancelled_jobs_leave_the_batch(server: ConfiguredServer) -> None:
    request = GenerationRequest("tiny", "the", max_tokens=200)
    with server.client() as client, server.http() as http:
        # By name, by the end of a stream of gRPC, and by that of one of HTTP.
        job = client.submit_generation(request)
        assert next(event for event in client.watch(job.id) if event.kind == "progress")
        assert client.cancel(job.id).state is JobState.CANCELLED
        stream = client.generate(request)
        next(stream)
        stream.close()
        body = {"model": "tiny", "prompt": "the", "max_tokens": 200}
        with http.stream("POST", "/v1/generate", json=body) as answer:
            assert next(line for line in answer.iter_lines() if "progress" in line)
        # With an idempotency key the job goes on.
        kept = body | {"idempotency_key": "keep", "max_tokens": 30}
        with http.stream("POST", "/v1/generate", json=kept) as answer:
            assert next(line for line in answer.iter_lines() if "progress" in line)
        deadline = time.monotonic() + 60
        while (jobs := client.jobs(4)) and not all(job.state.ended for job in jobs):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        states = [job.state for job in jobs]
        assert states == [JobState.SUCCEEDED, *[JobState.CANCELLED] * 3]
        [worker] = client.status().document["workers"]  # type: ignore[index]
        assert worker["jobs"] == []


def test_a_retried_job_repeats_no_token(
    start: Start, transformer: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device fails amid two texts; their streams go on where they were."""
    server, step, failures = start(), Batch.step, [40]

    def failing_step(batch: Batch) -> list[Step]:
        failures[0] -= 1
        time.sleep(0.01)
        if not failures[0]:
            raise DeviceError("the device fell off the bus")
        return step(batch)

    monkeypatch.setattr(Batch, "step", failing_step)
    requests = [GenerationRequest("tiny", prompt, max_tokens=60) for prompt in ("a", "the 12")]
    with server.client() as client, ThreadPoolExecutor(2) as threads:
        texts = list(threads.map(lambda request: joined(client.generate(request))[0], requests))
        kinds = [event.kind for event in client.watch(client.jobs(1)[0].id)]
    assert failures[0] < 0
    assert texts == [alone(transformer, prompt, 60) for prompt in ("a", "the 12")]
    assert "retrying" in kinds


@pytest.mark.usefixtures("slow")
def test_a_stream_after_reports_that_the_queue_could_not_confirm(
    server: ConfiguredServer, transformer: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No token is left out or repeated, whether the queue has stored a report or not."""
    renew, reports = JobQueue.renew, [0]

    def unsure(queue: JobQueue, leases: Sequence[Lease], **fields: Any) -> Any:
        if not fields.get("progress"):
            return renew(queue, leases, **fields)
        reports[0] += 1
        if reports[0] % 3 == 0:
            raise UnavailableError("the database cannot be reached", retry_seconds=1)
        outcome = renew(queue, leases, **fields)
        if reports[0] % 3 == 1:
            raise UnavailableError("the database cannot be reached", retry_seconds=1)
        return outcome

    monkeypatch.setattr(JobQueue, "renew", unsure)
    with server.client() as client:
        tokens = joined(client.generate(GenerationRequest("tiny", "the 12 an", max_tokens=30)))[0]
    expected = alone(transformer, "the 12 an", 30)
    assert reports[0] > 4
    assert tokens == expected[: len(tokens)]
    assert len(tokens) > 20


def test_a_token_without_a_spelling_ends_its_text_alone(
    server: ConfiguredServer, transformer: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a damaged vocabulary; the other text of the batch goes on."""
    wrong = alone(transformer, "the Work", 5)[4]
    spelled = Tokenizer._bytes_of

    def fails(tokenizer: Tokenizer, token: int, special: bool) -> bytes:
        if token == wrong:
            raise InputError(f"token {token} has a character that stands for no byte")
        return spelled(tokenizer, token, special)

    good = next(p for p in PROMPTS if wrong not in alone(transformer, p, 12))
    expected = alone(transformer, good, 12)
    monkeypatch.setattr(Tokenizer, "_bytes_of", fails)
    with server.client() as client:
        jobs = [
            client.submit_generation(GenerationRequest("tiny", prompt, max_tokens=12))
            for prompt in ("the Work", good)
        ]
        failed, succeeded = (client.wait(job.id, 60) for job in jobs)
    assert (failed.state, failed.code) == (JobState.FAILED, "INVALID_ARGUMENT")
    assert "stands for no byte" in failed.message
    assert succeeded.results[0]["tokens"] == expected


@pytest.mark.usefixtures("slow")
def test_a_server_that_ends(start: Start) -> None:
    """Draining finishes what is generated; a stream of a job in the queue ends with a reason."""
    server = start(requests={"drain_seconds": 30})
    request = GenerationRequest("tiny", "the", max_tokens=30)
    with server.client() as client:
        streams = [client.generate(request) for _ in range(3)]
        parts = [next(stream) for stream in streams]
        server.end()
        for part, stream in zip(parts, streams, strict=True):
            assert len(part.tokens) + len(joined_after(part, stream)) == 30
        with pytest.raises(ServiceError, match=r"drain|reached|answer"):
            list(client.generate(request))
    assert server.join() is True


def joined_after(part: Tokens, stream: Iterator[Tokens]) -> list[int]:
    tokens: list[int] = []
    for each in stream:
        assert each.first == len(part.tokens) + len(tokens)
        tokens += each.tokens
    return tokens
