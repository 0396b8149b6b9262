"""Dispatch of calls to the room that serves them, and of refusals to responses.

The invariant: every request of a known method gets exactly one response: its own, one with a code other than 200 in
the shape the original gives it, or an exception.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code, FormatError, TubeError
from pytubemq.master.access.authenticator import Unidentified
from pytubemq.master.access.late_signers import asked_to_sign, is_unsigned, shows_token_alone
from pytubemq.master.brokers.broker_responses import refused_heartbeat as refused_broker
from pytubemq.master.groups import client_balance as clients
from pytubemq.master.groups.consumers import Consumers
from pytubemq.master.groups.consumers import refused_heartbeat as refused_consumer
from pytubemq.master.leader.standby import check_leads
from pytubemq.master.producers import refused_heartbeat as refused_producer
from pytubemq.net.server.waiting_calls import bounded
from pytubemq.wire.protocol.messages import master
from pytubemq.wire.rpc.methods import METHODS, Method
from pytubemq.wire.serialization.message_bytes import decode, encode

if TYPE_CHECKING:
    from pytubemq.master.access.access import Access
    from pytubemq.master.access.late_signers import LateSigners
    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.groups.client_balance import ClientBalance
    from pytubemq.master.groups.partitions.long_reports import LongReports
    from pytubemq.master.metrics import Calls
    from pytubemq.master.producers import Producers
    from pytubemq.net.server.call import Call, Handler

RefusedAnswer = Callable[[int, str], Any]
Work = Callable[[Any, Any], Any]
"""The work of a method: its call and its request to its response, or None if that comes later."""

_SIGNED_LATE: Final = (
    (Method.CONSUMER_REGISTER_C2M, Method.CONSUMER_HEARTBEAT_C2M),
    (Method.CONSUMER_REGISTER_C2M_V2, Method.CONSUMER_HEARTBEAT_C2M_V2),
)
"""Registrations that a Java consumer does not sign, each with the heartbeat that it signs when it is asked to."""
_OF_CONSUMERS: Final = (
    Method.CONSUMER_REGISTER_C2M,
    Method.CONSUMER_HEARTBEAT_C2M,
    Method.CONSUMER_CLOSE_C2M,
    Method.CONSUMER_REGISTER_C2M_V2,
    Method.CONSUMER_HEARTBEAT_C2M_V2,
    Method.GET_PART_META_C2M,
)
_HEARTBEATS: Final = (Method.PRODUCER_HEARTBEAT_P2M, *(heartbeat for _, heartbeat in _SIGNED_LATE))


def handlers(
    producers: Producers,
    consumers: Consumers,
    client_balance: ClientBalance,
    brokers: Brokers,
    long_reports: LongReports,
    *,
    access: Access,
    calls: Calls,
    leads: Callable[[], bool],
) -> dict[int, Handler]:
    """Return the Master's table of methods, each behind the guard of `access`; `calls` counts requests.

    While `leads()` is False, each is refused as by a standby: another Master may lead by now.
    """
    table: dict[int, tuple[Callable[[Call, Any], Any], RefusedAnswer]] = {
        Method.PRODUCER_REGISTER_P2M: (producers.register, _producer_register),
        Method.PRODUCER_HEARTBEAT_P2M: (producers.heartbeat, refused_producer),
        Method.PRODUCER_CLOSE_P2M: (producers.close, _plain(master.CloseResponseM2P)),
        Method.CONSUMER_REGISTER_C2M: (consumers.register, _plain(master.RegisterResponseM2C)),
        Method.CONSUMER_HEARTBEAT_C2M: (consumers.heartbeat, refused_consumer),
        Method.CONSUMER_CLOSE_C2M: (consumers.close, _plain(master.CloseResponseM2C)),
        Method.CONSUMER_REGISTER_C2M_V2: (client_balance.register, clients.refused_register),
        Method.CONSUMER_HEARTBEAT_C2M_V2: (client_balance.heartbeat, clients.refused_heartbeat),
        Method.GET_PART_META_C2M: (client_balance.part_meta, clients.refused_part_meta),
        Method.BROKER_HEARTBEAT_B2M: (brokers.heartbeat, refused_broker),
        Method.BROKER_CLOSE_B2M: (brokers.close, _plain(master.CloseResponseM2B)),
    }
    guarded = {method: _guarded(Method(method), work, access, leads) for method, (work, _) in table.items()}
    for heartbeat in _HEARTBEATS:
        guarded[heartbeat] = _asked_to_register(guarded[heartbeat])
    if access.late_signers is not None:
        for register, heartbeat in _SIGNED_LATE:
            guarded[register], guarded[heartbeat] = _signed_late(
                access.late_signers, guarded[register], guarded[heartbeat], table[heartbeat][0]
            )
        query = Method.GET_PART_META_C2M
        guarded[query] = _signed_in_query(
            access.late_signers, guarded[Method.CONSUMER_REGISTER_C2M_V2], guarded[query], table[query][0]
        )
    served: dict[int, Handler] = {
        method: _handler(METHODS[method].request, guarded[method], refused) for method, (_, refused) in table.items()
    }
    for method in _OF_CONSUMERS:
        served[method] = _read_in_steps(
            long_reports, access, METHODS[method].request, guarded[method], table[method][1]
        )
    served[Method.BROKER_REGISTER_B2M] = _broker_registration(brokers, access, leads)
    served[Method.BROKER_HEARTBEAT_B2M] = _in_turns(brokers, served[Method.BROKER_HEARTBEAT_B2M])
    return {method: _counted(handler, method, calls, leads) for method, handler in served.items()}


def _counted(handler: Handler, method: int, calls: Calls, leads: Callable[[], bool]) -> Handler:
    def handle(call: Call) -> Awaitable[None] | None:
        check_leads(leads)
        calls[method] += 1
        return handler(call)

    return handle


def _handler(request_type: type[Any], work: Callable[[Call, Any], Any], refused_answer: RefusedAnswer) -> Handler:
    serve = _served(work, refused_answer)

    def handle(call: Call) -> None:
        serve(call, decode(request_type, call.request.body))

    return handle


def _served(work: Work, refused_answer: RefusedAnswer) -> Callable[[Call, Any], None]:
    """Return a function that serves one call whose request has been decoded."""

    def serve(call: Call, request: Any) -> None:
        try:
            answer = work(call, request)
        except Refused as refused:
            answer = refused_answer(int(refused.refusal.code), refused.refusal.text)
        except FormatError as error:  # a string of the request that is not in the protocol's form
            answer = refused_answer(int(Code.BAD_REQUEST), f"{error.message}; {error.hint}")
        if answer is not None:
            call.reply(encode(answer))

    return serve


def _guarded(method: Method, work: Work, access: Access, leads: Callable[[], bool]) -> Work:
    """Return a method that serves only permitted callers; a client id belongs to the user that registers it."""

    def serve(call: Call, request: Any) -> Any:
        check_leads(leads)  # again, since the request may have waited
        caller = access.guard.check(method, call, request)
        if caller is None or not caller.registers:
            return work(call, request)
        with access.sessions.entered(caller.key, caller.identity):
            return work(call, request)

    return serve


def _asked_to_register(heartbeat: Work) -> Work:
    """Return a heartbeat that makes a client register again, and so sign, if its client token is invalid.

    A Java client signs its registration, or the heartbeat after that; refused with 415, it repeats its request for
    ever.
    """

    def serve(call: Call, request: Any) -> Any:
        try:
            return heartbeat(call, request)
        except Unidentified as refused:
            if not shows_token_alone(request.auth_info):
                raise
            raise Refused(Code.HB_NO_NODE, refused.refusal.text) from None

    return serve


def _signed_late(late: LateSigners, register: Work, heartbeat: Work, heartbeat_work: Work) -> tuple[Work, Work]:
    """Return a consumer's registration and heartbeat that wait for its signature; `heartbeat_work` has no guard."""

    def serve_registration(call: Call, request: Any) -> Any:
        if not is_unsigned(request.auth_info):
            late.take(call.connection, request.client_id)
            try:
                return register(call, request)
            except Unidentified:
                if not shows_token_alone(request.auth_info):
                    raise
        late.put(request, call.size_bytes, call.connection)
        return asked_to_sign(request)

    def serve_heartbeat(call: Call, request: Any) -> Any:
        if is_unsigned(request.auth_info) and late.take_signed(call.connection, request.client_id):
            return heartbeat_work(call, request)
        if not late.is_waiting(call.connection, request.client_id):
            return heartbeat(call, request)
        if request.auth_info is None or request.auth_info.auth_info is None:
            return asked_to_sign(request)
        # The registration uses up the signature of this request.
        register(call, late.take(call.connection, request.client_id, request.auth_info))
        return heartbeat_work(call, request)

    return serve_registration, serve_heartbeat


