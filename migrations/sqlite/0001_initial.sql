-- The version is kept in PRAGMA user_version, which the runner sets in the same transaction.
-- STRICT, so that a value of the wrong type is refused instead of stored. No foreign keys: the engine is the only
-- writer, and a check for every row would be paid on the hottest path.

CREATE TABLE lease (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    epoch       INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    holder      TEXT    NOT NULL,
    served_ms   INTEGER NOT NULL,
    renewed_ms  INTEGER NOT NULL
) STRICT;

INSERT INTO lease VALUES (1, 0, 0, '', 0, 0);

CREATE TABLE children (
    child_key   INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    kind        TEXT    NOT NULL,
    name        TEXT,
    area        TEXT,
    agents      INTEGER NOT NULL,
    born_ms     INTEGER NOT NULL,
    seen_ms     INTEGER NOT NULL,
    detail      TEXT    NOT NULL
) STRICT;

CREATE TABLE releases (
    release_key  INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    state        TEXT    NOT NULL,
    open         INTEGER NOT NULL,
    digest       BLOB    NOT NULL,
    archive      BLOB    NOT NULL,
    strategy     TEXT    NOT NULL,
    functions    TEXT    NOT NULL,
    submitted_ms INTEGER NOT NULL,
    updated_ms   INTEGER NOT NULL,
    ended_ms     INTEGER,
    detail       TEXT    NOT NULL
) STRICT;

-- What is left of releases that were removed from the history is found without reading all others, and so is whether an
-- archive is referred to.
CREATE INDEX releases_removed ON releases (release_key) WHERE state = 'Removed';
CREATE INDEX releases_by_archive ON releases (archive);

CREATE TABLE archives (
    digest BLOB NOT NULL PRIMARY KEY,
    bytes  BLOB NOT NULL
) STRICT;

CREATE TABLE members (
    release_key INTEGER NOT NULL,
    slice       INTEGER NOT NULL,
    keys        BLOB    NOT NULL,
    waves       BLOB    NOT NULL,
    PRIMARY KEY (release_key, slice)
) STRICT;

CREATE TABLE assignments (
    release_key  INTEGER NOT NULL,
    child_key    INTEGER NOT NULL,
    status       INTEGER NOT NULL,
    outcome      TEXT,
    attempt      INTEGER NOT NULL,
    stage        INTEGER NOT NULL,
    stage_status INTEGER NOT NULL,
    updated_ms   INTEGER NOT NULL,
    detail       TEXT    NOT NULL,
    PRIMARY KEY (release_key, child_key)
) STRICT, WITHOUT ROWID;

-- With a rowid: results come in any order of keys, and so they are appended instead of each changing a page of its own.
CREATE TABLE stage_results (
    release_key INTEGER NOT NULL,
    child_key   INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    stage       INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    digest      INTEGER NOT NULL,
    summary     TEXT    NOT NULL,
    PRIMARY KEY (release_key, child_key, attempt, stage)
) STRICT;

-- Results are read from here in every kind of database. In this one each is a row.
CREATE VIEW results AS SELECT * FROM stage_results;

CREATE TABLE deployments (
    child_key   INTEGER NOT NULL,
    function    TEXT    NOT NULL,
    release_key INTEGER NOT NULL,
    variant     TEXT    NOT NULL,
    path        TEXT    NOT NULL,
    at_ms       INTEGER NOT NULL,
    content     INTEGER,
    PRIMARY KEY (child_key, function)
) STRICT, WITHOUT ROWID;

-- "What runs where" pages by function.
CREATE INDEX deployments_by_function ON deployments (function, child_key);

-- `steps`: what single children do, which fills most of the trail. What remains is what people look for, newest first.
CREATE TABLE audit (
    seq         INTEGER NOT NULL,
    idx         INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    release_key INTEGER,
    actor       TEXT    NOT NULL,
    events      TEXT    NOT NULL,
    steps       INTEGER NOT NULL DEFAULT 0 CHECK (steps IN (0, 1)),
    PRIMARY KEY (seq, idx)
) STRICT, WITHOUT ROWID;

