"""gRPC calls without a token (health, reflection), within the budget for such callers."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from quod.errors import InputError, QuodError
from quod.service.protocol.calls import CUZK_SERVICE, SERVICE
from quod.service.refusals import refusal_of
from quod.service.server.budget import CALL_BYTES, Reservation, stranger
from quod.service.server.intake import Intake
from quod.service.server.rpc import Context, at_end, refuse

_PROVER_PREFIXES = f"/{SERVICE}/", f"/{CUZK_SERVICE}/"


class PublicCalls(grpc.aio.ServerInterceptor):
    """An interceptor that bounds the calls of all services but `quod.v1.Prover` and cuzk's.

    Those services have their own admission control. grpcio receives the request of a unary call
    before its handler runs, so this turns each call into one with a stream of requests, and reads
    one.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        details: grpc.HandlerCallDetails,
    ) -> Any:
        """Return the bounded handler of a call; None for an unknown call."""
        handler: Any = await continuation(details)
        if handler is None or details.method.startswith(_PROVER_PREFIXES):
            return handler
        if handler.response_streaming:
            method = handler.stream_stream or handler.unary_stream
            # A method that is not a generator writes its answers to the context itself.
            is_generator = inspect.isasyncgenfunction(method)
            bounded = (
                self._bounded_stream(handler, method)
                if is_generator
                else self._bounded_unary(handler, method)
            )
            return grpc.stream_stream_rpc_method_handler(
                bounded, response_serializer=handler.response_serializer
            )
        method = handler.stream_unary or handler.unary_unary
        return grpc.stream_unary_rpc_method_handler(
            self._bounded_unary(handler, method), response_serializer=handler.response_serializer
        )

    def _bounded_unary(self, handler: Any, method: Callable[..., Any]) -> Callable[..., Any]:
        async def run(messages: AsyncIterator[bytes], context: Context) -> Any:
            try:
                return await method(await self._argument(handler, messages, context), context)
            except QuodError as error:
                return await refuse(context, refusal_of(error))

        return run

    def _bounded_stream(self, handler: Any, method: Callable[..., Any]) -> Callable[..., Any]:
        async def run(messages: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
            try:
                async for answer in method(
                    await self._argument(handler, messages, context), context
                ):
                    yield answer
            except QuodError as error:
                await refuse(context, refusal_of(error))

        return run

    async def _argument(
        self, handler: Any, messages: AsyncIterator[bytes], context: Context
    ) -> Any:
        """Return the request of a call, or the stream of its requests."""
        reservation = self._intake.budget.of(stranger(context.peer()))
        at_end(context, reservation.close)
        reservation.take(CALL_BYTES)
        requests = self._requests(handler, messages, reservation)
        if handler.request_streaming:
            return requests
        async for request in requests:
            return request
        raise InputError("the call has no request")

    async def _requests(
        self, handler: Any, messages: AsyncIterator[bytes], reservation: Reservation
    ) -> AsyncIterator[Any]:
        # Requests without a token are short.
        seconds = self._intake.limits.seconds_for(0)
        while (message := await self._intake.message(messages, reservation, seconds)) is not None:
            if len(message) > CALL_BYTES:
                raise InputError(
                    f"a request of this call must have at most {CALL_BYTES} bytes; send less"
                )
            yield handler.request_deserializer(message)
            reservation.return_to(CALL_BYTES)
