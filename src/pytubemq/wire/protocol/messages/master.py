"""Messages between producers, consumers or Brokers and the Master (`MasterService.proto`).

Names and numbers are the protocol's own (proto2, no package); extension fields are named in `wire.protocol.extensions`.
"""

from __future__ import annotations

from pytubemq.model.limits import (
    MAX_RECORDS,
    MAX_WIRE_ACCESS_KEYS,
    MAX_WIRE_BROKERS,
    MAX_WIRE_LEASES,
    MAX_WIRE_PERMISSIONS,
    MAX_WIRE_PROBLEMS,
    MAX_WIRE_SETTINGS,
    MAX_WIRE_SUBSCRIPTIONS,
    MAX_WIRE_TOPICS,
    MAX_WIRE_USERS,
)
from pytubemq.wire.protobuf.schema import BOOL, BYTES, I32, I64, STR, message, optional, repeated, required
from pytubemq.wire.protocol.extensions import ExtensionField


@message
class EventProto:
    # Above 0 means that there is an event; Java reads an absent one as 0.
    rebalance_id: int | None = optional(1, I64, default=None)
    op_type: int | None = optional(2, I32, default=None)
    # Masters never set it. Java and ours send 2 (done) whatever came of it; the original's Master does not look.
    status: int | None = optional(3, I32, default=None)
    subscribe_info: tuple[str, ...] = repeated(4, STR, most=MAX_WIRE_SUBSCRIPTIONS, default=())


@message
class EnableBrokerFunInfo:
    # Sent when a Broker registers and never again, so a change reaches it with its next registration.
    enable_consume_authenticate: bool = required(1, BOOL)
    enable_consume_authorize: bool = required(2, BOOL)
    enable_produce_authenticate: bool = required(3, BOOL)
    enable_produce_authorize: bool = required(4, BOOL)
    enable_visit_token_check: bool | None = optional(5, BOOL, default=None)


@message
class AuthenticateInfo:
    user_name: str = required(1, STR)
    # ms. The signature covers user name, timestamp and nonce; a Master of the original refuses one that is 20 s off.
    timestamp: int = required(2, I64)
    nonce: int = required(3, I32)
    oth_params: str = required(4, STR)
    signature: str = required(5, STR, secret=True)


@message
class MasterCertificateInfo:
    auth_info: AuthenticateInfo | None = optional(1, AuthenticateInfo, default=None)
    # The original neither issues nor reads it.
    authorized_token: str | None = optional(2, STR, default=None, secret=True)


@message
class MasterAuthorizedInfo:
    # The older of the two that are valid: a Broker knows it for sure, and may not know the newest yet.
    visit_authorized_token: int = required(1, I64, secret=True)
    auth_authorized_token: str | None = optional(2, STR, default=None, secret=True)


@message
class MasterBrokerAuthorizedInfo:
    # To Brokers both, as `valid,fresh`: they accept either, so clients are not refused while it changes.
    visit_authorized_token: str = required(1, STR, secret=True)
    auth_authorized_token: str | None = optional(2, STR, default=None, secret=True)


@message
class AccessKey:
    # The hour since 1970 whose tokens the key signs.
    period: int = required(1, I64)
    value: bytes = required(2, BYTES, secret=True)


@message
class AccessUser:
    user: str = required(1, STR)
    # Tokens of an earlier epoch are worth nothing any more.
    epoch: int = required(2, I64)
    # Each as `operation kind pattern`.
    permissions: tuple[str, ...] = repeated(3, STR, most=MAX_WIRE_PERMISSIONS, default=())


@message
class BrokerAccess:
    # Of ours alone. A Broker shows the version that it has, so that users travel only when they change.
    version: int = required(1, I64)
    enforced: bool = required(2, BOOL)
    keys: tuple[AccessKey, ...] = repeated(3, AccessKey, most=MAX_WIRE_ACCESS_KEYS, default=())
    users: tuple[AccessUser, ...] = repeated(4, AccessUser, most=MAX_WIRE_USERS, default=())