CREATE INDEX audit_by_release ON audit (release_key, seq, idx) WHERE release_key IS NOT NULL;
CREATE INDEX audit_told ON audit (seq, idx) WHERE NOT steps;
CREATE INDEX audit_told_of_release ON audit (release_key, seq, idx) WHERE NOT steps AND release_key IS NOT NULL;

-- What is still to be done. `served_ms` is the serving time at which it came up; NULL: not known.
CREATE TABLE outbox (
    id        INTEGER PRIMARY KEY,
    kind      TEXT    NOT NULL,
    at_ms     INTEGER NOT NULL,
    payload   TEXT    NOT NULL,
    served_ms INTEGER
) STRICT;

-- What analyses have measured has rows of its own: they are written when somebody looks, not with every change of the
-- release. And of each release that ended well, when its stages were: later releases are compared with it.

CREATE TABLE analysis_runs (
    release_key INTEGER NOT NULL,
    block       INTEGER NOT NULL,
    detail      TEXT    NOT NULL,
    PRIMARY KEY (release_key, block)
) STRICT;

CREATE TABLE precedents (
    function    TEXT    NOT NULL,
    release_key INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    ended_ms    INTEGER,
    times       TEXT    NOT NULL,
    PRIMARY KEY (function, release_key)
) STRICT;

-- "The last one that ended before this instant."
CREATE INDEX precedents_by_end ON precedents (function, ended_ms, release_key);

-- Ages are serving time: wall clocks jump, and nothing is erased or given up because of that. Commits before `seq` were
-- made when at most `served_ms` had been served; what is older than the first row is as old as that one.

CREATE TABLE commit_ages (
    seq       INTEGER PRIMARY KEY,
    served_ms INTEGER NOT NULL
) STRICT;

-- The outbox holds what is still to be done. What a manager keeps of itself, and where strategies went that were submitted here,
-- is never done: each has a table of its own.

