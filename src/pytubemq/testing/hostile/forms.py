"""Forms of text fields, by field name.

The invariant: a field that is not named here gets texts of every form, so a new field is covered from the start.
"""

from __future__ import annotations

from typing import Final

FORM_OF: Final = {
    "client_id": "client",
    "consumer_id": "client",
    "group_name": "group",
    "group_names": "group",
    "topic_name": "topic",
    "topic_names": "topic",
    "topic_list": "topic",
    "host_name": "host",
    "broker_id": "broker id",
    "broker_infos": "broker",
    "broker_config_list": "broker",
    "topic_infos": "topic layout",
    "topic_info": "topic layout",
    "topic_meta_info_list": "topic meta",
    "subscribe_info": "subscription",
    "leases": "subscription",
    "partition_info": "partition",
    "failure_info": "failure",
    "topic_condition": "condition",
    "filter_cond_str": "filter",
    "filters": "filter",
    "required_partition": "offsets",
    "part_sub_info": "part subscription",
    "broker_default_conf_info": "default conf",
    "broker_topic_set_conf_info": "topic conf",
    "removed_topics_info": "topic conf",
    "remove_topic_conf_info": "topic conf",
    "topic_durability": "topic value",
    "topic_retention": "topic value",
    "flow_control_info": "flow rules",
    "def_flow_control_info": "flow rules",
    "group_flow_control_info": "flow rules",
    "msg_type": "message type",
    "msg_time": "message time",
    "err_msg": "code text",
    "visit_authorized_token": "token",
    "auth_authorized_token": "token",
    "authorized_token": "token",
    "to": "word",
    "asked": "word",
    "own_durability": "word",
}