@message
class ApprovedClientConfig:
    config_id: int = required(1, I64)
    # Only if the ids differ. -2 is the id of a cluster for which nothing was ever set, and Java's first.
    max_msg_size: int | None = optional(2, I32, default=None)


@message
class ClusterConfig:
    config_id: int = required(1, I64)
    max_msg_size: int | None = optional(2, I32, default=None)


@message
class RegisterRequestP2M:
    client_id: str = required(1, STR)
    topic_list: tuple[str, ...] = repeated(2, STR, most=MAX_WIRE_TOPICS, default=())
    broker_check_sum: int = required(3, I64)
    host_name: str = required(4, STR)
    auth_info: MasterCertificateInfo | None = optional(5, MasterCertificateInfo, default=None)
    # Java's alone; nobody reads it.
    jdk_version: str | None = optional(6, STR, default=None)
    appd_config: ApprovedClientConfig | None = optional(7, ApprovedClientConfig, default=None)


@message
class RegisterResponseM2P:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    broker_check_sum: int = required(4, I64)
    # Always all of them here; with heartbeats only if the checksum is another. Topics come with heartbeats only.
    broker_infos: tuple[str, ...] = repeated(5, STR, most=MAX_WIRE_BROKERS, default=())
    authorized_info: MasterAuthorizedInfo | None = optional(6, MasterAuthorizedInfo, default=None)
    appd_config: ApprovedClientConfig | None = optional(7, ApprovedClientConfig, default=None)


@message
class HeartRequestP2M:
    client_id: str = required(1, STR)
    # Java sends -1 every two hours, to have all Brokers sent again.
    broker_check_sum: int = required(2, I64)
    host_name: str = required(3, STR)
    topic_list: tuple[str, ...] = repeated(4, STR, most=MAX_WIRE_TOPICS, default=())
    auth_info: MasterCertificateInfo | None = optional(5, MasterCertificateInfo, default=None)
    appd_config: ApprovedClientConfig | None = optional(6, ApprovedClientConfig, default=None)
    max_wait_ms: int | None = optional(ExtensionField.HEARTBEAT_MAX_WAIT_MS, I32, default=None)
    want_deployed: bool | None = optional(ExtensionField.WANT_DEPLOYED, BOOL, default=None)
    want_topic_names: bool | None = optional(ExtensionField.WANT_TOPIC_NAMES, BOOL, default=None)


@message
class HeartResponseM2P:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    broker_check_sum: int = required(4, I64)
    # Complete with each response: Java replaces its whole map, so a topic that is left out loses its partitions there.
    topic_infos: tuple[str, ...] = repeated(5, STR, most=MAX_WIRE_TOPICS, default=())
    broker_infos: tuple[str, ...] = repeated(6, STR, most=MAX_WIRE_BROKERS, default=())
    require_auth: bool | None = optional(7, BOOL, default=None)
    authorized_info: MasterAuthorizedInfo | None = optional(8, MasterAuthorizedInfo, default=None)
    appd_config: ApprovedClientConfig | None = optional(9, ApprovedClientConfig, default=None)
    topic_names: tuple[str, ...] = repeated(ExtensionField.TOPIC_NAMES, STR, most=MAX_RECORDS, default=())


@message
class CloseRequestP2M:
    client_id: str = required(1, STR)
    auth_info: MasterCertificateInfo | None = optional(2, MasterCertificateInfo, default=None)


@message
class CloseResponseM2P:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)


@message
class RegisterRequestC2M:
    client_id: str = required(1, STR)
    group_name: str = required(2, STR)
    host_name: str = required(3, STR)
    topic_list: tuple[str, ...] = repeated(4, STR, most=MAX_WIRE_TOPICS, default=())
    subscribe_info: tuple[str, ...] = repeated(5, STR, most=MAX_WIRE_SUBSCRIPTIONS, default=())
    # Only of topics with filters, but for Go, which sends `topic#` as well.
    topic_condition: tuple[str, ...] = repeated(6, STR, most=MAX_WIRE_TOPICS, default=())
    # Decides the kind of the group; what belongs to a bound one is read only with it.
    require_bound: bool | None = optional(7, BOOL, default=None)
    session_time: int | None = optional(8, I64, default=None)
    session_key: str | None = optional(9, STR, default=None)
    total_count: int | None = optional(10, I32, default=None)
    required_partition: str | None = optional(11, STR, default=None)
    # Absent counts as true.
    not_allocated: bool | None = optional(12, BOOL, default=None)
    # Absent counts as true.
    select_big: bool | None = optional(13, BOOL, default=None)
    group_flow_check_id: int | None = optional(14, I64, default=None)
    def_flow_check_id: int | None = optional(15, I64, default=None)
    ssd_store_id: int | None = optional(16, I64, default=None)
    qry_priority_id: int | None = optional(17, I32, default=None)
    auth_info: MasterCertificateInfo | None = optional(18, MasterCertificateInfo, default=None)
    jdk_version: str | None = optional(19, STR, default=None)


