"""One record of each kind, and two where records of a kind have an order."""

from __future__ import annotations

from pytubemq.model.durability import Durability
from pytubemq.model.ids import Address
from pytubemq.model.records import (
    AuditRecord,
    BrokerRecord,
    ClusterRecord,
    ConsumeRecord,
    DeployRecord,
    GroupRecord,
    ManageStatus,
    PermissionRecord,
    Stamp,
    TopicProps,
    TopicRecord,
    TopicStatus,
    UserRecord,
    UserTokenRecord,
)

MADE = Stamp("ann", 1000, "bob", 2000, 7, 3000)
PROPS = TopicProps(
    num_partitions=3,
    accept_publish=False,
    unflush_data_hold=0,
    delete_policy="delete,72h",
    durability=Durability.MEMORY,
)
CLUSTER = ClusterRecord(
    9123, 9124, 9081, 2 << 20, 203, flow_ctrl_enable=True, flow_ctrl_info='[{"type":0}]', stamp=MADE
)
ONE = BrokerRecord(1, Address("127.0.0.1", 8123), stamp=MADE)
TWO = BrokerRecord(2, Address("::1", 9123), 9124, 9081, 3, 4, ManageStatus.ONLY_READ, PROPS, MADE)
DEMO = TopicRecord("demo", 5, enable_auth_control=True, max_message_bytes=2048, stamp=MADE)
ON_ONE = DeployRecord("demo", 1, props=PROPS, stamp=MADE)
ON_TWO = DeployRecord("demo", 2, TopicStatus.SOFT_DELETED, stamp=MADE)
READS = ConsumeRecord(
    "g", "demo", consume_enable=False, disable_csm_rsn="It's over", filter_conds=frozenset({"a", "b"}), stamp=MADE
)
GROUP = GroupRecord("g", res_check_enable=True, alwd_broker_client_rate=4, qry_priority_id=101, stamp=MADE)
USER = UserRecord("ann", user_enabled=False, secret_epoch=3, sealed_secret="1:x", password_hash="scrypt:y", stamp=MADE)
ALLOWED = PermissionRecord("ann", "produce", "topic", "orders*", MADE)
TOKEN = UserTokenRecord("ann", "1f", "sha256:x", 5000, MADE)
ENTRY = AuditRecord(7, "127.0.0.1", "DELETE /topics", "topic demo", "done", "{}", "{}", MADE)
ALL = (CLUSTER, ONE, TWO, DEMO, ON_ONE, ON_TWO, READS, GROUP, USER, ALLOWED, TOKEN, ENTRY)
