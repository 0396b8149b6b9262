-- The first layout: a table for each kind of record with the columns that its record has, beside them the tables that
-- hold a cluster together. Keys are compared byte by byte, whatever the language of the database.
CREATE SCHEMA IF NOT EXISTS pytubemq;

CREATE TABLE pytubemq.layout (
    id      BIGINT PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL
);
INSERT INTO pytubemq.layout (id, version) VALUES (1, 0);

-- Who leads. The epoch grows with each leader. It is unique so that a renewal, which leaves it as it is, does not wait
-- for writes that lock this row by FOR KEY SHARE, and a new leader, who changes it, does.
CREATE TABLE pytubemq.lease (
    id       BIGINT      PRIMARY KEY CHECK (id = 1),
    epoch    BIGINT      NOT NULL UNIQUE,
    holder   TEXT        NOT NULL,
    renewals BIGINT      NOT NULL,
    lease_ms BIGINT      NOT NULL,
    until    TIMESTAMPTZ NOT NULL
);
INSERT INTO pytubemq.lease (id, epoch, holder, renewals, lease_ms, until) VALUES (1, 0, '', 0, 0, now());

-- How many changes there were, and what there should be in all: the number of records, the sum of their checksums.
CREATE TABLE pytubemq.state (
    id             BIGINT PRIMARY KEY CHECK (id = 1),
    generation     BIGINT NOT NULL,
    records        BIGINT NOT NULL,
    total          BIGINT NOT NULL,
    last_serial_id BIGINT NOT NULL,
    "check"        BIGINT NOT NULL
);

INSERT INTO pytubemq.state (id, generation, records, total, last_serial_id, "check")
VALUES (1, 0, 0, 0, 0, 1865905366);

CREATE TABLE pytubemq.cluster (
    id                         BIGINT PRIMARY KEY CHECK (id = 1),
    "broker_port"              BIGINT NOT NULL,
    "broker_tls_port"          BIGINT NOT NULL,
    "broker_web_port"          BIGINT NOT NULL,
    "max_message_bytes"        BIGINT NOT NULL,
    "qry_priority_id"          BIGINT NOT NULL,
    "flow_ctrl_enable"         BIGINT NOT NULL,
    "flow_ctrl_info"           TEXT NOT NULL,
    "num_topic_stores"         BIGINT,
    "num_partitions"           BIGINT,
    "unflush_threshold"        BIGINT,
    "unflush_interval"         BIGINT,
    "unflush_data_hold"        BIGINT,
    "mem_cache_msg_size_in_mb" BIGINT,
    "mem_cache_msg_cnt_in_k"   BIGINT,
    "mem_cache_flush_intvl"    BIGINT,
    "accept_publish"           BIGINT,
    "accept_subscribe"         BIGINT,
    "delete_policy"            TEXT,
    "durability"               TEXT,
    "create_user"              TEXT NOT NULL,
    "create_ms"                BIGINT NOT NULL,
    "modify_user"              TEXT NOT NULL,
    "modify_ms"                BIGINT NOT NULL,
    "data_version_id"          BIGINT NOT NULL,
    "serial_id"                BIGINT NOT NULL,
    epoch                      BIGINT NOT NULL,
    "check"                    BIGINT NOT NULL
);

