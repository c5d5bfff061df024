-- Releases of services, as the interface of progressive delivery shows them. What can't change once a release is submitted is
-- written down here; how far it has come is in its own row, and the views read it from there.

CREATE TABLE registered (
    tenant     text   COLLATE "C" NOT NULL,
    kind       text   COLLATE "C" NOT NULL CHECK (kind IN ('environment', 'target_group', 'version')),
    name       text   COLLATE "C" NOT NULL,
    id         text   COLLATE "C" NOT NULL UNIQUE,
    detail     text   NOT NULL,
    at_ms      bigint NOT NULL,
    actor      text,
    removed_ms bigint,
    PRIMARY KEY (tenant, kind, name)
);

CREATE TABLE service_releases (
    release_key    bigint PRIMARY KEY,
    id             text COLLATE "C" NOT NULL UNIQUE,
    tenant         text COLLATE "C" NOT NULL,
    tenant_id      text NOT NULL,
    environment    text COLLATE "C" NOT NULL,
    environment_id text COLLATE "C" NOT NULL,
    actor          text,
    actor_id       text,
    form           text NOT NULL
);

CREATE INDEX service_releases_by_environment ON service_releases (tenant, environment_id, release_key);

CREATE SCHEMA IF NOT EXISTS release;

CREATE VIEW release.tenants AS
SELECT DISTINCT tenant_id::uuid AS id, tenant AS name FROM service_releases;

CREATE VIEW release.users AS
SELECT DISTINCT actor_id::uuid AS id, actor AS name FROM service_releases WHERE actor_id IS NOT NULL;

-- Whoever submits a strategy as text may name an environment that nobody has registered.
CREATE VIEW release.environments AS
SELECT id::uuid AS id, tenant, name, detail::jsonb AS detail, at_ms, removed_ms FROM registered WHERE kind = 'environment'
UNION ALL
SELECT DISTINCT environment_id::uuid, tenant, environment, '{}'::jsonb, NULL::bigint, NULL::bigint FROM service_releases
WHERE environment_id NOT IN (SELECT id FROM registered WHERE kind = 'environment');

-- A stage with when it began and when the last wave had passed it, and how the release stands.
CREATE VIEW release.stage_times AS
SELECT s.release_key, s.id AS ab_release_id, place.number - 1 AS at, place.value AS stage, r.state, r.ended_ms,
    (SELECT min((t->>'began_ms')::bigint) FROM jsonb_array_elements(d.detail->'times') AS t
        WHERE t->'stage' = place.value->'place') AS began_ms,
    (SELECT max((t->>'ended_ms')::bigint) FROM jsonb_array_elements(d.detail->'times') AS t
        WHERE t->'stage' = place.value->'place') AS passed_ms,
    EXISTS (SELECT 1 FROM jsonb_array_elements(d.detail->'facts') AS f
        WHERE f->>'fact' = 'stage_skipped' AND f->'stage' = place.value->'place') AS is_skipped
FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key,
    LATERAL (SELECT r.detail::jsonb AS detail) AS d,
    jsonb_array_elements(s.form::jsonb->'stages') WITH ORDINALITY AS place (value, number);

-- What each release has come to.
CREATE VIEW release.course AS
SELECT s.release_key, s.form::jsonb AS form, r.state, r.submitted_ms, r.ended_ms,
    r.state IN ('Done', 'DoneWithFailures') AS is_done,
    r.state IN ('Planned', 'RollingBack', 'RolledBack', 'RolledBackUnproven', 'Aborted', 'NoParticipants', 'DoneUntested')
        AS is_stable,
    (SELECT max(t.at) FROM release.stage_times AS t WHERE t.release_key = s.release_key AND t.began_ms IS NOT NULL)::integer
        AS current_at,
    EXISTS (SELECT 1 FROM release.stage_times AS t WHERE t.release_key = s.release_key AND t.began_ms IS NOT NULL
        AND (t.stage->>'trafficPercentage')::numeric > 0) AS has_shared,
    EXISTS (SELECT 1 FROM release.stage_times AS t WHERE t.release_key = s.release_key
        AND t.at = jsonb_array_length(s.form::jsonb->'stages') - 1 AND t.passed_ms IS NOT NULL) AS has_passed_all
FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key
WHERE r.state <> 'Removed';

CREATE VIEW release.shares AS
SELECT c.release_key, v.number - 1 AS at, v.value AS variation,
    CASE WHEN c.is_done THEN CASE WHEN v.number = 2 THEN 100.0 ELSE 0.0 END
        WHEN c.is_stable OR c.current_at IS NULL THEN CASE WHEN v.number = 1 THEN 100.0 ELSE 0.0 END
        ELSE (c.form->'stages'->c.current_at->'shares'->>(v.number - 1)::integer)::numeric / 100.0
    END AS percentage
FROM release.course AS c, jsonb_array_elements(c.form->'variations') WITH ORDINALITY AS v (value, number);