def _signed_in_query(late: LateSigners, register: Work, query: Work, query_work: Work) -> Work:
    """Return a request for metadata that registers a consumer whose signature is waited for; `query_work` has no guard.

    A Java client-balance consumer signs the one request that is next, which may be this one. The response has no token,
    so the next heartbeat, which has none either, is accepted over the same connection, and its response has one.
    """

    def serve(call: Call, request: Any) -> Any:
        is_signed = request.auth_info is not None and request.auth_info.auth_info is not None
        if not is_signed or not late.is_waiting(call.connection, request.client_id):
            return query(call, request)
        register(call, late.take(call.connection, request.client_id, request.auth_info))
        late.record_signed(call.connection, request.client_id)
        return query_work(call, request)

    return serve


def _broker_registration(brokers: Brokers, access: Access, leads: Callable[[], bool]) -> Handler:
    """Return the handler of the one method that may take long, and may have to wait for the metadata store."""

    async def handle(call: Call) -> None:
        async with brokers.turns.take(call):
            if call.expired or call.connection.closed:
                call.drop()
            else:
                await serve(call)

    async def serve(call: Call) -> None:
        request = decode(master.RegisterRequestB2M, call.request.body)
        check_leads(leads)
        try:
            caller = access.guard.check(Method.BROKER_REGISTER_B2M, call, request)
            answer = await brokers.register(call, request)
            if caller is not None:
                access.sessions.record(caller.key, caller.identity)
        except Refused as refused:
            answer = _broker_register(int(refused.refusal.code), refused.refusal.text)
        except FormatError as error:
            answer = _broker_register(Code.BAD_REQUEST, f"{error.message}; {error.hint}")
        except TubeError as error:
            answer = _broker_register(Code.INTERNAL_SERVER_ERROR, str(error))
        call.reply(encode(answer))

    return bounded(handle, lambda text: encode(_broker_register(Code.SERVICE_UNAVAILABLE, text)))


