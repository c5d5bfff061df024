-- Releases of services, as the interface of progressive delivery shows them. What can't change once a release is submitted is
-- written down here; how far it has come is in its own row, and the views read it from there.

CREATE TABLE registered (
    tenant     TEXT    NOT NULL,
    kind       TEXT    NOT NULL CHECK (kind IN ('environment', 'target_group', 'version')),
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

CREATE VIEW release_tenants AS
SELECT DISTINCT tenant_id AS id, tenant AS name FROM service_releases;

CREATE VIEW release_users AS
SELECT DISTINCT actor_id AS id, actor AS name FROM service_releases WHERE actor_id IS NOT NULL;

-- Whoever submits a strategy as text may name an environment that nobody has registered.
CREATE VIEW release_environments AS
SELECT id, tenant, name, detail, at_ms, removed_ms FROM registered WHERE kind = 'environment'
UNION ALL
SELECT DISTINCT environment_id, tenant, environment, '{}', NULL, NULL FROM service_releases
WHERE environment_id NOT IN (SELECT id FROM registered WHERE kind = 'environment');

-- A stage with when it began and when the last wave had passed it, and how the release stands.
CREATE VIEW release_stage_times AS
SELECT s.release_key, s.id AS ab_release_id, place.key AS at, place.value AS stage, r.state, r.ended_ms,
    (SELECT min(t.value->>'began_ms') FROM json_each(r.detail, '$.times') AS t
        WHERE t.value->>'stage' = place.value->>'place') AS began_ms,
    (SELECT max(t.value->>'ended_ms') FROM json_each(r.detail, '$.times') AS t
        WHERE t.value->>'stage' = place.value->>'place') AS passed_ms,
    EXISTS (SELECT 1 FROM json_each(r.detail, '$.facts') AS f
        WHERE f.value->>'fact' = 'stage_skipped' AND f.value->>'stage' = place.value->>'place') AS is_skipped
FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key, json_each(s.form, '$.stages') AS place;

-- What each release has come to.
CREATE VIEW release_course AS
SELECT s.release_key, r.state, r.submitted_ms, r.ended_ms,
    r.state IN ('Done', 'DoneWithFailures') AS is_done,
    r.state IN ('Planned', 'RollingBack', 'RolledBack', 'RolledBackUnproven', 'Aborted', 'NoParticipants', 'DoneUntested')
        AS is_stable,
    (SELECT max(t.at) FROM release_stage_times AS t WHERE t.release_key = s.release_key AND t.began_ms IS NOT NULL)
        AS current_at,
    EXISTS (SELECT 1 FROM release_stage_times AS t WHERE t.release_key = s.release_key AND t.began_ms IS NOT NULL
        AND t.stage->>'trafficPercentage' > 0) AS has_shared,
    EXISTS (SELECT 1 FROM release_stage_times AS t WHERE t.release_key = s.release_key
        AND t.at = json_array_length(s.form, '$.stages') - 1 AND t.passed_ms IS NOT NULL) AS has_passed_all
FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key
WHERE r.state <> 'Removed';

CREATE VIEW release_shares AS
SELECT s.release_key, v.key AS at, v.value AS variation,
    CASE WHEN c.is_done THEN iif(v.key = 1, 100.0, 0.0)
        WHEN c.is_stable OR c.current_at IS NULL THEN iif(v.key = 0, 100.0, 0.0)
        ELSE json_extract(s.form, '$.stages[' || c.current_at || '].shares[' || v.key || ']') / 100.0
    END AS percentage
FROM service_releases AS s JOIN release_course AS c ON c.release_key = s.release_key, json_each(s.form, '$.variations') AS v;

CREATE VIEW release_ab_releases AS
SELECT s.id AS id, s.tenant_id AS tenant_id, s.environment_id AS environment_id, s.form->>'name' AS name,
    (SELECT json_group_array(json(told)) FROM (
        SELECT json_object('name', v.variation->>'name', 'releaseId', v.variation->>'releaseId',
            'targetGroupId', v.variation->>'targetGroupId', 'trafficPercentage', v.percentage) AS told
        FROM release_shares AS v WHERE v.release_key = s.release_key ORDER BY v.at)) AS variations,
    json_extract(s.form, '$.variations[' || c.is_done || '].name') AS active_variation,
    json_set(s.form->'trafficSplit', '$.percentages', json((SELECT json_group_object(v.variation->>'name', v.percentage)
        FROM release_shares AS v WHERE v.release_key = s.release_key))) AS traffic_split,
    s.form->'rolloutStrategy' AS rollout_strategy,
    CASE WHEN c.state = 'Planned' THEN 'created'
        WHEN c.is_done THEN 'completed'
        WHEN c.state IN ('RolledBack', 'Aborted', 'NoParticipants', 'DoneUntested') THEN 'rolled_back'
        WHEN json_extract(s.form, '$.stages[' || c.current_at || '].shares[0]') = 0 OR c.has_passed_all THEN 'promoting'
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

-- What the new version's calls came to, by the last report of each child.
CREATE VIEW release_stage_health AS
SELECT release_key, stage AS place, sum(calls) AS calls, sum(errors) AS errors, max(at_ms) AS at_ms,
    CASE WHEN count(*) = 1 THEN nullif(max(median), -1) END AS median, max(status) AS status
FROM (
    SELECT release_key, child_key, stage, at_ms, status, summary->>'f2_calls' AS calls, summary->>'f2_errors' AS errors,
        summary->'f2_times_summary'->>'median' AS median,
        row_number() OVER (PARTITION BY release_key, child_key, stage ORDER BY attempt DESC) AS latest
    FROM results
) WHERE latest = 1 GROUP BY release_key, stage;

CREATE VIEW release_canary_stages AS
SELECT t.stage->>'id' AS id, t.ab_release_id AS ab_release_id, t.at + 1 AS stage_number,
    CAST(round(t.stage->>'trafficPercentage') AS INTEGER) AS traffic_percentage, t.status AS status,
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
            'errorRate', 100.0 * coalesce(h.errors, 0) / h.calls, 'latencyP50', h.median, 'latencyP99', NULL),
        'samples', h.calls,
        'evaluatedAt', strftime('%Y-%m-%dT%H:%M:%fZ', h.at_ms / 1000.0, 'unixepoch'))
    END AS health_result
FROM release_stage_course AS t
LEFT JOIN release_stage_health AS h ON h.release_key = t.release_key AND h.place = t.stage->>'place';
