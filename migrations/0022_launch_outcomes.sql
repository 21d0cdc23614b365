-- What became of launches, from which every replica learns the odds of launches to come. An expand step: a program that does
-- not know of the table goes on working.

CREATE TABLE launch_outcomes (
    -- The process that launched, and the number of the outcome there: a repeated write changes nothing.
    process        text        NOT NULL,
    sequence       bigint      NOT NULL,
    -- Writers are serialized, so that a reader of numbers above the last one misses none.
    number         bigint      GENERATED ALWAYS AS IDENTITY,
    -- Empty: it says something about all accounts.
    account        text        NOT NULL,
    -- Zone id; the zone's name in the account when its id is not known.
    zone           text        NOT NULL,
    instance_type  text        NOT NULL,
    capacity_type  text        NOT NULL,
    asked          bigint      NOT NULL,
    launched       bigint      NOT NULL,
    stored_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (process, sequence)
);

CREATE INDEX launch_outcomes_by_number ON launch_outcomes (number);
