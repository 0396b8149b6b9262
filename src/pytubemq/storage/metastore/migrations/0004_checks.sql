-- A checksum of our own in every record, and what there should be in all: how many changes, how many records, and the
-- sum of their checksums. They are worked out for the records that are there in the same transaction.
ALTER TABLE cluster ADD COLUMN "check" INTEGER NOT NULL DEFAULT -1;
ALTER TABLE broker ADD COLUMN "check" INTEGER NOT NULL DEFAULT -1;
ALTER TABLE topic ADD COLUMN "check" INTEGER NOT NULL DEFAULT -1;
ALTER TABLE deploy ADD COLUMN "check" INTEGER NOT NULL DEFAULT -1;
ALTER TABLE consume ADD COLUMN "check" INTEGER NOT NULL DEFAULT -1;
ALTER TABLE consumer_group ADD COLUMN "check" INTEGER NOT NULL DEFAULT -1;

CREATE TABLE state (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL,
    records    INTEGER NOT NULL,
    total      INTEGER NOT NULL,
    "check"    INTEGER NOT NULL
);
INSERT INTO state (id, generation, records, total, "check") VALUES (1, 0, 0, 0, -1);
