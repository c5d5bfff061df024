-- Which variation serves alone once a release is done: the last that somebody chose, else the one that has most beside the stable one in the
-- last stage.

CREATE OR REPLACE VIEW release.course AS
SELECT s.release_key, s.form::jsonb AS form, r.state, r.submitted_ms, r.ended_ms,
    r.state IN ('Done', 'DoneWithFailures') AS is_done,
    r.state IN ('Planned', 'RollingBack', 'RolledBack', 'RolledBackUnproven', 'Aborted', 'NoParticipants', 'DoneUntested')
        AS is_stable,
    t.current_at::integer AS current_at, coalesce(t.has_shared, false) AS has_shared, coalesce(t.has_passed_all, false) AS has_passed_all,
    coalesce(
        (SELECT (f.value->>'variation')::integer FROM jsonb_array_elements(r.detail::jsonb->'facts') WITH ORDINALITY AS f (value, number)
            WHERE f.value->>'fact' = 'winner_chosen' ORDER BY f.number DESC LIMIT 1),
        (SELECT v.number::integer - 1 FROM jsonb_array_elements_text(s.form::jsonb->'stages'->-1->'shares') WITH ORDINALITY AS v (value, number)
            WHERE v.number > 1 ORDER BY v.value::integer DESC, v.number LIMIT 1),
        1) AS winner
FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key
LEFT JOIN (
    SELECT release_key, max(at) FILTER (WHERE began_ms IS NOT NULL) AS current_at,
        bool_or(began_ms IS NOT NULL AND (stage->>'trafficPercentage')::numeric > 0) AS has_shared,
        bool_or(is_last AND passed_ms IS NOT NULL) AS has_passed_all
    FROM (SELECT *, at = max(at) OVER (PARTITION BY release_key) AS is_last FROM release.stage_times) AS each
    GROUP BY release_key
) AS t ON t.release_key = s.release_key
WHERE r.state <> 'Removed';

CREATE OR REPLACE VIEW release.shares AS
SELECT c.release_key, v.number - 1 AS at, v.value AS variation,
    CASE WHEN c.is_done THEN CASE WHEN v.number = c.winner + 1 THEN 100.0 ELSE 0.0 END
        WHEN c.is_stable OR c.current_at IS NULL THEN CASE WHEN v.number = 1 THEN 100.0 ELSE 0.0 END
        ELSE (c.form->'stages'->c.current_at->'shares'->>(v.number - 1)::integer)::numeric / 100.0
    END AS percentage
FROM release.course AS c, jsonb_array_elements(c.form->'variations') WITH ORDINALITY AS v (value, number);

CREATE OR REPLACE VIEW release.ab_releases AS
SELECT s.id::uuid AS id, s.tenant_id::uuid AS tenant_id, s.environment_id::uuid AS environment_id,
    (c.form->>'name')::varchar(255) AS name,
    (SELECT jsonb_agg(jsonb_build_object('name', v.variation->'name', 'releaseId', v.variation->'releaseId',
            'targetGroupId', v.variation->'targetGroupId', 'trafficPercentage', v.percentage) ORDER BY v.at)
        FROM release.shares AS v WHERE v.release_key = s.release_key) AS variations,
    (c.form->'variations'->(CASE WHEN c.is_done THEN c.winner ELSE 0 END)->>'name')::varchar(50) AS active_variation,
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
