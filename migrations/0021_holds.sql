-- Room in clusters that clients hold for pods to come. An expand step: a program without these holds nothing, and does not
-- know the nodes of holds. A hold that it should have ended is ended by the next program that does.

CREATE TABLE holds (
    id            text        PRIMARY KEY,
    -- That of the cluster.
    scope         text        NOT NULL,
    -- Who holds it, and the request: the same request of a client is executed once.
    client        text        NOT NULL,
    request_id    text        NOT NULL,
    fingerprint   bytea       NOT NULL,
    -- The pods: as the client wrote them, and as they are planned.
    pod_sets      bytea       NOT NULL,
    pods          bytea       NOT NULL,
    dedicated     boolean     NOT NULL,
    -- Price of its nodes at most, in micro-dollars per hour; NULL for no limit.
    max_price     bigint,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When it ends unless it is committed.
    expires_at    timestamptz NOT NULL,
    committed_at  timestamptz,
    -- When it ended: released by its holder, or ended by the owner of the cluster.
    ended_at      timestamptz,
    -- 'released', 'expired' or 'failed' once it has ended.
    ended         text,
    -- Written by the owner of the cluster: whether all of its room is there, where it is, and what it waits for.
    ready         boolean     NOT NULL DEFAULT false,
    message       text        NOT NULL DEFAULT '',
    targets       text[]      NOT NULL DEFAULT '{}',
    target_sets   integer[]   NOT NULL DEFAULT '{}',
    target_pods   integer[]   NOT NULL DEFAULT '{}',
    target_prices bigint[]    NOT NULL DEFAULT '{}',
    -- Grows with each change.
    version       bigint      NOT NULL DEFAULT 1,
    UNIQUE (client, request_id)
) WITH (fillfactor = 70);

-- Those that have not ended, by cluster.
CREATE INDEX holds_live ON holds (scope) WHERE ended_at IS NULL;

INSERT INTO signals (name, version) VALUES ('holds', 0);
