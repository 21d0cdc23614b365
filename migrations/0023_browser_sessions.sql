-- Sessions of browsers that have signed in to the dashboard. An expand step: a program that does not know of the table goes on
-- working, and signs nobody in.

CREATE TABLE browser_sessions (
    -- SHA-256 of the cookie's value and of the key, so that a reader of the table cannot act.
    id_sha256   bytea       PRIMARY KEY,
    key_sha256  bytea       NOT NULL,
    -- Name in the trust file, and what identified the client at the sign-in.
    client      text        NOT NULL,
    credential  text        NOT NULL,
    expires_at  timestamptz NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX browser_sessions_by_client ON browser_sessions (client, created_at);
