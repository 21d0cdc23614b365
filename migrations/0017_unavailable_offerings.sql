-- Offerings that the cloud refused, with what a restart must not forget: how many refusals came in a row, when the exclusion
-- ends, and which process probes the offering. Keyed by zone id, for all accounts of a region or for one.
-- An expand step: `offering_memory`, which programs without this table read and write, goes in a later release.

CREATE TABLE unavailable_offerings (
    region         text        NOT NULL,
    -- Empty: the refusal holds for all accounts of the region.
    account        text        NOT NULL,
    instance_type  text        NOT NULL,
    -- Zone id; the zone's name in the account when its id is not known.
    zone           text        NOT NULL,
    capacity_type  text        NOT NULL,
    -- Smallest number of instances of the refused size class.
    size           bigint      NOT NULL,
    -- Refusals in a row; 0 once a launch has succeeded.
    failures       bigint      NOT NULL,
    refused_at     timestamptz NOT NULL,
    until_at       timestamptz NOT NULL,
    reason         text        NOT NULL,
    probe_holder   text,
    probe_until    timestamptz,
    -- That of the signal `offerings`, whose row serializes the writers.
    version        bigint      NOT NULL,
    changed_at     timestamptz NOT NULL,
    PRIMARY KEY (region, account, instance_type, zone, capacity_type, size)
);
