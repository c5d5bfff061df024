-- A plain result lies in the row of its child in the release, which is written with it anyway: one row written instead of
-- two. `latest` is the last one in short form, `result_key` tells which attempt and stage it is of, `past` has those of
-- other stages, one a line. Everything else stays in a row of its own; where there are both, the later commit counts.
-- The short form: attempt, stage, status, at_ms, digest, commit, then the values in the order of the summary.

ALTER TABLE assignments
    ADD COLUMN result_key bigint,
    ADD COLUMN latest     text,
    ADD COLUMN past       text;

ALTER TABLE stage_results ADD COLUMN seq bigint NOT NULL DEFAULT 0;

CREATE VIEW results AS
SELECT DISTINCT ON (release_key, child_key, attempt, stage)
    release_key, child_key, attempt, stage, status, at_ms, digest, summary
FROM (
    SELECT release_key, child_key, attempt, stage, status, at_ms, digest, summary, seq, 0::bigint AS place
    FROM stage_results
    UNION ALL
    SELECT release_key, child_key, (f[1])::smallint, (f[2])::smallint, (f[3])::smallint, (f[4])::bigint, (f[5])::bigint,
        format('{"status":"%s","proxy_times":{"median":%s,"minimum":%s,"maximum":%s},"f1_times_summary":{"median":%s,'
            '"minimum":%s,"maximum":%s},"f2_times_summary":{"median":%s,"minimum":%s,"maximum":%s},"f1_err_rate":%s,'
            '"f2_err_rate":%s', f[7], f[8], f[9], f[10], f[11], f[12], f[13], f[14], f[15], f[16], f[17], f[18])
        || CASE WHEN f[19] IS NULL THEN '}' ELSE
            format(',"f1_calls":%s,"f2_calls":%s,"f1_errors":%s,"f2_errors":%s}', f[19], f[20], f[21], f[22]) END,
        (f[6])::bigint, place
    FROM assignments,
        unnest(string_to_array(concat(past, latest), E'\n')) WITH ORDINALITY AS lines (line, place),
        string_to_array(line, ' ') AS f
    WHERE latest IS NOT NULL
) AS every
ORDER BY release_key, child_key, attempt, stage, seq DESC, place DESC;

-- Events of one commit are a few kilobytes of text that repeats itself: where the server has a faster way to make that
-- small than its first one, it is used.
DO $$
BEGIN
    EXECUTE 'ALTER TABLE audit ALTER COLUMN events SET COMPRESSION lz4';
EXCEPTION WHEN OTHERS THEN
    NULL;
END
$$;