CREATE VIEW release.ab_releases AS
SELECT s.id::uuid AS id, s.tenant_id::uuid AS tenant_id, s.environment_id::uuid AS environment_id,
    (c.form->>'name')::varchar(255) AS name,
    (SELECT jsonb_agg(jsonb_build_object('name', v.variation->'name', 'releaseId', v.variation->'releaseId',
            'targetGroupId', v.variation->'targetGroupId', 'trafficPercentage', v.percentage) ORDER BY v.at)
        FROM release.shares AS v WHERE v.release_key = s.release_key) AS variations,
    (c.form->'variations'->c.is_done::integer->>'name')::varchar(50) AS active_variation,
    jsonb_set(c.form->'trafficSplit', '{percentages}', (SELECT jsonb_object_agg(v.variation->>'name', v.percentage)
        FROM release.shares AS v WHERE v.release_key = s.release_key)) AS traffic_split,
    c.form->'rolloutStrategy' AS rollout_strategy,
    (CASE WHEN c.state = 'Planned' THEN 'created'
        WHEN c.is_done THEN 'completed'
        WHEN c.state IN ('RolledBack', 'Aborted', 'NoParticipants', 'DoneUntested') THEN 'rolled_back'
        WHEN c.form->'stages'->c.current_at->'shares'->>0 = '0' OR c.has_passed_all THEN 'promoting'
        WHEN c.has_shared THEN 'running'
        ELSE 'deploying'
    END)::varchar(50) AS status,
    to_timestamp(c.submitted_ms / 1000.0) AS created_at,
    to_timestamp(c.ended_ms / 1000.0) AS completed_at,
    s.actor_id::uuid AS created_by
FROM service_releases AS s JOIN release.course AS c ON c.release_key = s.release_key;

CREATE VIEW release.stage_course AS
SELECT t.*, c.current_at,
    CASE WHEN t.is_skipped THEN 'skipped'
        WHEN t.began_ms IS NULL AND (t.ended_ms IS NOT NULL OR t.at < c.current_at) THEN 'skipped'
        WHEN t.began_ms IS NULL THEN 'pending'
        WHEN t.at < c.current_at OR t.state = 'Done' THEN 'succeeded'
        WHEN t.state IN ('Planned', 'Running', 'Paused', 'AwaitingApproval') THEN 'running'
        ELSE 'failed'
    END AS status,
    (SELECT min(n.began_ms) FROM release.stage_times AS n WHERE n.release_key = t.release_key AND n.at > t.at)
        AS next_began_ms
FROM release.stage_times AS t JOIN release.course AS c ON c.release_key = t.release_key;

-- What the new version's calls came to, by the last report of each child.
CREATE VIEW release.stage_health AS
SELECT release_key, stage AS place, sum(calls) AS calls, sum(errors) AS errors, max(at_ms) AS at_ms,
    CASE WHEN count(*) = 1 THEN nullif(max(median), -1) END AS median, max(status) AS status
FROM (
    SELECT release_key, child_key, stage, at_ms, status, (summary::jsonb->>'f2_calls')::bigint AS calls,
        (summary::jsonb->>'f2_errors')::bigint AS errors,
        (summary::jsonb->'f2_times_summary'->>'median')::double precision AS median,
        row_number() OVER (PARTITION BY release_key, child_key, stage ORDER BY attempt DESC) AS latest
    FROM results
) AS reported WHERE latest = 1 GROUP BY release_key, stage;

CREATE VIEW release.canary_stages AS
SELECT (t.stage->>'id')::uuid AS id, t.ab_release_id::uuid AS ab_release_id, (t.at + 1)::integer AS stage_number,
    round((t.stage->>'trafficPercentage')::numeric)::integer AS traffic_percentage, t.status::varchar(50) AS status,
    (t.stage->>'healthThreshold')::numeric(5, 2) AS health_threshold,
    round((t.stage->>'durationSeconds')::numeric)::integer AS duration_seconds,
    (t.stage->>'requireApproval')::boolean AS require_approval,
    to_timestamp(t.began_ms / 1000.0) AS started_at,
    CASE WHEN t.status IN ('pending', 'running') THEN NULL
        ELSE to_timestamp(CASE t.status
            WHEN 'succeeded' THEN coalesce(t.passed_ms, t.next_began_ms, t.ended_ms)
            WHEN 'failed' THEN coalesce(t.ended_ms, t.passed_ms)
            ELSE coalesce(t.next_began_ms, t.ended_ms) END / 1000.0)
    END AS completed_at,
    CASE WHEN h.calls > 0 THEN jsonb_build_object(
        'healthy', t.status <> 'failed' AND h.status <> 5,
        'healthPercentage', NULL,
        'metrics', jsonb_build_object('successRate', 100.0 * (h.calls - coalesce(h.errors, 0)) / h.calls,
            'errorRate', 100.0 * coalesce(h.errors, 0) / h.calls, 'latencyP50', h.median, 'latencyP99', NULL),
        'samples', h.calls,
        'evaluatedAt', to_timestamp(h.at_ms / 1000.0))
    END AS health_result
FROM release.stage_course AS t
LEFT JOIN release.stage_health AS h ON h.release_key = t.release_key AND h.place = (t.stage->>'place')::integer;