@message
class RegisterResponseM2C:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    # Neither filled nor read by anybody.
    topic_info: tuple[str, ...] = repeated(4, STR, most=MAX_WIRE_TOPICS, default=())
    # While it is true a bound consumer says where to begin; from the first event on the committed offset counts.
    not_allocated: bool | None = optional(5, BOOL, default=None)
    # -2 where the rules are switched off, which Java does not take.
    def_flow_check_id: int | None = optional(6, I64, default=None)
    def_flow_control_info: str | None = optional(7, STR, default=None)
    group_flow_check_id: int | None = optional(8, I64, default=None)
    group_flow_control_info: str | None = optional(9, STR, default=None)
    ssd_store_id: int | None = optional(10, I64, default=None)
    # Java takes it only together with changed rules of the group.
    qry_priority_id: int | None = optional(11, I32, default=None)
    authorized_info: MasterAuthorizedInfo | None = optional(12, MasterAuthorizedInfo, default=None)


@message
class HeartRequestC2M:
    client_id: str = required(1, STR)
    group_name: str = required(2, STR)
    # All that the member holds: what is missing here it has given up.
    subscribe_info: tuple[str, ...] = repeated(3, STR, most=MAX_WIRE_SUBSCRIPTIONS, default=())
    # Java: with each acknowledgement, and else every sixth time.
    report_subscribe_info: bool = required(4, BOOL)
    # The event that was carried out, known by its id.
    event: EventProto | None = optional(5, EventProto, default=None)
    def_flow_check_id: int | None = optional(6, I64, default=None)
    group_flow_check_id: int | None = optional(7, I64, default=None)
    ssd_store_id: int | None = optional(8, I64, default=None)
    qry_priority_id: int | None = optional(9, I32, default=None)
    auth_info: MasterCertificateInfo | None = optional(10, MasterCertificateInfo, default=None)
    max_wait_ms: int | None = optional(ExtensionField.HEARTBEAT_MAX_WAIT_MS, I32, default=None)


@message
class HeartResponseM2C:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    # At most one. Java keeps only the last of several and forgets the others.
    event: EventProto | None = optional(4, EventProto, default=None)
    not_allocated: bool | None = optional(5, BOOL, default=None)
    def_flow_check_id: int | None = optional(6, I64, default=None)
    def_flow_control_info: str | None = optional(7, STR, default=None)
    group_flow_check_id: int | None = optional(8, I64, default=None)
    group_flow_control_info: str | None = optional(9, STR, default=None)
    ssd_store_id: int | None = optional(10, I64, default=None)
    qry_priority_id: int | None = optional(11, I32, default=None)
    # The original's Master never sets it.
    require_auth: bool | None = optional(12, BOOL, default=None)
    authorized_info: MasterAuthorizedInfo | None = optional(13, MasterAuthorizedInfo, default=None)


@message
class CloseRequestC2M:
    client_id: str = required(1, STR)
    group_name: str = required(2, STR)
    auth_info: MasterCertificateInfo | None = optional(3, MasterCertificateInfo, default=None)


@message
class CloseResponseM2C:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)


