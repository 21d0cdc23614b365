-- Replacements under way come back with the lease of their cluster. An expand step: a program that does not know of the
-- tables goes on working, and leaves their rows as they are.

-- A machine that is removed once other capacity is there for its pods, written with the decision that launches for it.
-- `pods` (namespace/name) have their places in `places` (NodeClaim/name or Node/name), in the same order.
CREATE TABLE replacements (
    scope       text        NOT NULL,
    claim       text        NOT NULL,
    pool        text        NOT NULL,
    reason      text        NOT NULL,
    moves_pods  boolean     NOT NULL,
    pods        text[]      NOT NULL,
    places      text[]      NOT NULL CHECK (cardinality(places) = cardinality(pods)),
    begun_at    timestamptz NOT NULL,
    PRIMARY KEY (scope, claim)
);

-- How long a NodePool begins no replacement after one that failed.
CREATE TABLE replacement_backoffs (
    scope     text        NOT NULL,
    pool      text        NOT NULL,
    wait_ms   bigint      NOT NULL,
    until_at  timestamptz NOT NULL,
    PRIMARY KEY (scope, pool)
);
