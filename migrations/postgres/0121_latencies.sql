-- Times of calls over all children: what each counted in buckets is added up, and quantiles are read off the sum.

DROP VIEW release.canary_stages;
DROP VIEW release.stage_health;

-- As before, but that the stages of a release are looked through once.
CREATE OR REPLACE VIEW release.course AS
SELECT s.release_key, s.form::jsonb AS form, r.state, r.submitted_ms, r.ended_ms,
    r.state IN ('Done', 'DoneWithFailures') AS is_done,
    r.state IN ('Planned', 'RollingBack', 'RolledBack', 'RolledBackUnproven', 'Aborted', 'NoParticipants', 'DoneUntested')
        AS is_stable,
    t.current_at::integer AS current_at, coalesce(t.has_shared, false) AS has_shared, coalesce(t.has_passed_all, false) AS has_passed_all
FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key
LEFT JOIN (
    SELECT release_key, max(at) FILTER (WHERE began_ms IS NOT NULL) AS current_at,
        bool_or(began_ms IS NOT NULL AND (stage->>'trafficPercentage')::numeric > 0) AS has_shared,
        bool_or(is_last AND passed_ms IS NOT NULL) AS has_passed_all
    FROM (SELECT *, at = max(at) OVER (PARTITION BY release_key) AS is_last FROM release.stage_times) AS each
    GROUP BY release_key
) AS t ON t.release_key = s.release_key
WHERE r.state <> 'Removed';

CREATE OR REPLACE VIEW release.stage_course AS
SELECT t.*, c.current_at,
    CASE WHEN t.is_skipped THEN 'skipped'
        WHEN t.began_ms IS NULL AND (t.ended_ms IS NOT NULL OR t.at < c.current_at) THEN 'skipped'
        WHEN t.began_ms IS NULL THEN 'pending'
        WHEN t.at < c.current_at OR t.state = 'Done' THEN 'succeeded'
        WHEN t.state IN ('Planned', 'Running', 'Paused', 'AwaitingApproval') THEN 'running'
        ELSE 'failed'
    END AS status,
    min(t.began_ms) OVER (PARTITION BY t.release_key ORDER BY t.at ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
        AS next_began_ms
FROM release.stage_times AS t JOIN release.course AS c ON c.release_key = t.release_key;

-- The last report of each child.
CREATE VIEW release.stage_reports AS
SELECT release_key, stage AS place, child_key, at_ms, status, summary FROM (
    SELECT release_key, child_key, stage, at_ms, status, summary::jsonb AS summary,
        row_number() OVER (PARTITION BY release_key, child_key, stage ORDER BY attempt DESC) AS latest
    FROM results
) AS reported WHERE latest = 1;

-- Times of the new version's calls. Bucket i holds those from gamma^(i - shift) to gamma^(i + 1 - shift) ms; without a number, those of 0.
-- Times that were reported as they are go into the buckets into which all such times go.
CREATE VIEW release.stage_buckets AS
WITH told AS (
    SELECT release_key, place, coalesce(summary->'f2_values'->'sketch',
        CASE WHEN summary->'f2_values' IS NULL THEN summary->'f2_histogram' END) AS sketch, summary->'f2_values'->'exact' AS exact
    FROM release.stage_reports
), buckets AS (
    SELECT release_key, place, (sketch->'mapping'->>'gamma')::double precision AS gamma,
        coalesce((sketch->'mapping'->>'indexOffset')::double precision, 0) AS shift,
        coalesce((sketch->'positiveValues'->>'contiguousBinIndexOffset')::bigint, 0) + bin.number - 1 AS bucket,
        (bin.value #>> '{}')::double precision AS calls
    FROM told, jsonb_array_elements(sketch->'positiveValues'->'contiguousBinCounts') WITH ORDINALITY AS bin (value, number)
    WHERE sketch ? 'mapping'
    UNION ALL
    SELECT release_key, place, (sketch->'mapping'->>'gamma')::double precision,
        coalesce((sketch->'mapping'->>'indexOffset')::double precision, 0), NULL,
        coalesce((sketch->>'zeroCount')::double precision, 0)
    FROM told WHERE sketch ? 'mapping'
    UNION ALL
    SELECT release_key, place, 1.01, 0,
        CASE WHEN (pair->>0)::double precision > 0 THEN floor(ln((pair->>0)::double precision) / ln(1.01::double precision)) END,
        (pair->>1)::double precision
    FROM told, jsonb_array_elements(exact) AS pair
)
SELECT release_key, place, gamma, shift, bucket, calls FROM (
    SELECT release_key, place, gamma, shift, bucket, sum(calls) AS calls,
        min(gamma) OVER (PARTITION BY release_key, place) AS least_gamma, max(gamma) OVER (PARTITION BY release_key, place) AS most_gamma,
        min(shift) OVER (PARTITION BY release_key, place) AS least_shift, max(shift) OVER (PARTITION BY release_key, place) AS most_shift
    FROM buckets GROUP BY release_key, place, gamma, shift, bucket
) AS counted
-- Of buckets of different kinds nothing is said: they can't be added up.
WHERE least_gamma = most_gamma AND least_shift = most_shift AND calls > 0;

-- In milliseconds; within a bucket times are spread evenly, on a logarithmic scale.
CREATE VIEW release.stage_latencies AS
SELECT release_key, place, min(latency) FILTER (WHERE share = 0.5) AS p50, min(latency) FILTER (WHERE share = 0.9) AS p90,
    min(latency) FILTER (WHERE share = 0.95) AS p95, min(latency) FILTER (WHERE share = 0.99) AS p99
FROM (
    SELECT DISTINCT ON (release_key, place, share) release_key, place, share,
        CASE WHEN bucket IS NULL THEN 0
            ELSE exp((bucket - shift + (share * total - (upto - calls)) / calls) * ln(gamma)) END AS latency
    FROM (
        SELECT release_key, place, gamma, shift, bucket, calls,
            sum(calls) OVER (PARTITION BY release_key, place ORDER BY bucket NULLS FIRST) AS upto,
            sum(calls) OVER (PARTITION BY release_key, place) AS total
        FROM release.stage_buckets
    ) AS b, (VALUES (0.5::double precision), (0.9), (0.95), (0.99)) AS wanted (share)
    WHERE upto >= share * total ORDER BY release_key, place, share, bucket NULLS FIRST
) AS found GROUP BY release_key, place;

-- What the new version's calls came to.
CREATE VIEW release.stage_health AS
SELECT release_key, place, sum((summary->>'f2_calls')::bigint) AS calls, sum((summary->>'f2_errors')::bigint) AS errors,
    max(at_ms) AS at_ms, max(status) AS status
FROM release.stage_reports GROUP BY release_key, place;

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
            'errorRate', 100.0 * coalesce(h.errors, 0) / h.calls,
            'latencyP50', l.p50, 'latencyP90', l.p90, 'latencyP95', l.p95, 'latencyP99', l.p99),
        'samples', h.calls,
        'evaluatedAt', to_timestamp(h.at_ms / 1000.0))
    END AS health_result
FROM release.stage_course AS t
LEFT JOIN release.stage_health AS h ON h.release_key = t.release_key AND h.place = (t.stage->>'place')::integer
LEFT JOIN release.stage_latencies AS l ON l.release_key = t.release_key AND l.place = (t.stage->>'place')::integer;