@message
class RegisterRequestB2M:
    client_id: str = required(1, STR)
    # False in the first registration of every Java Broker: it registers before it serves.
    broker_online: bool = required(2, BOOL)
    enable_tls: bool = required(3, BOOL)
    # 0 sound, 1 stopped by the Master, -1 stopped on its own after errors of its disk.
    read_status_rpt: int = required(4, I32)
    write_status_rpt: int = required(5, I32)
    cur_broker_conf_id: int = required(6, I64)
    # The Master's; a Broker sends it back as it came.
    conf_check_sum_id: int = required(7, I32)
    # Empty in the first registration of a Java Broker, which has no configuration yet.
    broker_default_conf_info: str = required(8, STR)
    broker_topic_set_conf_info: tuple[str, ...] = repeated(9, STR, most=MAX_WIRE_SETTINGS, default=())
    ssd_store_id: int | None = optional(10, I64, default=None)
    flow_check_id: int | None = optional(11, I64, default=None)
    qry_priority_id: int | None = optional(12, I32, default=None)
    tls_port: int | None = optional(13, I32, default=None)
    auth_info: MasterCertificateInfo | None = optional(14, MasterCertificateInfo, default=None)
    cls_config: ClusterConfig | None = optional(15, ClusterConfig, default=None)
    leases: tuple[str, ...] = repeated(ExtensionField.BROKER_LEASES, STR, most=MAX_WIRE_LEASES, default=())
    own_durability: str | None = optional(ExtensionField.OWN_DURABILITY, STR, default=None)
    held_durability: tuple[str, ...] = repeated(ExtensionField.HELD_DURABILITY, STR, most=MAX_WIRE_SETTINGS, default=())
    held_retention: tuple[str, ...] = repeated(ExtensionField.HELD_RETENTION, STR, most=MAX_WIRE_SETTINGS, default=())
    own_web_port: int | None = optional(ExtensionField.OWN_WEB_PORT, I32, default=None)
    stored_topics: tuple[str, ...] = repeated(ExtensionField.STORED_TOPICS, STR, most=MAX_WIRE_SETTINGS, default=())
    access_version: int | None = optional(ExtensionField.ACCESS_VERSION, I64, default=None)


@message
class RegisterResponseM2B:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    stop_read: bool = required(4, BOOL)
    stop_write: bool = required(5, BOOL)
    # A Java Broker applies what comes with its registration whether this is set or not.
    take_conf_info: bool = required(6, BOOL)
    enable_broker_info: EnableBrokerFunInfo | None = optional(7, EnableBrokerFunInfo, default=None)
    cur_broker_conf_id: int | None = optional(8, I64, default=None)
    conf_check_sum_id: int | None = optional(9, I32, default=None)
    broker_default_conf_info: str | None = optional(10, STR, default=None)
    broker_topic_set_conf_info: tuple[str, ...] = repeated(11, STR, most=MAX_WIRE_SETTINGS, default=())
    ssd_store_id: int | None = optional(12, I64, default=None)
    flow_check_id: int | None = optional(13, I64, default=None)
    flow_control_info: str | None = optional(14, STR, default=None)
    qry_priority_id: int | None = optional(15, I32, default=None)
    authorized_info: MasterAuthorizedInfo | None = optional(16, MasterAuthorizedInfo, default=None)
    broker_authorized_info: MasterBrokerAuthorizedInfo | None = optional(17, MasterBrokerAuthorizedInfo, default=None)
    cls_config: ClusterConfig | None = optional(18, ClusterConfig, default=None)
    topic_durability: tuple[str, ...] = repeated(
        ExtensionField.TOPIC_DURABILITY, STR, most=MAX_WIRE_SETTINGS, default=()
    )
    topic_retention: tuple[str, ...] = repeated(ExtensionField.TOPIC_RETENTION, STR, most=MAX_WIRE_SETTINGS, default=())
    access: BrokerAccess | None = optional(ExtensionField.BROKER_ACCESS, BrokerAccess, default=None)


