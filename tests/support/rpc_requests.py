"""One small request of each RPC method, about a client, a topic and a group that the test chooses."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytubemq.wire.protocol.messages import broker, extension, master
from pytubemq.wire.rpc.methods import METHODS, Method, Service

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
    from pytubemq.wire.protocol.messages.master import MasterCertificateInfo

REGISTER_AT_BROKER: Final = 31
_BODY: Final = b"x"


@dataclass(frozen=True, slots=True)
class Asked:
    """What requests are about, and what they show of who sends them."""

    client_id: str = "c"
    topic: str = "orders"
    group: str = "g"
    partition: int = 0
    broker_id: int = 50
    certificate: MasterCertificateInfo | None = None
    """Shown to a Master."""
    tokens: AuthorizedInfo | None = None
    """Shown to a Broker."""


def _send_packs(asked: Asked) -> Any:
    return extension.SendPacksRequestP2B(
        client_id=asked.client_id,
        topic_name=asked.topic,
        sent_addr=0,
        packs=(extension.PackEntry(partition_id=asked.partition, data=_BODY),),
        auth_info=asked.tokens,
    )


REQUESTS: Final[dict[Method, Callable[[Asked], Any]]] = {
    Method.PRODUCER_REGISTER_P2M: lambda a: master.RegisterRequestP2M(
        client_id=a.client_id, topic_list=(a.topic,), broker_check_sum=-1, host_name="h", auth_info=a.certificate
    ),
    Method.PRODUCER_HEARTBEAT_P2M: lambda a: master.HeartRequestP2M(
        client_id=a.client_id, topic_list=(a.topic,), broker_check_sum=-1, host_name="h", auth_info=a.certificate
    ),
    Method.PRODUCER_CLOSE_P2M: lambda a: master.CloseRequestP2M(client_id=a.client_id, auth_info=a.certificate),
    Method.CONSUMER_REGISTER_C2M: lambda a: master.RegisterRequestC2M(
        client_id=a.client_id, group_name=a.group, host_name="h", topic_list=(a.topic,), auth_info=a.certificate
    ),
    Method.CONSUMER_HEARTBEAT_C2M: lambda a: master.HeartRequestC2M(
        client_id=a.client_id, group_name=a.group, report_subscribe_info=False, auth_info=a.certificate
    ),
    Method.CONSUMER_CLOSE_C2M: lambda a: master.CloseRequestC2M(
        client_id=a.client_id, group_name=a.group, auth_info=a.certificate
    ),
    Method.CONSUMER_REGISTER_C2M_V2: lambda a: master.RegisterRequestC2MV2(
        client_id=a.client_id,
        group_name=a.group,
        host_name="h",
        source_count=1,
        node_id=0,
        topic_list=(a.topic,),
        auth_info=a.certificate,
    ),
    Method.CONSUMER_HEARTBEAT_C2M_V2: lambda a: master.HeartRequestC2MV2(
        client_id=a.client_id, group_name=a.group, auth_info=a.certificate
    ),
    Method.GET_PART_META_C2M: lambda a: master.GetPartMetaRequestC2M(
        client_id=a.client_id, group_name=a.group, broker_config_id=-1, topic_meta_info_id=-1, auth_info=a.certificate
    ),
    Method.BROKER_REGISTER_B2M: lambda a: master.RegisterRequestB2M(
        client_id=f"{a.broker_id}:127.0.0.1:{20_000 + a.broker_id}",
        broker_online=False,
        enable_tls=False,
        read_status_rpt=0,
        write_status_rpt=0,
        cur_broker_conf_id=-1,
        conf_check_sum_id=-1,
        broker_default_conf_info="",
        tls_port=8124,
        auth_info=a.certificate,
    ),
    Method.BROKER_HEARTBEAT_B2M: lambda a: master.HeartRequestB2M(
        broker_id=str(a.broker_id),
        broker_online=False,
        read_status_rpt=0,
        write_status_rpt=0,
        cur_broker_conf_id=-1,
        conf_check_sum_id=-1,
        take_conf_info=False,
        take_removed_topic_info=False,
        auth_info=a.certificate,
    ),
    Method.BROKER_CLOSE_B2M: lambda a: master.CloseRequestB2M(broker_id=str(a.broker_id), auth_info=a.certificate),
    Method.SEND_MESSAGE_P2B: lambda a: broker.SendMessageRequestP2B(
        client_id=a.client_id,
        topic_name=a.topic,
        partition_id=a.partition,
        data=_BODY,
        flag=0,
        check_sum=zlib.crc32(_BODY) & 0x7FFFFFFF,
        sent_addr=0,
        auth_info=a.tokens,
    ),
    Method.SEND_PACKS_P2B: _send_packs,
    Method.CONSUMER_REGISTER_C2B: lambda a: broker.RegisterRequestC2B(
        op_type=REGISTER_AT_BROKER,
        client_id=a.client_id,
        group_name=a.group,
        topic_name=a.topic,
        partition_id=a.partition,
        read_status=0,
        auth_info=a.tokens,
    ),
    Method.CONSUMER_HEARTBEAT_C2B: lambda a: broker.HeartBeatRequestC2B(
        client_id=a.client_id, group_name=a.group, read_status=0, auth_info=a.tokens
    ),
    Method.GET_MESSAGE_C2B: lambda a: broker.GetMessageRequestC2B(
        client_id=a.client_id, partition_id=a.partition, group_name=a.group, topic_name=a.topic
    ),
    Method.CONSUMER_COMMIT_C2B: lambda a: broker.CommitOffsetRequestC2B(
        client_id=a.client_id, partition_id=a.partition, group_name=a.group, topic_name=a.topic
    ),
    Method.READ_RANGE_C2B: lambda a: extension.ReadRangeRequestC2B(
        client_id=a.client_id, topic_name=a.topic, partition_id=a.partition, offset=0, auth_info=a.tokens
    ),
    Method.PARTITION_OFFSETS: lambda a: extension.PartitionOffsetsRequest(
        client_id=a.client_id,
        partitions=(extension.TopicPartition(topic_name=a.topic, partition_id=a.partition),),
        group_names=(a.group,),
        auth_info=a.tokens,
    ),
    Method.RESET_OFFSETS: lambda a: extension.ResetOffsetsRequest(
        client_id=a.client_id,
        group_name=a.group,
        user="u",
        resets=(extension.OffsetReset(topic_name=a.topic, partition_id=a.partition, to="earliest"),),
        dry_run=True,
        auth_info=a.tokens,
    ),
    Method.RESET_HISTORY: lambda a: extension.ResetHistoryRequest(
        client_id=a.client_id, group_name=a.group, auth_info=a.tokens
    ),
}
"""All methods; `test_rpc_matrix` fails for one that is missing."""


def service_of(method: Method) -> Service:
    """Return a service that offers a method."""
    return Service(max(METHODS[method].services))


async def code_of(connection: RpcConnection, method: Method, asked: Asked, *, timeout_s: float = 20.0) -> int:
    """Send the request of a method; return the code of the response."""
    response: Any = await connection.request(
        REQUESTS[method](asked), METHODS[method].response, method, service_of(method), timeout_s=timeout_s
    )
    return int(response.err_code)
