-- Times of calls over all children: what each counted in buckets is added up, and quantiles are read off the sum.

DROP VIEW release_canary_stages;
DROP VIEW release_stage_health;

-- The last report of each child.
CREATE VIEW release_stage_reports AS
SELECT release_key, stage AS place, child_key, at_ms, status, summary FROM (
    SELECT release_key, child_key, stage, at_ms, status, summary,
        row_number() OVER (PARTITION BY release_key, child_key, stage ORDER BY attempt DESC) AS latest
    FROM results
) WHERE latest = 1;

-- Times of the new version's calls. Bucket i holds those from gamma^(i - shift) to gamma^(i + 1 - shift) ms; without a number, those of 0.
-- Times that were reported as they are go into the buckets into which all such times go.
CREATE VIEW release_stage_buckets AS
WITH told AS (
    SELECT release_key, place, coalesce(summary->'$.f2_values.sketch',
        iif(summary->'$.f2_values' IS NULL, summary->'$.f2_histogram', NULL)) AS sketch, summary->'$.f2_values.exact' AS exact
    FROM release_stage_reports
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
    SELECT release_key, place, gamma, shift, bucket, sum(calls) AS calls,
        min(gamma) OVER (PARTITION BY release_key, place) AS least_gamma, max(gamma) OVER (PARTITION BY release_key, place) AS most_gamma,
        min(shift) OVER (PARTITION BY release_key, place) AS least_shift, max(shift) OVER (PARTITION BY release_key, place) AS most_shift
    FROM buckets GROUP BY release_key, place, gamma, shift, bucket
)
-- Of buckets of different kinds nothing is said: they can't be added up.
WHERE least_gamma = most_gamma AND least_shift = most_shift AND calls > 0;

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

-- What the new version's calls came to.
CREATE VIEW release_stage_health AS
SELECT release_key, place, sum(summary->>'f2_calls') AS calls, sum(summary->>'f2_errors') AS errors, max(at_ms) AS at_ms,
    max(status) AS status
FROM release_stage_reports GROUP BY release_key, place;

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
            'errorRate', 100.0 * coalesce(h.errors, 0) / h.calls,
            'latencyP50', l.p50, 'latencyP90', l.p90, 'latencyP95', l.p95, 'latencyP99', l.p99),
        'samples', h.calls,
        'evaluatedAt', strftime('%Y-%m-%dT%H:%M:%fZ', h.at_ms / 1000.0, 'unixepoch'))
    END AS health_result
FROM release_stage_course AS t
LEFT JOIN release_stage_health AS h ON h.release_key = t.release_key AND h.place = t.stage->>'place'
LEFT JOIN release_stage_latencies AS l ON l.release_key = t.release_key AND l.place = t.stage->>'place';
