-- What the store's statements cost at 1,000 clusters: fills an empty, migrated database and explains the statements that
-- run often or on much. Figures of one run are in ../README.md.
\set clusters 1000
\set ON_ERROR_STOP on
\timing off

INSERT INTO leases (scope, owner, epoch, expires_at)
SELECT 'cluster/c' || n, 'fleetwright-' || n % 2, 1, now() + interval '30 s' FROM generate_series(1, :clusters) n;

-- 100 machines that run for each cluster, and the launches of a day that are over.
INSERT INTO intents (scope, claim, attempt, token, state, provider_id, settled_at)
SELECT 'cluster/c' || c, 'pool-' || m, 1, 'pool-' || m || '-1', 'launched', 'aws:///us-east-1a/i-' || c || '-' || m, now()
FROM generate_series(1, :clusters) c, generate_series(1, 100) m;
INSERT INTO intents (scope, claim, attempt, token, state, provider_id, settled_at, closed_at)
SELECT 'cluster/c' || c, 'gone-' || m, 1, 'gone-' || m || '-1', 'launched', 'aws:///us-east-1a/i-' || c || '-' || m, now(), now() - random() * interval '24 h'
FROM generate_series(1, :clusters) c, generate_series(1, 200) m;

INSERT INTO launch_requests (scope, claim, attempt, request, claim_order)
SELECT scope, claim, attempt, convert_to(repeat('request ', 120), 'UTF8'), repeat('pod ', 20) FROM intents;

INSERT INTO instructions (scope, id, generation, kind, payload, deadline_at, outcome, ended_at)
SELECT 'cluster/c' || c, i, 1, 'create-claim', convert_to(repeat('payload ', 25), 'UTF8'), now(),
       CASE WHEN i > 3 THEN 'acked' END, CASE WHEN i > 3 THEN now() - random() * interval '24 h' END
FROM generate_series(1, :clusters) c, generate_series(1, 300) i;

-- Three days of decisions and of the log, thinned out: 200 a cluster and day.
SELECT make_log_partitions((now() AT TIME ZONE 'UTC')::date - 2, 3);
INSERT INTO decisions (scope, number, decided_at, epoch, kind, summary, report, segment, sequence, plan, catalogues)
SELECT 'cluster/c' || c, (d * 1000000 + n) * 1000 + c, (now() - d * interval '1 day') - n * interval '1 second', 1, 'provision',
       'one machine for 10 pods', repeat('why ', 100), 3 - d, n, convert_to(repeat('plan', 100), 'UTF8'), ARRAY[sha256('a')]
FROM generate_series(1, :clusters) c, generate_series(0, 2) d, generate_series(1, 200) n;
INSERT INTO log_segments (scope, segment, epoch, started_at)
SELECT 'cluster/c' || c, 3 - d, 1, now() - d * interval '1 day' - interval '200 s'
FROM generate_series(1, :clusters) c, generate_series(0, 2) d;
INSERT INTO log_chunks (scope, segment, first_sequence, last_sequence, written_at, bytes)
SELECT 'cluster/c' || c, 3 - d, n * 10, n * 10 + 9, (now() - d * interval '1 day') - n * interval '5 second', sha512('a')
FROM generate_series(1, :clusters) c, generate_series(0, 2) d, generate_series(1, 40) n;
VACUUM ANALYZE;

\echo '== renew 1,000 leases'
BEGIN;
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
UPDATE leases SET expires_at = clock_timestamp() + interval '30 s'
FROM (SELECT array_agg(scope) AS scopes, array_agg(owner) AS owners, array_agg(epoch) AS epochs FROM leases) all_of_them,
     unnest(scopes, owners, epochs) AS asked (scope, owner, epoch)
WHERE leases.scope = asked.scope AND leases.owner = asked.owner AND leases.epoch = asked.epoch
RETURNING leases.scope, leases.wanted_by;
ROLLBACK;
\echo '== hold a lease'
BEGIN;
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT epoch FROM leases WHERE scope = 'cluster/c500' AND owner = 'fleetwright-0' AND epoch = 1 FOR UPDATE;
ROLLBACK;
\echo '== launches that come back with a lease'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT intents.claim, token, state, provider_id, why, request, claim_order
FROM intents LEFT JOIN launch_requests ON state <> 'launched' AND launch_requests.scope = intents.scope
     AND launch_requests.claim = intents.claim AND launch_requests.attempt = intents.attempt
WHERE intents.scope = 'cluster/c500' AND closed_at IS NULL ORDER BY intents.claim COLLATE "C";
\echo '== instructions that come back with a lease'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT id, payload FROM instructions WHERE scope = 'cluster/c500' AND ended_at IS NULL ORDER BY id;
\echo '== the last decisions of a cluster'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT * FROM decisions WHERE scope = 'cluster/c500' AND number < 9223372036854775807 ORDER BY number DESC LIMIT 100;
\echo '== the last decisions of the fleet'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT * FROM decisions WHERE number < 9223372036854775807 ORDER BY number DESC LIMIT 100;
\echo '== a decision by number'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) SELECT * FROM decisions WHERE number = 1000100500;
\echo '== a segment of the log'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT bytes FROM log_chunks
WHERE scope = 'cluster/c500' AND segment = 3 AND written_at >= now() - interval '1 day' ORDER BY first_sequence;
\echo '== launches to prune'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT ctid FROM intents WHERE closed_at < now() - interval '23 h' LIMIT 5000;
\echo '== sizes'
SELECT relname, n_live_tup AS rows, pg_size_pretty(pg_total_relation_size(relid)) AS with_indexes,
       pg_total_relation_size(relid) / greatest(n_live_tup, 1) AS bytes_a_row
FROM pg_stat_user_tables WHERE n_live_tup > 100 ORDER BY relname;
