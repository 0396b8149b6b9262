-- Users with their secrets (encrypted, with a key that is not here) and passwords (hashed), and what they are allowed.
CREATE TABLE account (
    "user"          TEXT    PRIMARY KEY,
    user_enabled    INTEGER NOT NULL,
    secret_epoch    INTEGER NOT NULL,
    sealed_secret   TEXT    NOT NULL,
    password_hash   TEXT    NOT NULL,
    create_user     TEXT    NOT NULL,
    create_ms       INTEGER NOT NULL,
    modify_user     TEXT    NOT NULL,
    modify_ms       INTEGER NOT NULL,
    data_version_id INTEGER NOT NULL,
    serial_id       INTEGER NOT NULL,
    epoch           INTEGER NOT NULL DEFAULT 0,
    "check"         INTEGER NOT NULL DEFAULT -1
);

CREATE TABLE permission (
    "user"          TEXT    NOT NULL,
    operation       TEXT    NOT NULL,
    resource_kind   TEXT    NOT NULL,
    pattern         TEXT    NOT NULL,
    create_user     TEXT    NOT NULL,
    create_ms       INTEGER NOT NULL,
    modify_user     TEXT    NOT NULL,
    modify_ms       INTEGER NOT NULL,
    data_version_id INTEGER NOT NULL,
    serial_id       INTEGER NOT NULL,
    epoch           INTEGER NOT NULL DEFAULT 0,
    "check"         INTEGER NOT NULL DEFAULT -1,
    PRIMARY KEY ("user", operation, resource_kind, pattern)
);