@message
class HeartRequestB2M:
    # A number as text here, where the registration has `brokerId:host:port` in its client id.
    broker_id: str = required(1, STR)
    broker_online: bool = required(2, BOOL)
    read_status_rpt: int = required(3, I32)
    write_status_rpt: int = required(4, I32)
    cur_broker_conf_id: int = required(5, I64)
    conf_check_sum_id: int = required(6, I32)
    # True if the Broker reports its configuration with this heartbeat.
    take_conf_info: bool = required(7, BOOL)
    take_removed_topic_info: bool = required(8, BOOL)
    broker_default_conf_info: str | None = optional(9, STR, default=None)
    broker_topic_set_conf_info: tuple[str, ...] = repeated(10, STR, most=MAX_WIRE_SETTINGS, default=())
    removed_topics_info: tuple[str, ...] = repeated(11, STR, most=MAX_WIRE_SETTINGS, default=())
    ssd_store_id: int | None = optional(12, I64, default=None)
    flow_check_id: int | None = optional(13, I64, default=None)
    qry_priority_id: int | None = optional(14, I32, default=None)
    auth_info: MasterCertificateInfo | None = optional(15, MasterCertificateInfo, default=None)
    cls_config: ClusterConfig | None = optional(16, ClusterConfig, default=None)
    max_wait_ms: int | None = optional(ExtensionField.HEARTBEAT_MAX_WAIT_MS, I32, default=None)
    problems: tuple[str, ...] = repeated(ExtensionField.BROKER_PROBLEMS, STR, most=MAX_WIRE_PROBLEMS, default=())
    access_version: int | None = optional(ExtensionField.ACCESS_VERSION, I64, default=None)


@message
class HeartResponseM2B:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    stop_read: bool = required(4, BOOL)
    stop_write: bool = required(5, BOOL)
    cur_broker_conf_id: int = required(6, I64)
    conf_check_sum_id: int = required(7, I32)
    # Asks the Broker to send back the configuration it has; only from that the original's Master knows its topics.
    need_report_data: bool = required(8, BOOL)
    take_conf_info: bool = required(9, BOOL)
    # Always true from the original.
    take_remove_topic_info: bool = required(10, BOOL)
    broker_default_conf_info: str | None = optional(11, STR, default=None)
    broker_topic_set_conf_info: tuple[str, ...] = repeated(12, STR, most=MAX_WIRE_SETTINGS, default=())
    remove_topic_conf_info: tuple[str, ...] = repeated(13, STR, most=MAX_WIRE_SETTINGS, default=())
    ssd_store_id: int | None = optional(14, I64, default=None)
    flow_check_id: int | None = optional(15, I64, default=None)
    flow_control_info: str | None = optional(16, STR, default=None)
    qry_priority_id: int | None = optional(17, I32, default=None)
    authorized_info: MasterAuthorizedInfo | None = optional(18, MasterAuthorizedInfo, default=None)
    broker_authorized_info: MasterBrokerAuthorizedInfo | None = optional(19, MasterBrokerAuthorizedInfo, default=None)
    cls_config: ClusterConfig | None = optional(20, ClusterConfig, default=None)
    topic_durability: tuple[str, ...] = repeated(
        ExtensionField.TOPIC_DURABILITY, STR, most=MAX_WIRE_SETTINGS, default=()
    )
    topic_retention: tuple[str, ...] = repeated(ExtensionField.TOPIC_RETENTION, STR, most=MAX_WIRE_SETTINGS, default=())
    access: BrokerAccess | None = optional(ExtensionField.BROKER_ACCESS, BrokerAccess, default=None)


@message
class CloseRequestB2M:
    broker_id: str = required(1, STR)
    auth_info: MasterCertificateInfo | None = optional(2, MasterCertificateInfo, default=None)


@message
class CloseResponseM2B:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)


@message
class ClientSubRepInfo:
    # What `brokerCheckSum` is to a producer.
    broker_config_id: int = required(1, I64)
    topic_meta_info_id: int = required(2, I64)
    # When the client last got metadata, ms; left out before.
    lst_assigned_time: int | None = optional(3, I64, default=None)
    report_sub_info: bool | None = optional(4, BOOL, default=None)
    part_sub_info: tuple[str, ...] = repeated(5, STR, most=MAX_WIRE_TOPICS, default=())


