-- Which variation serves alone once a release is done: the last that somebody chose, else the one that has most beside the stable one in the
-- last stage.

DROP VIEW release_ab_releases;
DROP VIEW release_shares;
DROP VIEW release_course;

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
        WHEN json_extract(s.form, '$.stages[' || c.current_at || '].shares[0]') = 0 OR c.has_passed_all THEN 'promoting'
        WHEN c.has_shared THEN 'running'
        ELSE 'deploying'
    END AS status,
    strftime('%Y-%m-%dT%H:%M:%fZ', c.submitted_ms / 1000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', c.ended_ms / 1000.0, 'unixepoch') AS completed_at,
    s.actor_id AS created_by
FROM service_releases AS s JOIN release_course AS c ON c.release_key = s.release_key;
