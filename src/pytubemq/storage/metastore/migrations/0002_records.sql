-- Every record with its properties layer by layer (NULL: as the layer below says) and its stamp: who made it, who
-- changed it last. What the first layout had of a Broker, a topic and its place on a Broker is carried over; a topic's
-- message limit is the topic's alone now. Checks between tables wait for the end of the transaction.
ALTER TABLE broker RENAME TO broker_1;
ALTER TABLE topic RENAME TO topic_1;
ALTER TABLE deploy RENAME TO deploy_1;
ALTER TABLE cluster RENAME TO cluster_1;

CREATE TABLE cluster (
    id                       INTEGER PRIMARY KEY CHECK (id = 1),
    broker_port              INTEGER NOT NULL,
    broker_tls_port          INTEGER NOT NULL,
    broker_web_port          INTEGER NOT NULL,
    max_message_bytes        INTEGER NOT NULL,
    qry_priority_id          INTEGER NOT NULL,
    flow_ctrl_enable         INTEGER NOT NULL,
    flow_ctrl_info           TEXT    NOT NULL,
    num_topic_stores         INTEGER,
    num_partitions           INTEGER,
    unflush_threshold        INTEGER,
    unflush_interval         INTEGER,
    unflush_data_hold        INTEGER,
    mem_cache_msg_size_in_mb INTEGER,
    mem_cache_msg_cnt_in_k   INTEGER,
    mem_cache_flush_intvl    INTEGER,
    accept_publish           INTEGER,
    accept_subscribe         INTEGER,
    delete_policy            TEXT,
    create_user              TEXT    NOT NULL,
    create_ms                INTEGER NOT NULL,
    modify_user              TEXT    NOT NULL,
    modify_ms                INTEGER NOT NULL,
    data_version_id          INTEGER NOT NULL,
    serial_id                INTEGER NOT NULL,
    epoch                    INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE broker (
    broker_id                INTEGER PRIMARY KEY,
    host                     TEXT    NOT NULL,
    port                     INTEGER NOT NULL,
    tls_port                 INTEGER NOT NULL,
    web_port                 INTEGER NOT NULL,
    region_id                INTEGER NOT NULL,
    group_id                 INTEGER NOT NULL,
    manage_status            INTEGER NOT NULL,
    num_topic_stores         INTEGER,
    num_partitions           INTEGER,
    unflush_threshold        INTEGER,
    unflush_interval         INTEGER,
    unflush_data_hold        INTEGER,
    mem_cache_msg_size_in_mb INTEGER,
    mem_cache_msg_cnt_in_k   INTEGER,
    mem_cache_flush_intvl    INTEGER,
    accept_publish           INTEGER,
    accept_subscribe         INTEGER,
    delete_policy            TEXT,
    create_user              TEXT    NOT NULL,
    create_ms                INTEGER NOT NULL,
    modify_user              TEXT    NOT NULL,
    modify_ms                INTEGER NOT NULL,
    data_version_id          INTEGER NOT NULL,
    serial_id                INTEGER NOT NULL,
    epoch                    INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE topic (
    topic               TEXT    PRIMARY KEY,
    topic_name_id       INTEGER NOT NULL,
    enable_auth_control INTEGER NOT NULL,
    max_message_bytes   INTEGER NOT NULL,
    create_user         TEXT    NOT NULL,
    create_ms           INTEGER NOT NULL,
    modify_user         TEXT    NOT NULL,
    modify_ms           INTEGER NOT NULL,
    data_version_id     INTEGER NOT NULL,
    serial_id           INTEGER NOT NULL,
    epoch               INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE deploy (
    topic                    TEXT    NOT NULL REFERENCES topic (topic) DEFERRABLE INITIALLY DEFERRED,
    broker_id                INTEGER NOT NULL REFERENCES broker (broker_id) DEFERRABLE INITIALLY DEFERRED,
    topic_status             INTEGER NOT NULL,
    num_topic_stores         INTEGER,
    num_partitions           INTEGER,
    unflush_threshold        INTEGER,
    unflush_interval         INTEGER,
    unflush_data_hold        INTEGER,
    mem_cache_msg_size_in_mb INTEGER,
    mem_cache_msg_cnt_in_k   INTEGER,
    mem_cache_flush_intvl    INTEGER,
    accept_publish           INTEGER,
    accept_subscribe         INTEGER,
    delete_policy            TEXT,
    create_user              TEXT    NOT NULL,
    create_ms                INTEGER NOT NULL,
    modify_user              TEXT    NOT NULL,
    modify_ms                INTEGER NOT NULL,
    data_version_id          INTEGER NOT NULL,
    serial_id                INTEGER NOT NULL,
    epoch                    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (topic, broker_id)
) WITHOUT ROWID;

CREATE TABLE consume (
    "group"         TEXT    NOT NULL,
    topic           TEXT    NOT NULL,
    consume_enable  INTEGER NOT NULL,
    disable_csm_rsn TEXT    NOT NULL,
    filter_enable   INTEGER NOT NULL,
    filter_conds    TEXT    NOT NULL,
    create_user     TEXT    NOT NULL,
    create_ms       INTEGER NOT NULL,
    modify_user     TEXT    NOT NULL,
    modify_ms       INTEGER NOT NULL,
    data_version_id INTEGER NOT NULL,
    serial_id       INTEGER NOT NULL,
    epoch           INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY ("group", topic)
) WITHOUT ROWID;

CREATE TABLE consumer_group (
    "group"                 TEXT    PRIMARY KEY,
    res_check_enable        INTEGER NOT NULL,
    alwd_broker_client_rate INTEGER NOT NULL,
    qry_priority_id         INTEGER NOT NULL,
    flow_ctrl_enable        INTEGER NOT NULL,
    flow_ctrl_info          TEXT    NOT NULL,
    create_user             TEXT    NOT NULL,
    create_ms               INTEGER NOT NULL,
    modify_user             TEXT    NOT NULL,
    modify_ms               INTEGER NOT NULL,
    data_version_id         INTEGER NOT NULL,
    serial_id               INTEGER NOT NULL,
    epoch                   INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

INSERT INTO cluster (
    id, broker_port, broker_tls_port, broker_web_port, max_message_bytes, qry_priority_id, flow_ctrl_enable,
    flow_ctrl_info, num_topic_stores, num_partitions, unflush_threshold, unflush_interval, unflush_data_hold,
    mem_cache_msg_size_in_mb, mem_cache_msg_cnt_in_k, mem_cache_flush_intvl, accept_publish, accept_subscribe,
    delete_policy, create_user, create_ms, modify_user, modify_ms, data_version_id, serial_id, epoch
)
SELECT
    1, 8123, 8124, 8081, max_message_bytes, qry_priority_id, 0,
    '[]', 1, 1, 1000, 10000, 0,
    3, 10, 20000, 1, 1,
    'delete,168h', '', 0, '', 0, -2, serial_id, epoch
FROM cluster_1;

INSERT INTO broker (
    broker_id, host, port, tls_port, web_port, region_id, group_id, manage_status,
    create_user, create_ms, modify_user, modify_ms, data_version_id, serial_id, epoch
)
SELECT broker_id, host, port, tls_port, 8081, 0, 0, manage_status, '', created_ms, '', created_ms, -2, serial_id, epoch
FROM broker_1;

INSERT INTO topic (
    topic, topic_name_id, enable_auth_control, max_message_bytes,
    create_user, create_ms, modify_user, modify_ms, data_version_id, serial_id, epoch
)
SELECT name, 0, 0, max_message_bytes, '', created_ms, '', created_ms, -2, serial_id, epoch
FROM topic_1;

INSERT INTO deploy (
    topic, broker_id, topic_status, num_topic_stores, num_partitions, accept_publish, accept_subscribe, delete_policy,
    create_user, create_ms, modify_user, modify_ms, data_version_id, serial_id, epoch
)
SELECT
    d.topic, d.broker_id, d.status, d.stores, d.partitions, d.accept_publish, d.accept_subscribe, d.delete_policy,
    '', t.created_ms, '', t.created_ms, -2, t.serial_id, d.epoch
FROM deploy_1 AS d JOIN topic_1 AS t ON t.name = d.topic;

DROP TABLE deploy_1;
DROP TABLE topic_1;
DROP TABLE broker_1;
DROP TABLE cluster_1;
