-- Rate limits of the cloud's API, which all replicas of an account and region share. An expand step: a program that does
-- not know of the tables goes on working.
--
-- Unlogged: a token is taken for every call, and a commit that writes no log waits for no disk. After a crash of the
-- database the tables are empty, and buckets begin with the tokens of a second at the known limit.

CREATE UNLOGGED TABLE api_buckets (
    scope         text    NOT NULL,
    -- An action of the API, or actions that share one limit.
    bucket        text    NOT NULL,
    -- In millionths of a token: what any lane may take, and what each lane has kept, most urgent first.
    level         bigint  NOT NULL,
    kept          bigint[] NOT NULL,
    -- Learned rate, in thousandths of a token per second.
    rate          bigint  NOT NULL,
    -- Times of the database, in milliseconds since 1970: refilled up to, and last halved.
    at_ms         bigint  NOT NULL,
    throttled_ms  bigint,
    PRIMARY KEY (scope, bucket)
) WITH (fillfactor = 50);

-- Calls that wait at each process, by lane. Without another request of the process they expire.
CREATE UNLOGGED TABLE api_waiters (
    scope       text     NOT NULL,
    bucket      text     NOT NULL,
    process     text     NOT NULL,
    counts      bigint[] NOT NULL,
    since_ms    bigint[] NOT NULL,
    expires_ms  bigint   NOT NULL,
    PRIMARY KEY (scope, bucket, process)
) WITH (fillfactor = 50);