@message
class OpsTaskInfo:
    group_flow_check_id: int | None = optional(1, I64, default=None)
    def_flow_check_id: int | None = optional(2, I64, default=None)
    qry_priority_id: int | None = optional(3, I32, default=None)
    # A time in ms that an operator set: members that registered before it go on from the newest messages.
    csm_frm_max_offset_ctrl_id: int | None = optional(4, I64, default=None)
    require_auth: bool | None = optional(5, BOOL, default=None)
    def_flow_control_info: str | None = optional(6, STR, default=None)
    group_flow_control_info: str | None = optional(7, STR, default=None)


@message
class RegisterRequestC2MV2:
    client_id: str = required(1, STR)
    group_name: str = required(2, STR)
    host_name: str = required(3, STR)
    # Not above 0: the group's members do not count themselves, and node ids are not compared.
    source_count: int = required(4, I32)
    node_id: int = required(5, I32)
    topic_list: tuple[str, ...] = repeated(6, STR, most=MAX_WIRE_TOPICS, default=())
    topic_condition: tuple[str, ...] = repeated(7, STR, most=MAX_WIRE_TOPICS, default=())
    sub_rep_info: ClientSubRepInfo | None = optional(8, ClientSubRepInfo, default=None)
    ops_task_info: OpsTaskInfo | None = optional(9, OpsTaskInfo, default=None)
    auth_info: MasterCertificateInfo | None = optional(10, MasterCertificateInfo, default=None)
    jdk_version: str | None = optional(11, STR, default=None)


@message
class RegisterResponseM2CV2:
    # No `success` in the newer messages: 200 says it.
    err_code: int = required(1, I32)
    err_msg: str = required(2, STR)
    broker_config_id: int | None = optional(3, I64, default=None)
    broker_config_list: tuple[str, ...] = repeated(4, STR, most=MAX_WIRE_BROKERS, default=())
    ops_task_info: OpsTaskInfo | None = optional(5, OpsTaskInfo, default=None)
    authorized_info: MasterAuthorizedInfo | None = optional(6, MasterAuthorizedInfo, default=None)


@message
class HeartRequestC2MV2:
    client_id: str = required(1, STR)
    group_name: str = required(2, STR)
    sub_rep_info: ClientSubRepInfo | None = optional(3, ClientSubRepInfo, default=None)
    ops_task_info: OpsTaskInfo | None = optional(4, OpsTaskInfo, default=None)
    auth_info: MasterCertificateInfo | None = optional(5, MasterCertificateInfo, default=None)
    max_wait_ms: int | None = optional(ExtensionField.HEARTBEAT_MAX_WAIT_MS, I32, default=None)


@message
class HeartResponseM2CV2:
    err_code: int = required(1, I32)
    err_msg: str = required(2, STR)
    broker_config_id: int | None = optional(3, I64, default=None)
    broker_config_list: tuple[str, ...] = repeated(4, STR, most=MAX_WIRE_BROKERS, default=())
    topic_meta_info_id: int | None = optional(5, I64, default=None)
    # Here only for a member whose metadata is three minutes old; who wants it sooner asks method 22.
    topic_meta_info_list: tuple[str, ...] = repeated(6, STR, most=MAX_WIRE_TOPICS, default=())
    ops_task_info: OpsTaskInfo | None = optional(7, OpsTaskInfo, default=None)
    authorized_info: MasterAuthorizedInfo | None = optional(8, MasterAuthorizedInfo, default=None)


@message
class GetPartMetaRequestC2M:
    client_id: str = required(1, STR)
    group_name: str = required(2, STR)
    broker_config_id: int = required(3, I64)
    topic_meta_info_id: int = required(4, I64)
    auth_info: MasterCertificateInfo | None = optional(5, MasterCertificateInfo, default=None)


@message
class GetPartMetaResponseM2C:
    err_code: int = required(1, I32)
    err_msg: str = required(2, STR)
    broker_config_id: int | None = optional(3, I64, default=None)
    topic_meta_info_id: int | None = optional(4, I64, default=None)
    topic_meta_info_list: tuple[str, ...] = repeated(5, STR, most=MAX_WIRE_TOPICS, default=())
    broker_config_list: tuple[str, ...] = repeated(6, STR, most=MAX_WIRE_BROKERS, default=())
