"""Messages between producers, consumers or Brokers and the Master (`MasterService.proto`).

Names and numbers are the protocol's own (proto2, no package); extension fields are named in `wire.protocol.extensions`.
"""

from __future__ import annotations

from pytubemq.model.limits import (
    MAX_RECORDS,
    MAX_WIRE_BROKERS,
    MAX_WIRE_LEASES,
    MAX_WIRE_PROBLEMS,
    MAX_WIRE_SETTINGS,
    MAX_WIRE_SUBSCRIPTIONS,
    MAX_WIRE_TOPICS,
)
from pytubemq.wire.protobuf.schema import BOOL, I32, I64, STR, message, optional, repeated, required
from pytubemq.wire.protocol.extensions import ExtensionField


@message
class EventProto:
    rebalance_id: int | None = optional(1, I64, default=None)
    op_type: int | None = optional(2, I32, default=None)
    status: int | None = optional(3, I32, default=None)
    subscribe_info: tuple[str, ...] = repeated(4, STR, most=MAX_WIRE_SUBSCRIPTIONS, default=())


@message
class EnableBrokerFunInfo:
    enable_consume_authenticate: bool = required(1, BOOL)
    enable_consume_authorize: bool = required(2, BOOL)
    enable_produce_authenticate: bool = required(3, BOOL)
    enable_produce_authorize: bool = required(4, BOOL)
    enable_visit_token_check: bool | None = optional(5, BOOL, default=None)


@message
class AuthenticateInfo:
    user_name: str = required(1, STR)
    timestamp: int = required(2, I64)
    nonce: int = required(3, I32)
    oth_params: str = required(4, STR)
    signature: str = required(5, STR)


@message
class MasterCertificateInfo:
    auth_info: AuthenticateInfo | None = optional(1, AuthenticateInfo, default=None)
    authorized_token: str | None = optional(2, STR, default=None)


@message
class MasterAuthorizedInfo:
    visit_authorized_token: int = required(1, I64)
    auth_authorized_token: str | None = optional(2, STR, default=None)


@message
class MasterBrokerAuthorizedInfo:
    visit_authorized_token: str = required(1, STR)
    auth_authorized_token: str | None = optional(2, STR, default=None)


@message
class ApprovedClientConfig:
    config_id: int = required(1, I64)
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
    jdk_version: str | None = optional(6, STR, default=None)
    appd_config: ApprovedClientConfig | None = optional(7, ApprovedClientConfig, default=None)


@message
class RegisterResponseM2P:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    broker_check_sum: int = required(4, I64)
    broker_infos: tuple[str, ...] = repeated(5, STR, most=MAX_WIRE_BROKERS, default=())
    authorized_info: MasterAuthorizedInfo | None = optional(6, MasterAuthorizedInfo, default=None)
    appd_config: ApprovedClientConfig | None = optional(7, ApprovedClientConfig, default=None)


@message
class HeartRequestP2M:
    client_id: str = required(1, STR)
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
    topic_condition: tuple[str, ...] = repeated(6, STR, most=MAX_WIRE_TOPICS, default=())
    require_bound: bool | None = optional(7, BOOL, default=None)
    session_time: int | None = optional(8, I64, default=None)
    session_key: str | None = optional(9, STR, default=None)
    total_count: int | None = optional(10, I32, default=None)
    required_partition: str | None = optional(11, STR, default=None)
    not_allocated: bool | None = optional(12, BOOL, default=None)
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
    topic_info: tuple[str, ...] = repeated(4, STR, most=MAX_WIRE_TOPICS, default=())
    not_allocated: bool | None = optional(5, BOOL, default=None)
    def_flow_check_id: int | None = optional(6, I64, default=None)
    def_flow_control_info: str | None = optional(7, STR, default=None)
    group_flow_check_id: int | None = optional(8, I64, default=None)
    group_flow_control_info: str | None = optional(9, STR, default=None)
    ssd_store_id: int | None = optional(10, I64, default=None)
    qry_priority_id: int | None = optional(11, I32, default=None)
    authorized_info: MasterAuthorizedInfo | None = optional(12, MasterAuthorizedInfo, default=None)


@message
class HeartRequestC2M:
    client_id: str = required(1, STR)
    group_name: str = required(2, STR)
    subscribe_info: tuple[str, ...] = repeated(3, STR, most=MAX_WIRE_SUBSCRIPTIONS, default=())
    report_subscribe_info: bool = required(4, BOOL)
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
    event: EventProto | None = optional(4, EventProto, default=None)
    not_allocated: bool | None = optional(5, BOOL, default=None)
    def_flow_check_id: int | None = optional(6, I64, default=None)
    def_flow_control_info: str | None = optional(7, STR, default=None)
    group_flow_check_id: int | None = optional(8, I64, default=None)
    group_flow_control_info: str | None = optional(9, STR, default=None)
    ssd_store_id: int | None = optional(10, I64, default=None)
    qry_priority_id: int | None = optional(11, I32, default=None)
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
    broker_online: bool = required(2, BOOL)
    enable_tls: bool = required(3, BOOL)
    read_status_rpt: int = required(4, I32)
    write_status_rpt: int = required(5, I32)
    cur_broker_conf_id: int = required(6, I64)
    conf_check_sum_id: int = required(7, I32)
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


@message
class RegisterResponseM2B:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    stop_read: bool = required(4, BOOL)
    stop_write: bool = required(5, BOOL)
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


@message
class HeartRequestB2M:
    broker_id: str = required(1, STR)
    broker_online: bool = required(2, BOOL)
    read_status_rpt: int = required(3, I32)
    write_status_rpt: int = required(4, I32)
    cur_broker_conf_id: int = required(5, I64)
    conf_check_sum_id: int = required(6, I32)
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


@message
class HeartResponseM2B:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    stop_read: bool = required(4, BOOL)
    stop_write: bool = required(5, BOOL)
    cur_broker_conf_id: int = required(6, I64)
    conf_check_sum_id: int = required(7, I32)
    need_report_data: bool = required(8, BOOL)
    take_conf_info: bool = required(9, BOOL)
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
    broker_config_id: int = required(1, I64)
    topic_meta_info_id: int = required(2, I64)
    lst_assigned_time: int | None = optional(3, I64, default=None)
    report_sub_info: bool | None = optional(4, BOOL, default=None)
    part_sub_info: tuple[str, ...] = repeated(5, STR, most=MAX_WIRE_TOPICS, default=())


@message
class OpsTaskInfo:
    group_flow_check_id: int | None = optional(1, I64, default=None)
    def_flow_check_id: int | None = optional(2, I64, default=None)
    qry_priority_id: int | None = optional(3, I32, default=None)
    csm_frm_max_offset_ctrl_id: int | None = optional(4, I64, default=None)
    require_auth: bool | None = optional(5, BOOL, default=None)
    def_flow_control_info: str | None = optional(6, STR, default=None)
    group_flow_control_info: str | None = optional(7, STR, default=None)


@message
class RegisterRequestC2MV2:
    client_id: str = required(1, STR)
    group_name: str = required(2, STR)
    host_name: str = required(3, STR)
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
