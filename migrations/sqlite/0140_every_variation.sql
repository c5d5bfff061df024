-- What was measured of a stage is that of each new version, of which there may be more than one.

DROP VIEW release_stage_health;
DROP VIEW release_stage_buckets;

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

-- What the new versions' calls came to.
CREATE VIEW release_stage_health AS
SELECT release_key, place, sum(calls) AS calls, sum(errors) AS errors, max(at_ms) AS at_ms, max(status) AS status
FROM release_stage_new_versions GROUP BY release_key, place;
