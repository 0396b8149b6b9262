-- The first layout. Every table has `epoch`: the leader's number that wrote the row, 0 while one Master leads alone.
-- A write by a leader proves in its own transaction that no row of `fence` has a larger one.
CREATE TABLE fence (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    epoch INTEGER NOT NULL
);
INSERT INTO fence (id, epoch) VALUES (1, 0);

CREATE TABLE serial (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    last INTEGER NOT NULL
);
INSERT INTO serial (id, last) VALUES (1, 0);

CREATE TABLE broker (
    broker_id     INTEGER PRIMARY KEY,
    host          TEXT    NOT NULL,
    port          INTEGER NOT NULL,
    tls_port      INTEGER NOT NULL,
    manage_status INTEGER NOT NULL,
    created_ms    INTEGER NOT NULL,
    serial_id     INTEGER NOT NULL,
    epoch         INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE topic (
    name              TEXT    PRIMARY KEY,
    max_message_bytes INTEGER NOT NULL,
    created_ms        INTEGER NOT NULL,
    serial_id         INTEGER NOT NULL,
    epoch             INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE deploy (
    topic             TEXT    NOT NULL REFERENCES topic (name),
    broker_id         INTEGER NOT NULL REFERENCES broker (broker_id),
    partitions        INTEGER NOT NULL,
    stores            INTEGER NOT NULL,
    accept_publish    INTEGER NOT NULL,
    accept_subscribe  INTEGER NOT NULL,
    delete_policy     TEXT    NOT NULL,
    max_message_bytes INTEGER NOT NULL,
    status            INTEGER NOT NULL,
    epoch             INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (topic, broker_id)
) WITHOUT ROWID;

CREATE TABLE cluster (
    id                INTEGER PRIMARY KEY CHECK (id = 1),
    max_message_bytes INTEGER NOT NULL,
    qry_priority_id   INTEGER NOT NULL,
    serial_id         INTEGER NOT NULL,
    epoch             INTEGER NOT NULL DEFAULT 0
);
