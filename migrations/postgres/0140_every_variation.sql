-- What was measured of a stage is that of each new version, of which there may be more than one.

-- What each child told last of each new version. Of more than two versions the first two stand where those of two do.
CREATE VIEW release.stage_new_versions AS
SELECT release_key, place, at_ms, status, (summary->>'f2_calls')::bigint AS calls, (summary->>'f2_errors')::bigint AS errors,
    summary->'f2_values' AS exactly, summary->'f2_histogram' AS histogram
FROM release.stage_reports
UNION ALL
SELECT r.release_key, r.place, r.at_ms, r.status, (v.told->>'calls')::bigint, (v.told->>'errors')::bigint, NULL, v.told->'histogram'
FROM release.stage_reports AS r, jsonb_array_elements(r.summary->'variations') WITH ORDINALITY AS v (told, number) WHERE v.number > 2;

-- Times of the new versions' calls. Bucket i holds those from gamma^(i - shift) to gamma^(i + 1 - shift) ms; without a number, those of 0.
-- Times that were reported as they are go into the buckets into which all such times go.
CREATE OR REPLACE VIEW release.stage_buckets AS
WITH told AS (
    SELECT release_key, place, coalesce(exactly->'sketch', CASE WHEN exactly IS NULL THEN histogram END) AS sketch,
        exactly->'exact' AS exact
    FROM release.stage_new_versions
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
    SELECT release_key, place, gamma, shift, bucket, calls,
        dense_rank() OVER (PARTITION BY release_key, place ORDER BY of_kind DESC, gamma, shift) AS kind
    FROM (
        SELECT release_key, place, gamma, shift, bucket, sum(calls) AS calls,
            sum(sum(calls)) OVER (PARTITION BY release_key, place, gamma, shift) AS of_kind
        FROM buckets GROUP BY release_key, place, gamma, shift, bucket
    ) AS each
) AS counted
-- Buckets of different kinds can't be added up: those count in which most calls were counted.
WHERE kind = 1 AND calls > 0;

-- What the new versions' calls came to.
CREATE OR REPLACE VIEW release.stage_health AS
SELECT release_key, place, sum(calls) AS calls, sum(errors) AS errors, max(at_ms) AS at_ms, max(status) AS status
FROM release.stage_new_versions GROUP BY release_key, place;
