"""The page about the methods says what the methods say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytubemq.admin.webapi.params import OPS_ADD, OPS_QUERY, OPS_UPD, PROPS, CallError
from pytubemq.admin.webapi.table import NOT_OFFERED, master_table
from scripts.docs.webapi import tables

QUERIES = """
admin_get_methods admin_get_metrics_info admin_query_allowed_consumer_group_info
admin_query_black_consumer_group_info admin_query_booked_csmctrl_groups admin_query_booked_resctrl_groups
admin_query_broker_configure admin_query_broker_run_status admin_query_broker_topic_config_info
admin_query_client_balance_group_set admin_query_cluster_default_setting admin_query_cluster_topic_view
admin_query_consume_group_detail admin_query_consume_group_setting admin_query_def_flow_control_rule
admin_query_deployed_broker_ids admin_query_deployed_topics admin_query_group_csmctrl_info
admin_query_group_filtercond_info admin_query_group_flow_control_rule admin_query_group_info_by_topic
admin_query_group_resctrl_info admin_query_master_group_info admin_query_server_version admin_query_sub_info
admin_query_topic_authorize_control admin_query_topic_broker_config_info admin_query_topic_control_info
admin_query_topic_deploy_configure admin_query_topic_deploy_info admin_query_topic_info
"""
CHANGES = """
admin_add_authorized_consumergroup_info admin_add_black_consumergroup_info admin_add_broker_configure
admin_add_consume_group_setting admin_add_group_csmctrl_info admin_add_group_filtercond_info
admin_add_group_resctrl_info admin_add_new_topic_record admin_add_topic_control_info admin_add_topic_deploy_info
admin_batch_add_broker_configure admin_batch_add_group_csmctrl_info admin_batch_add_group_resctrl_info
admin_batch_add_topic_control_info admin_batch_del_authorized_consumergroup_info
admin_batch_delete_black_consumergroup_info admin_batch_delete_group_csmctrl_info
admin_batch_update_broker_configure admin_batch_update_group_csmctrl_info admin_batch_update_group_resctrl_info
admin_batch_update_topic_control_info admin_batch_update_topic_deploy_info
admin_bath_add_authorized_consumergroup_info admin_bath_add_black_consumergroup_info
admin_bath_add_broker_configure admin_bath_add_consume_group_setting admin_bath_add_group_filtercond_info
admin_bath_add_new_topic_record admin_bath_add_topic_authorize_control admin_bath_add_topic_deploy_info
admin_bath_mod_group_filtercond_info admin_del_consume_group_setting admin_del_group_filtercond_info
admin_delete_allowed_consumer_group_info admin_delete_black_consumergroup_info admin_delete_broker_configure
admin_delete_group_csmctrl_info admin_delete_group_resctrl_info admin_delete_topic_authorize_control
admin_delete_topic_control_info admin_delete_topic_deploy_info admin_delete_topic_info admin_disable_all_stats
admin_disable_stats admin_enable_stats admin_mod_group_filtercond_info admin_modify_topic_info
admin_offline_broker_configure admin_online_broker_configure admin_rebalance_group_allocate
admin_redo_deleted_topic_deploy_info admin_redo_deleted_topic_info admin_release_broker_autoforbidden_status
admin_reload_broker_configure admin_remove_topic_deploy_info admin_remove_topic_info
admin_rmv_def_flow_control_rule admin_rmv_group_flow_control_rule admin_set_broker_read_or_write
admin_set_client_balance_group_consume_from_max admin_set_cluster_default_setting admin_set_def_flow_control_rule
admin_set_group_flow_control_rule admin_set_topic_authorize_control admin_transfer_current_master
admin_upd_consume_group_setting admin_upd_def_flow_control_rule admin_upd_group_flow_control_rule
admin_update_broker_configure admin_update_cluster_default_setting admin_update_group_csmctrl_info
admin_update_group_resctrl_info admin_update_topic_control_info admin_update_topic_deploy_info
"""
"""The original's methods (2.4.0), those that need its token apart."""
PAGE = (Path(__file__).parents[3] / "docs/reference/webapi.md").read_text("utf-8")


def test_the_words_for_parameters_that_go_together() -> None:
    for word, params in {"add": OPS_ADD, "change": OPS_UPD, "stamp": OPS_QUERY, "properties": PROPS}.items():
        row = re.search(rf"^\| \*{word}\* \| (.*) \|$", PAGE, re.MULTILINE)
        assert row is not None
        assert re.findall(r"`(\w+)`(\\\*)?", row[1]) == [
            (param.name, "\\*" if param.required else "") for param in params
        ]


def test_every_method_is_told_once() -> None:
    names = [name for method in master_table().methods for name in (method.name, *method.aliases)]
    for name in (*names, *NOT_OFFERED):
        assert len(re.findall(rf"^\|[^|]*`{name}`", PAGE, re.MULTILINE)) == 1, name


@pytest.mark.parametrize("name", NOT_OFFERED)
def test_what_is_not_offered_says_why(name: str) -> None:
    with pytest.raises(CallError, match=f"{name} is not offered: "):
        master_table().find(name)


def test_all_of_the_originals_methods_are_there_or_said_not_to_be() -> None:
    table = master_table()
    assert len(QUERIES.split()) + len(CHANGES.split()) == 105
    for names, modify in ((QUERIES.split(), False), (CHANGES.split(), True)):
        for name in names:
            if name not in NOT_OFFERED:
                assert table.find(name).modify is modify, name


def test_what_holds_when_a_parameter_is_left_out() -> None:
    page = tables()["methods"]
    assert "| `1`, unless the Broker or the cluster has another |" in _row(page, "numPartitions")
    assert _row(page, "isReservedData").endswith("| `false` |")
    assert _row(page, "brokerPort").endswith("|  |")


def _row(page: str, name: str) -> str:
    return next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
