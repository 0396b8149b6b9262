"""Who may ask for what, and what a wrong question gets."""

from __future__ import annotations

import pytest

from pytubemq.errors import EnvelopeError
from pytubemq.wire.protocol.messages.broker import SendMessageRequestP2B
from pytubemq.wire.protocol.messages.master import CloseRequestP2M
from pytubemq.wire.rpc.envelope import Request
from pytubemq.wire.rpc.methods import METHODS, Method, Service, method_for
from pytubemq.wire.serialization.message_bytes import encode

MASTER = frozenset({Service.MASTER})
BROKER = frozenset({Service.BROKER_READ, Service.BROKER_WRITE})
CLOSE = encode(CloseRequestP2M(client_id="p"))
SEND = encode(
    SendMessageRequestP2B(client_id="p", topic_name="t", partition_id=0, data=b"x", flag=0, check_sum=-1, sent_addr=0)
)
# The original's accepted pairs, less its reserved numbers 11, 12, 14 and 19, which have no messages.
ORIGINAL_PAIRS = {
    *((1, method) for method in (1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 22)),
    *((2, method) for method in (13, 15, 16, 17, 18)),
    (3, 13),
}


def request(service: int, method: int, body: bytes = b"") -> Request:
    return Request(1, service, method, 1000, 3, None, body)


def refusal(asked: Request, offered: frozenset[int]) -> EnvelopeError:
    with pytest.raises(EnvelopeError) as caught:
        method_for(asked, offered=offered)
    return caught.value


def test_the_originals_pairs_and_no_others() -> None:
    pairs = {(int(service), number) for number, spec in METHODS.items() for service in spec.services}
    assert {pair for pair in pairs if pair[1] < 100} == ORIGINAL_PAIRS
    assert set(METHODS) == {int(method) for method in Method}


def test_found() -> None:
    spec = method_for(request(1, 3, CLOSE), offered=MASTER)
    assert (spec.method, spec.request) == (Method.PRODUCER_CLOSE_P2M, CloseRequestP2M)
    for service in (2, 3):  # the Go client sends through the read service
        assert method_for(request(service, 13), offered=BROKER).method is Method.SEND_MESSAGE_P2B


@pytest.mark.parametrize("method", [0, 10, 11, 12, 14, 19, 23, 99, 100, 106, -1])
def test_unknown_methods(method: int) -> None:
    error = refusal(request(1, method), MASTER)
    assert (error.fatal, error.exception_name) == (True, "java.lang.Exception")
    assert error.text == f"IPC server handle request error :Unsupported method ID :{method}"


@pytest.mark.parametrize("service", [0, 6, -3, 99])
def test_invalid_services(service: int) -> None:
    error = refusal(request(service, 3, CLOSE), MASTER)
    assert (error.fatal, error.exception_name, error.text) == (False, "java.lang.Exception", "Service Type is invalid!")


@pytest.mark.parametrize(("service", "offered"), [(2, MASTER), (3, MASTER), (4, MASTER), (5, BROKER), (1, BROKER)])
def test_services_of_another_server(service: int, offered: frozenset[int]) -> None:
    error = refusal(request(service, 3, CLOSE), offered)
    assert (error.fatal, error.text) == (False, f"No service {service} found on the server")


def test_a_pair_that_does_not_exist() -> None:
    error = refusal(request(1, 13, SEND), MASTER)
    assert (error.fatal, error.text) == (False, "Unsupported method 13in service type 1!")


def test_the_message_is_looked_at_before_the_service() -> None:
    error = refusal(request(3, 17, CLOSE), BROKER)
    assert error.fatal
    assert error.exception_name == "com.google.protobuf.InvalidProtocolBufferException"
    assert error.text == "IPC server handle request error :Message missing required fields: " + (
        "partitionId, groupName, topicName"
    )