CREATE TABLE pytubemq.broker (
    "broker_id"                BIGINT NOT NULL,
    "host"                     TEXT NOT NULL,
    "port"                     BIGINT NOT NULL,
    "tls_port"                 BIGINT NOT NULL,
    "web_port"                 BIGINT NOT NULL,
    "region_id"                BIGINT NOT NULL,
    "group_id"                 BIGINT NOT NULL,
    "manage_status"            BIGINT NOT NULL,
    "num_topic_stores"         BIGINT,
    "num_partitions"           BIGINT,
    "unflush_threshold"        BIGINT,
    "unflush_interval"         BIGINT,
    "unflush_data_hold"        BIGINT,
    "mem_cache_msg_size_in_mb" BIGINT,
    "mem_cache_msg_cnt_in_k"   BIGINT,
    "mem_cache_flush_intvl"    BIGINT,
    "accept_publish"           BIGINT,
    "accept_subscribe"         BIGINT,
    "delete_policy"            TEXT,
    "durability"               TEXT,
    "create_user"              TEXT NOT NULL,
    "create_ms"                BIGINT NOT NULL,
    "modify_user"              TEXT NOT NULL,
    "modify_ms"                BIGINT NOT NULL,
    "data_version_id"          BIGINT NOT NULL,
    "serial_id"                BIGINT NOT NULL,
    epoch                      BIGINT NOT NULL,
    "check"                    BIGINT NOT NULL,
    PRIMARY KEY ("broker_id")
);

CREATE TABLE pytubemq.topic (
    "topic"               TEXT COLLATE "C" NOT NULL,
    "topic_name_id"       BIGINT NOT NULL,
    "enable_auth_control" BIGINT NOT NULL,
    "max_message_bytes"   BIGINT NOT NULL,
    "create_user"         TEXT NOT NULL,
    "create_ms"           BIGINT NOT NULL,
    "modify_user"         TEXT NOT NULL,
    "modify_ms"           BIGINT NOT NULL,
    "data_version_id"     BIGINT NOT NULL,
    "serial_id"           BIGINT NOT NULL,
    epoch                 BIGINT NOT NULL,
    "check"               BIGINT NOT NULL,
    PRIMARY KEY ("topic")
);

CREATE TABLE pytubemq.deploy (
    "topic"                    TEXT COLLATE "C" NOT NULL REFERENCES pytubemq.topic (topic) DEFERRABLE INITIALLY DEFERRED,
    "broker_id"                BIGINT NOT NULL REFERENCES pytubemq.broker (broker_id) DEFERRABLE INITIALLY DEFERRED,
    "topic_status"             BIGINT NOT NULL,
    "num_topic_stores"         BIGINT,
    "num_partitions"           BIGINT,
    "unflush_threshold"        BIGINT,
    "unflush_interval"         BIGINT,
    "unflush_data_hold"        BIGINT,
    "mem_cache_msg_size_in_mb" BIGINT,
    "mem_cache_msg_cnt_in_k"   BIGINT,
    "mem_cache_flush_intvl"    BIGINT,
    "accept_publish"           BIGINT,
    "accept_subscribe"         BIGINT,
    "delete_policy"            TEXT,
    "durability"               TEXT,
    "create_user"              TEXT NOT NULL,
    "create_ms"                BIGINT NOT NULL,
    "modify_user"              TEXT NOT NULL,
    "modify_ms"                BIGINT NOT NULL,
    "data_version_id"          BIGINT NOT NULL,
    "serial_id"                BIGINT NOT NULL,
    epoch                      BIGINT NOT NULL,
    "check"                    BIGINT NOT NULL,
    PRIMARY KEY ("topic", "broker_id")
);

CREATE INDEX deploy_by_broker ON pytubemq.deploy (broker_id);

CREATE TABLE pytubemq.consume (
    "group"           TEXT COLLATE "C" NOT NULL,
    "topic"           TEXT COLLATE "C" NOT NULL,
    "consume_enable"  BIGINT NOT NULL,
    "disable_csm_rsn" TEXT NOT NULL,
    "filter_enable"   BIGINT NOT NULL,
    "filter_conds"    TEXT NOT NULL,
    "create_user"     TEXT NOT NULL,
    "create_ms"       BIGINT NOT NULL,
    "modify_user"     TEXT NOT NULL,
    "modify_ms"       BIGINT NOT NULL,
    "data_version_id" BIGINT NOT NULL,
    "serial_id"       BIGINT NOT NULL,
    epoch             BIGINT NOT NULL,
    "check"           BIGINT NOT NULL,
    PRIMARY KEY ("group", "topic")
);

