-- Bearer tokens of users for HTTP (hashed), and the audit trail: who changed what, from where, before and after.
CREATE TABLE user_token (
    "user"          TEXT    NOT NULL,
    token_id        TEXT    NOT NULL,
    token_hash      TEXT    NOT NULL,
    expires_ms      INTEGER NOT NULL,
    create_user     TEXT    NOT NULL,
    create_ms       INTEGER NOT NULL,
    modify_user     TEXT    NOT NULL,
    modify_ms       INTEGER NOT NULL,
    data_version_id INTEGER NOT NULL,
    serial_id       INTEGER NOT NULL,
    epoch           INTEGER NOT NULL DEFAULT 0,
    "check"         INTEGER NOT NULL DEFAULT -1,
    PRIMARY KEY ("user", token_id)
);

CREATE TABLE audit (
    entry_id        INTEGER PRIMARY KEY,
    host            TEXT    NOT NULL,
    action          TEXT    NOT NULL,
    target          TEXT    NOT NULL,
    outcome         TEXT    NOT NULL,
    before          TEXT    NOT NULL,
    after           TEXT    NOT NULL,
    create_user     TEXT    NOT NULL,
    create_ms       INTEGER NOT NULL,
    modify_user     TEXT    NOT NULL,
    modify_ms       INTEGER NOT NULL,
    data_version_id INTEGER NOT NULL,
    serial_id       INTEGER NOT NULL,
    epoch           INTEGER NOT NULL DEFAULT 0,
    "check"         INTEGER NOT NULL DEFAULT -1
);
