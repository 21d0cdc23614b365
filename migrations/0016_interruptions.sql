-- Notices about instances, which any replica receives from the queue of the account and region, and the replica that owns
-- the instance's cluster handles. An expand step: a program that does not know of the table goes on working.

CREATE TABLE interruptions (
    scope        text        NOT NULL,
    -- Writers of one scope are serialized, so that a reader of numbers above the last one misses none.
    number       bigint      GENERATED ALWAYS AS IDENTITY,
    instance     text        NOT NULL,
    kind         text        NOT NULL,
    -- The cloud's times, in milliseconds since 1970.
    sent_ms      bigint      NOT NULL,
    ends_ms      bigint,
    received_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (scope, instance, kind, sent_ms)
);

CREATE INDEX interruptions_by_number ON interruptions (scope, number);