CREATE TABLE pytubemq.consumer_group (
    "group"                   TEXT COLLATE "C" NOT NULL,
    "res_check_enable"        BIGINT NOT NULL,
    "alwd_broker_client_rate" BIGINT NOT NULL,
    "qry_priority_id"         BIGINT NOT NULL,
    "flow_ctrl_enable"        BIGINT NOT NULL,
    "flow_ctrl_info"          TEXT NOT NULL,
    "create_user"             TEXT NOT NULL,
    "create_ms"               BIGINT NOT NULL,
    "modify_user"             TEXT NOT NULL,
    "modify_ms"               BIGINT NOT NULL,
    "data_version_id"         BIGINT NOT NULL,
    "serial_id"               BIGINT NOT NULL,
    epoch                     BIGINT NOT NULL,
    "check"                   BIGINT NOT NULL,
    PRIMARY KEY ("group")
);

CREATE TABLE pytubemq.account (
    "user"            TEXT COLLATE "C" NOT NULL,
    "user_enabled"    BIGINT NOT NULL,
    "secret_epoch"    BIGINT NOT NULL,
    "sealed_secret"   TEXT NOT NULL,
    "password_hash"   TEXT NOT NULL,
    "create_user"     TEXT NOT NULL,
    "create_ms"       BIGINT NOT NULL,
    "modify_user"     TEXT NOT NULL,
    "modify_ms"       BIGINT NOT NULL,
    "data_version_id" BIGINT NOT NULL,
    "serial_id"       BIGINT NOT NULL,
    epoch             BIGINT NOT NULL,
    "check"           BIGINT NOT NULL,
    PRIMARY KEY ("user")
);

CREATE TABLE pytubemq.permission (
    "user"            TEXT COLLATE "C" NOT NULL,
    "operation"       TEXT COLLATE "C" NOT NULL,
    "resource_kind"   TEXT COLLATE "C" NOT NULL,
    "pattern"         TEXT COLLATE "C" NOT NULL,
    "create_user"     TEXT NOT NULL,
    "create_ms"       BIGINT NOT NULL,
    "modify_user"     TEXT NOT NULL,
    "modify_ms"       BIGINT NOT NULL,
    "data_version_id" BIGINT NOT NULL,
    "serial_id"       BIGINT NOT NULL,
    epoch             BIGINT NOT NULL,
    "check"           BIGINT NOT NULL,
    PRIMARY KEY ("user", "operation", "resource_kind", "pattern")
);

CREATE TABLE pytubemq.user_token (
    "user"            TEXT COLLATE "C" NOT NULL,
    "token_id"        TEXT COLLATE "C" NOT NULL,
    "token_hash"      TEXT NOT NULL,
    "expires_ms"      BIGINT NOT NULL,
    "create_user"     TEXT NOT NULL,
    "create_ms"       BIGINT NOT NULL,
    "modify_user"     TEXT NOT NULL,
    "modify_ms"       BIGINT NOT NULL,
    "data_version_id" BIGINT NOT NULL,
    "serial_id"       BIGINT NOT NULL,
    epoch             BIGINT NOT NULL,
    "check"           BIGINT NOT NULL,
    PRIMARY KEY ("user", "token_id")
);

CREATE TABLE pytubemq.audit (
    "entry_id"        BIGINT NOT NULL,
    "host"            TEXT NOT NULL,
    "action"          TEXT NOT NULL,
    "target"          TEXT NOT NULL,
    "outcome"         TEXT NOT NULL,
    "before"          TEXT NOT NULL,
    "after"           TEXT NOT NULL,
    "create_user"     TEXT NOT NULL,
    "create_ms"       BIGINT NOT NULL,
    "modify_user"     TEXT NOT NULL,
    "modify_ms"       BIGINT NOT NULL,
    "data_version_id" BIGINT NOT NULL,
    "serial_id"       BIGINT NOT NULL,
    epoch             BIGINT NOT NULL,
    "check"           BIGINT NOT NULL,
    PRIMARY KEY ("entry_id")
);
