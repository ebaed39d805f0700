"""The calls of the services, read from the descriptors of quod.proto and cuzk.proto."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, ServiceDescriptor
from google.protobuf.message import Message

from quod.frozen import frozen
from quod.service.protocol import cuzk_pb2, quod_pb2

_SERVICE: Final = quod_pb2.DESCRIPTOR.services_by_name["Prover"]

SERVICE: Final[str] = _SERVICE.full_name
"""``quod.v1.Prover``."""

_CUZK: Final = cuzk_pb2.DESCRIPTOR.services_by_name["ProvingEngine"]

CUZK_SERVICE: Final[str] = _CUZK.full_name
"""``cuzk.v1.ProvingEngine``."""


@frozen
class RemoteCall:
    """A call of the protocol.

    name: the name of the method; path: its full gRPC path.
    request_streams, response_streams: whether requests and responses are streams.
    request_fields: the descriptor of the request message.
    write_request, read_request, write_response, read_response: serialisers and parsers.
    """

    name: str
    path: str
    request_streams: bool
    response_streams: bool
    request_fields: Descriptor
    write_request: Callable[[Any], bytes]
    read_request: Callable[[bytes], Any]
    write_response: Callable[[Any], bytes]
    read_response: Callable[[bytes], Any]


def _calls(service: ServiceDescriptor) -> dict[str, RemoteCall]:
    calls_by_name = {}
    for method in service.methods:
        request: type[Message] = message_factory.GetMessageClass(method.input_type)
        response: type[Message] = message_factory.GetMessageClass(method.output_type)
        calls_by_name[method.name] = RemoteCall(
            method.name,
            f"/{service.full_name}/{method.name}",
            bool(method.client_streaming),
            bool(method.server_streaming),
            method.input_type,
            request.SerializeToString,
            request.FromString,
            response.SerializeToString,
            response.FromString,
        )
    return calls_by_name


CALLS: Final = _calls(_SERVICE)
"""The calls of `SERVICE` by name."""

CUZK_CALLS: Final = _calls(_CUZK)
"""The calls of `CUZK_SERVICE` by name."""