def _in_turns(brokers: Brokers, heartbeat: Handler) -> Handler:
    """Return a handler that serves long reports of Brokers one at a time, and other heartbeats at once."""

    def handle(call: Call) -> Awaitable[None] | None:
        return wait(call) if brokers.turns.has_to_wait(call) else heartbeat(call)

    async def take_turn(call: Call) -> None:
        async with brokers.turns.take_heartbeat(call):
            if call.expired or call.connection.closed:
                call.drop()
            else:
                heartbeat(call)

    wait = bounded(take_turn, lambda text: encode(refused_broker(int(Code.SERVICE_UNAVAILABLE), text)))
    return handle


def _is_lost(call: Call) -> bool:
    """True if the connection of a call is closed, which may change at any wait."""
    return call.connection.closed


def _read_in_steps(
    reports: LongReports, access: Access, request_type: type[Any], work: Work, refused_answer: RefusedAnswer
) -> Handler:
    """Return a handler that reads long lists of partitions in steps, one request at a time, and serves others at once.

    A request of a connection follows those that came before it.
    """
    serve = _served(work, refused_answer)

    def handle(call: Call) -> Awaitable[None] | None:
        if reports.has_to_wait(call):
            return wait(call)
        serve(call, decode(request_type, call.request.body))
        return None

    async def take_turn(call: Call) -> None:
        async with reports.take(call):
            if call.expired or _is_lost(call):
                call.drop()
                return
            request = decode(request_type, call.request.body)
            # A request that has yet to be signed is kept as it came: what it says may take several times its bytes.
            if reports.is_long(call) and (access.late_signers is None or not is_unsigned(request.auth_info)):
                request = await reports.read(request)
            if _is_lost(call):
                call.drop()
            else:
                serve(call, request)

    wait = bounded(take_turn, lambda text: encode(refused_answer(int(Code.SERVICE_UNAVAILABLE), text)))
    return handle


# --- the shapes of refusals -------------------------------------------------------------------------------------


def _plain(answer_type: type[Any]) -> RefusedAnswer:
    return lambda code, text: answer_type(success=False, err_code=code, err_msg=text)


def _producer_register(code: int, text: str) -> master.RegisterResponseM2P:
    return master.RegisterResponseM2P(success=False, err_code=code, err_msg=text, broker_check_sum=-1)


def _broker_register(code: int, text: str) -> master.RegisterResponseM2B:
    return master.RegisterResponseM2B(
        success=False, err_code=code, err_msg=text, stop_read=False, stop_write=False, take_conf_info=False
    )
