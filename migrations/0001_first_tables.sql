-- Ownership, intents and decisions: what must survive a crash of the server.
-- Times are the database's own, so that replicas need not agree on a clock.

-- Which replica decides for a cluster. Every write of a decision is conditional on the epoch.
CREATE TABLE leases (
    cluster     text        PRIMARY KEY,
    owner       text        NOT NULL,
    epoch       bigint      NOT NULL CHECK (epoch > 0),
    expires_at  timestamptz NOT NULL
);

-- What was decided and why; only decisions that change something are kept.
CREATE TABLE decisions (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    cluster     text        NOT NULL,
    epoch       bigint      NOT NULL,
    summary     text        NOT NULL,
    report      text        NOT NULL,
    decided_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX decisions_of_cluster ON decisions (cluster, id DESC);

-- A launch, written before the cloud is called. The token makes a retry harmless.
CREATE TABLE intents (
    cluster     text        NOT NULL,
    claim       text        NOT NULL,
    token       text        NOT NULL,
    request     text        NOT NULL,
    outcome     text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    settled_at  timestamptz,
    PRIMARY KEY (cluster, claim),
    UNIQUE (cluster, token),
    CHECK ((outcome IS NULL) = (settled_at IS NULL))
);
CREATE INDEX intents_open ON intents (cluster, claim) WHERE outcome IS NULL;
