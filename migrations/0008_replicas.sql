-- Which servers share this database, so that each can say when another one runs by other settings or under its own name. An expand
-- step: programs that do not know of it go on working, and are not reckoned with.

-- One life of a server: it writes its row every minute.
CREATE TABLE replicas (
    instance  text        PRIMARY KEY,
    owner     text        NOT NULL,
    keys      text[]      NOT NULL,
    digests   text[]      NOT NULL,
    began_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    told_at   timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