CREATE TABLE settings (
    name  TEXT    NOT NULL PRIMARY KEY,
    value TEXT    NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE pointers (
    pointer_key INTEGER PRIMARY KEY,
    at_ms       INTEGER NOT NULL,
    detail      TEXT    NOT NULL
) STRICT;

-- What is known of routers and of the services that they lead, and how their shares came about.

CREATE TABLE routers (
    child_key  INTEGER PRIMARY KEY,
    kind       TEXT    NOT NULL,
    version    TEXT,
    phase      TEXT    NOT NULL,
    reached    INTEGER NOT NULL CHECK (reached IN (0, 1)),
    trouble    TEXT,
    updated_ms INTEGER NOT NULL,
    detail     TEXT    NOT NULL
) STRICT;

-- A service has a place of its router's, which is given again when it is gone: then its name is empty.
CREATE TABLE led_services (
    child_key  INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    service    TEXT    NOT NULL,
    epoch      INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    offer      TEXT,
    standing   INTEGER NOT NULL CHECK (standing IN (0, 1)),
    updated_ms INTEGER NOT NULL,
    detail     TEXT    NOT NULL,
    PRIMARY KEY (child_key, place)
) STRICT, WITHOUT ROWID;

-- The last orders of each router, by places that are given again.
CREATE TABLE router_orders (
    child_key INTEGER NOT NULL,
    place     INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    what      TEXT    NOT NULL,
    at_ms     INTEGER NOT NULL,
    detail    TEXT    NOT NULL,
    PRIMARY KEY (child_key, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflows (
    workflow_key INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    archive      BLOB NOT NULL,
    definition   TEXT NOT NULL,
    detail       TEXT NOT NULL
) STRICT;

CREATE TABLE workflow_parts (
    part_key     INTEGER PRIMARY KEY,
    workflow_key INTEGER NOT NULL,
    detail       TEXT NOT NULL
) STRICT;

-- Parts go with their workflow, and archives stay while one refers to them.
CREATE INDEX workflow_parts_by_workflow ON workflow_parts (workflow_key);
CREATE INDEX workflows_by_archive ON workflows (archive);

CREATE TABLE traffic_history (
    seq         INTEGER NOT NULL,
    idx         INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    child_key   INTEGER NOT NULL,
    router      TEXT    NOT NULL,
    service     TEXT    NOT NULL,
    release_key INTEGER,
    detail      TEXT    NOT NULL,
    PRIMARY KEY (seq, idx)
) STRICT, WITHOUT ROWID;

CREATE INDEX traffic_history_by_release ON traffic_history (release_key, seq, idx) WHERE release_key IS NOT NULL;
CREATE INDEX traffic_history_by_service ON traffic_history (service, seq, idx);

-- Releases of services, as the interface of progressive delivery shows them. What can't change once a release is submitted is
-- written down here; how far it has come is in its own row, and the views read it from there.

CREATE TABLE registered (
    tenant     TEXT    NOT NULL,
    kind       TEXT    NOT NULL CHECK (kind IN ('environment', 'target_group', 'version', 'release')),
    name       TEXT    NOT NULL,
    id         TEXT    NOT NULL UNIQUE,
    detail     TEXT    NOT NULL,
    at_ms      INTEGER NOT NULL,
    actor      TEXT,
    removed_ms INTEGER,
    PRIMARY KEY (tenant, kind, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE service_releases (
    release_key    INTEGER PRIMARY KEY,
    id             TEXT NOT NULL UNIQUE,
    tenant         TEXT NOT NULL,
    tenant_id      TEXT NOT NULL,
    environment    TEXT NOT NULL,
    environment_id TEXT NOT NULL,
    actor          TEXT,
    actor_id       TEXT,
    form           TEXT NOT NULL
) STRICT;

CREATE INDEX service_releases_by_environment ON service_releases (tenant, environment_id, release_key);

-- Who there is: tenants, and users, who were named by the configuration or did something. The ids follow from the names and are written
-- here alone; whatever names a tenant or a user refers to them. What a tenant may have, and whether it was deleted, stands in its setting.
-- Nothing that is here goes away again: the audit trail and releases that are over go on naming it.

CREATE TABLE tenants (
    name  TEXT    NOT NULL PRIMARY KEY,
    id    TEXT    NOT NULL UNIQUE,
    at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE users (
    tenant TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    id     TEXT    NOT NULL UNIQUE,
    at_ms  INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE VIEW release_tenants AS
SELECT t.id, t.name, strftime('%Y-%m-%dT%H:%M:%fZ', t.at_ms / 1000.0, 'unixepoch') AS created_at,
    s.value->>'max_children' AS max_children, s.value->>'max_releases' AS max_releases, s.value->>'max_bytes' AS max_bytes,
    coalesce(s.value->>'deleted', 0) AS is_deleted
FROM tenants AS t LEFT JOIN settings AS s ON s.name = 'tenant/' || t.name;

CREATE VIEW release_users AS
SELECT u.id, t.id AS tenant_id, u.name, strftime('%Y-%m-%dT%H:%M:%fZ', u.at_ms / 1000.0, 'unixepoch') AS created_at
FROM users AS u JOIN tenants AS t ON t.name = u.tenant;

-- Whoever submits a strategy as text may name an environment that nobody has registered.
CREATE VIEW release_environments AS
SELECT e.id, t.id AS tenant_id, e.name, e.detail, strftime('%Y-%m-%dT%H:%M:%fZ', e.at_ms / 1000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.removed_ms / 1000.0, 'unixepoch') AS removed_at
FROM registered AS e JOIN tenants AS t ON t.name = e.tenant WHERE e.kind = 'environment'
UNION ALL
SELECT DISTINCT environment_id, tenant_id, environment, '{}', NULL, NULL
FROM service_releases WHERE environment_id NOT IN (SELECT id FROM registered WHERE kind = 'environment');

-- A stage with when it began and when the last wave had passed it, and how the release stands.
CREATE VIEW release_stage_times AS
SELECT s.release_key, s.id AS ab_release_id, place.key AS at, place.value AS stage, r.state, r.ended_ms,
    (SELECT min(t.value->>'began_ms') FROM json_each(r.detail, '$.times') AS t
        WHERE t.value->>'stage' = place.value->>'place') AS began_ms,
    (SELECT max(t.value->>'ended_ms') FROM json_each(r.detail, '$.times') AS t
        WHERE t.value->>'stage' = place.value->>'place') AS passed_ms,
    EXISTS (SELECT 1 FROM json_each(r.detail, '$.facts') AS f
        WHERE f.value->>'fact' = 'stage_skipped' AND f.value->>'stage' = place.value->>'place') AS is_skipped,
    -- What somebody chose last for the one variation beside the stable one, in units of 0.01 %.
    (SELECT f.value->>'new' FROM json_each(r.detail, '$.facts') AS f
        WHERE f.value->>'fact' = 'shares_chosen' AND f.value->>'stage' = place.value->>'place'
        ORDER BY f.key DESC LIMIT 1) AS chosen
FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key, json_each(s.form, '$.stages') AS place;

-- What each release has come to. `winner` is the variation that serves alone once it is done: the last that somebody chose, else the one
-- that has most beside the stable one in the last stage.
CREATE VIEW release_course AS
SELECT s.release_key, r.state, r.submitted_ms, r.ended_ms,
    r.state IN ('Done', 'DoneWithFailures') AS is_done,
    r.state IN ('Planned', 'RollingBack', 'RolledBack', 'RolledBackUnproven', 'Aborted', 'NoParticipants', 'DoneUntested')
        AS is_stable,
    (SELECT max(t.at) FROM release_stage_times AS t WHERE t.release_key = s.release_key AND t.began_ms IS NOT NULL)
        AS current_at,
    (SELECT t.chosen FROM release_stage_times AS t WHERE t.release_key = s.release_key AND t.began_ms IS NOT NULL
        ORDER BY t.at DESC LIMIT 1) AS chosen,
    EXISTS (SELECT 1 FROM release_stage_times AS t WHERE t.release_key = s.release_key AND t.began_ms IS NOT NULL
        AND coalesce(t.chosen, t.stage->>'trafficPercentage') > 0) AS has_shared,
    EXISTS (SELECT 1 FROM release_stage_times AS t WHERE t.release_key = s.release_key
        AND t.at = json_array_length(s.form, '$.stages') - 1 AND t.passed_ms IS NOT NULL) AS has_passed_all,
    coalesce(
        (SELECT f.value->>'variation' FROM json_each(r.detail, '$.facts') AS f
            WHERE f.value->>'fact' = 'winner_chosen' ORDER BY f.key DESC LIMIT 1),
        (SELECT v.key FROM json_each(s.form, '$.stages[#-1].shares') AS v WHERE v.key > 0 ORDER BY v.value DESC, v.key LIMIT 1),
        1) AS winner
FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key
WHERE r.state <> 'Removed';

CREATE VIEW release_shares AS
SELECT s.release_key, v.key AS at, v.value AS variation,
    CASE WHEN c.is_done THEN iif(v.key = c.winner, 100.0, 0.0)
        WHEN c.is_stable OR c.current_at IS NULL THEN iif(v.key = 0, 100.0, 0.0)
        WHEN c.chosen IS NOT NULL THEN iif(v.key = 0, 10000 - c.chosen, c.chosen) / 100.0
        ELSE json_extract(s.form, '$.stages[' || c.current_at || '].shares[' || v.key || ']') / 100.0
    END AS percentage
FROM service_releases AS s JOIN release_course AS c ON c.release_key = s.release_key, json_each(s.form, '$.variations') AS v;

CREATE VIEW release_ab_releases AS
SELECT s.id AS id, s.tenant_id AS tenant_id, s.environment_id AS environment_id, s.form->>'name' AS name,
    (SELECT json_group_array(json(told)) FROM (
        SELECT json_object('name', v.variation->>'name', 'releaseId', v.variation->>'releaseId',
            'targetGroupId', v.variation->>'targetGroupId', 'trafficPercentage', v.percentage) AS told
        FROM release_shares AS v WHERE v.release_key = s.release_key ORDER BY v.at)) AS variations,
    json_extract(s.form, '$.variations[' || iif(c.is_done, c.winner, 0) || '].name') AS active_variation,
    json_set(s.form->'trafficSplit', '$.percentages', json((SELECT json_group_object(v.variation->>'name', v.percentage)
        FROM release_shares AS v WHERE v.release_key = s.release_key))) AS traffic_split,
    s.form->'rolloutStrategy' AS rollout_strategy,
    CASE WHEN c.state = 'Planned' THEN 'created'
        WHEN c.is_done THEN 'completed'
        WHEN c.state IN ('RolledBack', 'Aborted', 'NoParticipants', 'DoneUntested') THEN 'rolled_back'
        WHEN coalesce(10000 - c.chosen, json_extract(s.form, '$.stages[' || c.current_at || '].shares[0]')) = 0
            OR c.has_passed_all THEN 'promoting'
        WHEN c.has_shared THEN 'running'
        ELSE 'deploying'
    END AS status,
    strftime('%Y-%m-%dT%H:%M:%fZ', c.submitted_ms / 1000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', c.ended_ms / 1000.0, 'unixepoch') AS completed_at,
    s.actor_id AS created_by
FROM service_releases AS s JOIN release_course AS c ON c.release_key = s.release_key;

CREATE VIEW release_stage_course AS
SELECT t.*, c.current_at,
    CASE WHEN t.is_skipped THEN 'skipped'
        WHEN t.began_ms IS NULL AND (t.ended_ms IS NOT NULL OR t.at < c.current_at) THEN 'skipped'
        WHEN t.began_ms IS NULL THEN 'pending'
        WHEN t.at < c.current_at OR t.state = 'Done' THEN 'succeeded'
        WHEN t.state IN ('Planned', 'Running', 'Paused', 'AwaitingApproval') THEN 'running'
        ELSE 'failed'
    END AS status,
    (SELECT min(n.began_ms) FROM release_stage_times AS n WHERE n.release_key = t.release_key AND n.at > t.at)
        AS next_began_ms
FROM release_stage_times AS t JOIN release_course AS c ON c.release_key = t.release_key;

-- The last report of each child.
CREATE VIEW release_stage_reports AS
SELECT release_key, stage AS place, child_key, at_ms, status, summary FROM (
    SELECT release_key, child_key, stage, at_ms, status, summary,
        row_number() OVER (PARTITION BY release_key, child_key, stage ORDER BY attempt DESC) AS latest
    FROM results
) WHERE latest = 1;

-- What each child told last of each new version. Of more than two versions the first two stand where those of two do.
CREATE VIEW release_stage_new_versions AS
SELECT release_key, place, at_ms, status, summary->>'$.f2_calls' AS calls, summary->>'$.f2_errors' AS errors,
    summary->'$.f2_values' AS exactly, summary->'$.f2_histogram' AS histogram
FROM release_stage_reports
UNION ALL
SELECT r.release_key, r.place, r.at_ms, r.status, v.value->>'$.calls', v.value->>'$.errors', NULL, v.value->'$.histogram'
FROM release_stage_reports AS r, json_each(r.summary, '$.variations') AS v WHERE v.key > 1;

-- Times of the new versions' calls. Bucket i holds those from gamma^(i - shift) to gamma^(i + 1 - shift) ms; without a number, those of 0.
-- Times that were reported as they are go into the buckets into which all such times go.
CREATE VIEW release_stage_buckets AS
WITH told AS (
    SELECT release_key, place, coalesce(exactly->'$.sketch', iif(exactly IS NULL, histogram, NULL)) AS sketch,
        exactly->'$.exact' AS exact
    FROM release_stage_new_versions
), buckets AS (
    SELECT release_key, place, sketch->>'$.mapping.gamma' AS gamma, coalesce(sketch->>'$.mapping.indexOffset', 0) AS shift,
        coalesce(sketch->>'$.positiveValues.contiguousBinIndexOffset', 0) + bin.key AS bucket, CAST(bin.value AS REAL) AS calls
    FROM told, json_each(sketch, '$.positiveValues.contiguousBinCounts') AS bin WHERE sketch->'$.mapping' IS NOT NULL
    UNION ALL
    SELECT release_key, place, sketch->>'$.mapping.gamma', coalesce(sketch->>'$.mapping.indexOffset', 0), NULL,
        CAST(coalesce(sketch->>'$.zeroCount', 0) AS REAL)
    FROM told WHERE sketch->'$.mapping' IS NOT NULL
    UNION ALL
    SELECT release_key, place, 1.01, 0, iif(pair.value->>0 > 0, floor(ln(pair.value->>0) / ln(1.01)), NULL),
        CAST(pair.value->>1 AS REAL)
    FROM told, json_each(exact) AS pair
)
SELECT release_key, place, gamma, shift, bucket, calls FROM (
    SELECT release_key, place, gamma, shift, bucket, calls,
        dense_rank() OVER (PARTITION BY release_key, place ORDER BY of_kind DESC, gamma, shift) AS kind
    FROM (
        SELECT release_key, place, gamma, shift, bucket, sum(calls) AS calls,
            sum(sum(calls)) OVER (PARTITION BY release_key, place, gamma, shift) AS of_kind
        FROM buckets GROUP BY release_key, place, gamma, shift, bucket
    )
)
-- Buckets of different kinds can't be added up: those count in which most calls were counted.
WHERE kind = 1 AND calls > 0;

-- In milliseconds; within a bucket times are spread evenly, on a logarithmic scale.
CREATE VIEW release_stage_latencies AS
SELECT release_key, place, min(latency) FILTER (WHERE share = 0.5) AS p50, min(latency) FILTER (WHERE share = 0.9) AS p90,
    min(latency) FILTER (WHERE share = 0.95) AS p95, min(latency) FILTER (WHERE share = 0.99) AS p99
FROM (
    SELECT release_key, place, share,
        iif(bucket IS NULL, 0.0, exp((bucket - shift + (share * total - (upto - calls)) / calls) * ln(gamma))) AS latency
    FROM (
        SELECT release_key, place, gamma, shift, bucket, calls,
            sum(calls) OVER (PARTITION BY release_key, place ORDER BY bucket NULLS FIRST) AS upto,
            sum(calls) OVER (PARTITION BY release_key, place) AS total
        FROM release_stage_buckets
    ), (SELECT 0.5 AS share UNION ALL SELECT 0.9 UNION ALL SELECT 0.95 UNION ALL SELECT 0.99)
    -- The first bucket in which so many have come together.
    WHERE upto >= share * total AND upto - calls < share * total
) GROUP BY release_key, place;

-- What the new versions' calls came to.
CREATE VIEW release_stage_health AS
SELECT release_key, place, sum(calls) AS calls, sum(errors) AS errors, max(at_ms) AS at_ms, max(status) AS status
FROM release_stage_new_versions GROUP BY release_key, place;

CREATE VIEW release_canary_stages AS
SELECT t.stage->>'id' AS id, t.ab_release_id AS ab_release_id, t.at + 1 AS stage_number,
    CAST(round(coalesce(t.chosen / 100.0, t.stage->>'trafficPercentage')) AS INTEGER) AS traffic_percentage, t.status AS status,
    CAST(t.stage->>'healthThreshold' AS REAL) AS health_threshold,
    CAST(round(t.stage->>'durationSeconds') AS INTEGER) AS duration_seconds,
    t.stage->>'requireApproval' AS require_approval,
    strftime('%Y-%m-%dT%H:%M:%fZ', t.began_ms / 1000.0, 'unixepoch') AS started_at,
    CASE WHEN t.status IN ('pending', 'running') THEN NULL
        ELSE strftime('%Y-%m-%dT%H:%M:%fZ', CASE t.status
            WHEN 'succeeded' THEN coalesce(t.passed_ms, t.next_began_ms, t.ended_ms)
            WHEN 'failed' THEN coalesce(t.ended_ms, t.passed_ms)
            ELSE coalesce(t.next_began_ms, t.ended_ms) END / 1000.0, 'unixepoch')
    END AS completed_at,
    CASE WHEN h.calls > 0 THEN json_object(
        'healthy', json(iif(t.status <> 'failed' AND h.status <> 5, 'true', 'false')),
        'healthPercentage', NULL,
        'metrics', json_object('successRate', 100.0 * (h.calls - coalesce(h.errors, 0)) / h.calls,
            'errorRate', 100.0 * coalesce(h.errors, 0) / h.calls,
            'latencyP50', l.p50, 'latencyP90', l.p90, 'latencyP95', l.p95, 'latencyP99', l.p99),
        'samples', h.calls,
        'evaluatedAt', strftime('%Y-%m-%dT%H:%M:%fZ', h.at_ms / 1000.0, 'unixepoch'))
    END AS health_result
FROM release_stage_course AS t
LEFT JOIN release_stage_health AS h ON h.release_key = t.release_key AND h.place = t.stage->>'place'
LEFT JOIN release_stage_latencies AS l ON l.release_key = t.release_key AND l.place = t.stage->>'place';
