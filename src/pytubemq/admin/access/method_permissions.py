"""The permission that each method of `/webapi.htm` and `/broker.htm`, and each query of `/master.htm`, needs.

The invariant: a method without a row here is refused where authentication is on, so none can be forgotten.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pytubemq.admin.access.needs import (
    CHANGE_GROUP,
    CHANGE_TOPIC,
    OPERATE,
    SEE_CLUSTER,
    SEE_GROUP,
    SEE_TOPIC,
    SERVERS_TOKEN,
    SIGNED_IN,
    HttpNeed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_BY_NEEDS: Final[Mapping[tuple[HttpNeed, ...], str]] = {
    (SIGNED_IN,): "admin_get_methods admin_query_server_version",
    (SEE_CLUSTER,): """
        admin_query_cluster_default_setting admin_query_cluster_topic_view admin_query_broker_configure
        admin_query_broker_run_status admin_query_deployed_topics admin_query_def_flow_control_rule
        admin_query_master_group_info admin_query_client_balance_group_set admin_get_metrics_info""",
    (OPERATE,): """
        admin_set_cluster_default_setting admin_update_cluster_default_setting admin_add_broker_configure
        admin_batch_add_broker_configure admin_update_broker_configure admin_batch_update_broker_configure
        admin_online_broker_configure admin_offline_broker_configure admin_reload_broker_configure
        admin_set_broker_read_or_write admin_release_broker_autoforbidden_status admin_delete_broker_configure
        admin_set_def_flow_control_rule admin_upd_def_flow_control_rule admin_rmv_def_flow_control_rule
        admin_enable_stats admin_disable_stats admin_disable_all_stats""",
    (SEE_TOPIC,): """
        admin_query_topic_info admin_query_topic_deploy_info admin_query_topic_deploy_configure
        admin_query_broker_topic_config_info admin_query_topic_broker_config_info admin_query_deployed_broker_ids
        admin_query_topic_control_info admin_query_topic_authorize_control admin_query_group_info_by_topic""",
    (CHANGE_TOPIC,): """
        admin_add_topic_deploy_info admin_batch_add_topic_deploy_info admin_update_topic_deploy_info
        admin_batch_update_topic_deploy_info admin_delete_topic_deploy_info admin_redo_deleted_topic_deploy_info
        admin_remove_topic_deploy_info admin_add_topic_control_info admin_update_topic_control_info
        admin_batch_add_topic_control_info admin_batch_update_topic_control_info admin_delete_topic_control_info
        admin_set_topic_authorize_control admin_batch_add_topic_authorize_control admin_delete_topic_authorize_control
        admin_add_group_csmctrl_info admin_batch_add_group_csmctrl_info admin_update_group_csmctrl_info
        admin_batch_update_group_csmctrl_info admin_delete_group_csmctrl_info admin_batch_delete_group_csmctrl_info
        admin_add_black_consumergroup_info admin_bath_add_black_consumergroup_info
        admin_delete_black_consumergroup_info admin_batch_delete_black_consumergroup_info
        admin_add_authorized_consumergroup_info admin_bath_add_authorized_consumergroup_info
        admin_delete_allowed_consumer_group_info admin_batch_del_authorized_consumergroup_info
        admin_add_group_filtercond_info admin_bath_add_group_filtercond_info admin_mod_group_filtercond_info
        admin_bath_mod_group_filtercond_info admin_del_group_filtercond_info""",
    (SEE_TOPIC, SEE_GROUP): """
        admin_query_group_csmctrl_info admin_query_booked_csmctrl_groups admin_query_black_consumer_group_info
        admin_query_allowed_consumer_group_info admin_query_group_filtercond_info admin_query_sub_info""",
    (SEE_GROUP,): """
        admin_query_group_resctrl_info admin_query_booked_resctrl_groups admin_query_consume_group_setting
        admin_query_group_flow_control_rule admin_query_consume_group_detail""",
    (CHANGE_GROUP,): """
        admin_add_group_resctrl_info admin_batch_add_group_resctrl_info admin_update_group_resctrl_info
        admin_batch_update_group_resctrl_info admin_delete_group_resctrl_info admin_add_consume_group_setting
        admin_bath_add_consume_group_setting admin_upd_consume_group_setting admin_del_consume_group_setting
        admin_set_group_flow_control_rule admin_upd_group_flow_control_rule admin_rmv_group_flow_control_rule
        admin_rebalance_group_allocate admin_set_client_balance_group_consume_from_max""",
}

WEBAPI_PERMISSIONS: Final[Mapping[str, tuple[HttpNeed, ...]]] = MappingProxyType(
    {name: needs for needs, names in _BY_NEEDS.items() for name in names.split()}
)
"""The methods of `/webapi.htm`, by the name that others are aliases of. Who may consume a topic is a matter of the
topic."""

TEXT_PERMISSIONS: Final[Mapping[str, tuple[HttpNeed, ...]]] = MappingProxyType(
    {
        "consumer": (SEE_GROUP,),
        "sub_info": (SEE_GROUP,),
        "producer": (SEE_TOPIC,),
        "topic_pub": (SEE_TOPIC,),
        "broker": (SEE_CLUSTER,),
        "newBroker": (SEE_CLUSTER,),
        "unbalance_group": (SEE_CLUSTER,),
    }
)
"""The queries of `/master.htm`, by `type`."""

_BROKER_METHODS: Final = """
    admin_query_server_version admin_query_group_offset admin_query_offset admin_get_booked_groupname
    admin_query_pubinfo admin_get_partition_reginfo admin_get_group_detail_info admin_query_broker_all_store_info
    admin_snapshot_message admin_manual_set_current_offset admin_set_offset admin_clone_offset admin_rmv_offset
    admin_get_metrics_info admin_get_msgstore_stats admin_enable_stats admin_disable_stats admin_disable_all_stats
    admin_get_methods"""
BROKER_PERMISSIONS: Final[Mapping[str, tuple[HttpNeed, ...]]] = MappingProxyType(
    {name: (SERVERS_TOKEN,) for name in _BROKER_METHODS.split()}
)
"""The methods of `/broker.htm`: a Broker has neither passwords nor tokens of users, so only its own token counts."""
