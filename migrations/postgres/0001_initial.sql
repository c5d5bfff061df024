-- The runner keeps the version in store_version and sets it in the same transaction.
-- Text that is compared or ordered has collation "C": the same order as in SQLite, whatever the database's locale.
-- No foreign keys: the engine is the only writer, and a check for every row would be paid on the hottest path.
-- Tables whose rows are rewritten in place leave room on their pages, so that an update needs no new index entry.

CREATE TABLE lease (
    one         smallint PRIMARY KEY CHECK (one = 1),
    epoch       bigint   NOT NULL,
    seq         bigint   NOT NULL,
    holder      text     NOT NULL,
    served_ms   bigint   NOT NULL,
    renewed_ms  bigint   NOT NULL
) WITH (fillfactor = 10);

INSERT INTO lease VALUES (1, 0, 0, '', 0, 0);

CREATE TABLE children (
    child_key   bigint PRIMARY KEY,
    id          text COLLATE "C" NOT NULL UNIQUE,
    kind        text   NOT NULL,
    name        text,
    area        text,
    agents      bigint NOT NULL,
    born_ms     bigint NOT NULL,
    seen_ms     bigint NOT NULL,
    detail      text   NOT NULL
) WITH (fillfactor = 85);

CREATE TABLE releases (
    release_key  bigint PRIMARY KEY,
    id           text COLLATE "C" NOT NULL UNIQUE,
    state        text    NOT NULL,
    open         boolean NOT NULL,
    digest       bytea   NOT NULL,
    archive      bytea   NOT NULL,
    strategy     text    NOT NULL,
    functions    text    NOT NULL,
    submitted_ms bigint  NOT NULL,
    updated_ms   bigint  NOT NULL,
    ended_ms     bigint,
    detail       text    NOT NULL
) WITH (fillfactor = 70);

-- What is left of releases that were removed from the history is found without reading all others, and so is whether an
-- archive is referred to.
CREATE INDEX releases_removed ON releases (release_key) WHERE state = 'Removed';
CREATE INDEX releases_by_archive ON releases (archive);

CREATE TABLE archives (
    digest bytea PRIMARY KEY,
    bytes  bytea NOT NULL
);

-- A zip is compressed already.
ALTER TABLE archives ALTER COLUMN bytes SET STORAGE EXTERNAL;

CREATE TABLE members (
    release_key bigint NOT NULL,
    slice       bigint NOT NULL,
    keys        bytea  NOT NULL,
    waves       bytea  NOT NULL,
    PRIMARY KEY (release_key, slice)
);

-- A plain result lies in the row of its child in the release, which is written with it anyway: one row written instead of
-- two. `latest` is the last one in short form, `result_key` tells which attempt and stage it is of, `past` has those of
-- other stages, one a line. Everything else stays in a row of its own; where there are both, the later commit counts.
-- The short form: attempt, stage, status, at_ms, digest, commit, then the values in the order of the summary.
-- A row is first written without a result, and grows by one with each stage. With room for that on its page it stays there, and no
-- result needs a new entry in the index.
CREATE TABLE assignments (
    release_key  bigint   NOT NULL,
    child_key    bigint   NOT NULL,
    status       smallint NOT NULL,
    outcome      text,
    attempt      smallint NOT NULL,
    stage        smallint NOT NULL,
    stage_status smallint NOT NULL,
    updated_ms   bigint   NOT NULL,
    detail       text     NOT NULL,
    result_key   bigint,
    latest       text,
    past         text,
    PRIMARY KEY (release_key, child_key)
) WITH (fillfactor = 40);

CREATE TABLE stage_results (
    release_key bigint   NOT NULL,
    child_key   bigint   NOT NULL,
    attempt     smallint NOT NULL,
    stage       smallint NOT NULL,
    status      smallint NOT NULL,
    at_ms       bigint   NOT NULL,
    digest      bigint   NOT NULL,
    summary     text     NOT NULL,
    seq         bigint   NOT NULL DEFAULT 0,
    PRIMARY KEY (release_key, child_key, attempt, stage)
) WITH (fillfactor = 85);

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

CREATE TABLE deployments (
    child_key   bigint NOT NULL,
    function    text COLLATE "C" NOT NULL,
    release_key bigint NOT NULL,
    variant     text   NOT NULL,
    path        text   NOT NULL,
    at_ms       bigint NOT NULL,
    content     bigint,
    PRIMARY KEY (child_key, function)
) WITH (fillfactor = 85);

-- "What runs where" pages by function.
CREATE INDEX deployments_by_function ON deployments (function, child_key);

-- `steps`: what single children do, which fills most of the trail. What remains is what people look for, newest first.
CREATE TABLE audit (
    seq         bigint NOT NULL,
    idx         bigint NOT NULL,
    at_ms       bigint NOT NULL,
    release_key bigint,
    actor       text   NOT NULL,
    events      text   NOT NULL,
    steps       boolean NOT NULL DEFAULT false,
    PRIMARY KEY (seq, idx)
);

-- Events of one commit are a few kilobytes of text that repeats itself: where the server has a faster way to make that
-- small than its first one, it is used.
DO $$
BEGIN
    EXECUTE 'ALTER TABLE audit ALTER COLUMN events SET COMPRESSION lz4';
EXCEPTION WHEN OTHERS THEN
    NULL;
END
$$;

CREATE INDEX audit_by_release ON audit (release_key, seq, idx) WHERE release_key IS NOT NULL;
CREATE INDEX audit_told ON audit (seq, idx) WHERE NOT steps;
CREATE INDEX audit_told_of_release ON audit (release_key, seq, idx) WHERE NOT steps AND release_key IS NOT NULL;

-- What is still to be done. `served_ms` is the serving time at which it came up; NULL: not known.
CREATE TABLE outbox (
    id        bigint PRIMARY KEY,
    kind      text   NOT NULL,
    at_ms     bigint NOT NULL,
    payload   text   NOT NULL,
    served_ms bigint
);

-- What analyses have measured has rows of its own: they are written when somebody looks, not with every change of the
-- release. And of each release that ended well, when its stages were: later releases are compared with it.

CREATE TABLE analysis_runs (
    release_key bigint   NOT NULL,
    block       smallint NOT NULL,
    detail      text     NOT NULL,
    PRIMARY KEY (release_key, block)
);

CREATE TABLE precedents (
    function    text   COLLATE "C" NOT NULL,
    release_key bigint NOT NULL,
    id          text   NOT NULL,
    ended_ms    bigint,
    times       text   NOT NULL,
    PRIMARY KEY (function, release_key)
);

-- "The last one that ended before this instant."
CREATE INDEX precedents_by_end ON precedents (function, ended_ms, release_key);

-- Ages are serving time: wall clocks jump, and nothing is erased or given up because of that. Commits before `seq` were
-- made when at most `served_ms` had been served; what is older than the first row is as old as that one.

CREATE TABLE commit_ages (
    seq       bigint PRIMARY KEY,
    served_ms bigint NOT NULL
);

-- The outbox holds what is still to be done. What a manager keeps of itself, and where strategies went that were submitted here,
-- is never done: each has a table of its own.

CREATE TABLE settings (
    name  text   COLLATE "C" PRIMARY KEY,
    value text   NOT NULL,
    at_ms bigint NOT NULL
);

CREATE TABLE pointers (
    pointer_key bigint PRIMARY KEY,
    at_ms       bigint NOT NULL,
    detail      text   NOT NULL
);

-- What is known of routers and of the services that they lead, and how their shares came about.

CREATE TABLE routers (
    child_key  bigint  PRIMARY KEY,
    kind       text    NOT NULL,
    version    text,
    phase      text    NOT NULL,
    reached    boolean NOT NULL,
    trouble    text,
    updated_ms bigint  NOT NULL,
    detail     text    NOT NULL
);

-- A service has a place of its router's, which is given again when it is gone: then its name is empty.
CREATE TABLE led_services (
    child_key  bigint   NOT NULL,
    place      smallint NOT NULL,
    service    text     COLLATE "C" NOT NULL,
    epoch      bigint   NOT NULL,
    generation bigint   NOT NULL,
    offer      text,
    standing   boolean  NOT NULL,
    updated_ms bigint   NOT NULL,
    detail     text     NOT NULL,
    PRIMARY KEY (child_key, place)
);

-- The last orders of each router, by places that are given again.
CREATE TABLE router_orders (
    child_key bigint   NOT NULL,
    place     smallint NOT NULL,
    number    bigint   NOT NULL,
    what      text     NOT NULL,
    at_ms     bigint   NOT NULL,
    detail    text     NOT NULL,
    PRIMARY KEY (child_key, place)
);

CREATE TABLE workflows (
    workflow_key bigint PRIMARY KEY,
    id           text NOT NULL UNIQUE,
    archive      bytea NOT NULL,
    definition   text NOT NULL,
    detail       text NOT NULL
);

CREATE TABLE workflow_parts (
    part_key     bigint PRIMARY KEY,
    workflow_key bigint NOT NULL,
    detail       text NOT NULL
);

-- Parts go with their workflow, and archives stay while one refers to them.
CREATE INDEX workflow_parts_by_workflow ON workflow_parts (workflow_key);
CREATE INDEX workflows_by_archive ON workflows (archive);

CREATE TABLE traffic_history (
    seq         bigint NOT NULL,
    idx         bigint NOT NULL,
    at_ms       bigint NOT NULL,
    child_key   bigint NOT NULL,
    router      text   NOT NULL,
    service     text   COLLATE "C" NOT NULL,
    release_key bigint,
    detail      text   NOT NULL,
    PRIMARY KEY (seq, idx)
);

CREATE INDEX traffic_history_by_release ON traffic_history (release_key, seq, idx) WHERE release_key IS NOT NULL;
CREATE INDEX traffic_history_by_service ON traffic_history (service, seq, idx);

-- Releases of services, as the interface of progressive delivery shows them. What can't change once a release is submitted is
-- written down here; how far it has come is in its own row, and the views read it from there.

CREATE TABLE registered (
    tenant     text   COLLATE "C" NOT NULL,
    kind       text   COLLATE "C" NOT NULL CHECK (kind IN ('environment', 'target_group', 'version', 'release')),
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

-- Who there is: tenants, and users, who were named by the configuration or did something. The ids follow from the names and are written
-- here alone; whatever names a tenant or a user refers to them. What a tenant may have, and whether it was deleted, stands in its setting.
-- Nothing that is here goes away again: the audit trail and releases that are over go on naming it.

CREATE TABLE tenants (
    name  text   COLLATE "C" PRIMARY KEY,
    id    text   COLLATE "C" NOT NULL UNIQUE,
    at_ms bigint NOT NULL
);

CREATE TABLE users (
    tenant text   COLLATE "C" NOT NULL,
    name   text   COLLATE "C" NOT NULL,
    id     text   COLLATE "C" NOT NULL UNIQUE,
    at_ms  bigint NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE SCHEMA IF NOT EXISTS release;

CREATE VIEW release.tenants AS
SELECT t.id::uuid AS id, t.name, to_timestamp(t.at_ms / 1000.0) AS created_at,
    (s.value::jsonb->>'max_children')::bigint AS max_children, (s.value::jsonb->>'max_releases')::bigint AS max_releases,
    (s.value::jsonb->>'max_bytes')::bigint AS max_bytes, coalesce((s.value::jsonb->>'deleted')::boolean, false) AS is_deleted
FROM tenants AS t LEFT JOIN settings AS s ON s.name = 'tenant/' || t.name;

CREATE VIEW release.users AS
SELECT u.id::uuid AS id, t.id::uuid AS tenant_id, u.name, to_timestamp(u.at_ms / 1000.0) AS created_at
FROM users AS u JOIN tenants AS t ON t.name = u.tenant;

-- Whoever submits a strategy as text may name an environment that nobody has registered.
CREATE VIEW release.environments AS
SELECT e.id::uuid AS id, t.id::uuid AS tenant_id, e.name, e.detail::jsonb AS detail, to_timestamp(e.at_ms / 1000.0) AS created_at,
    to_timestamp(e.removed_ms / 1000.0) AS removed_at
FROM registered AS e JOIN tenants AS t ON t.name = e.tenant WHERE e.kind = 'environment'
UNION ALL
SELECT DISTINCT environment_id::uuid, tenant_id::uuid, environment, '{}'::jsonb, NULL::timestamptz, NULL::timestamptz
FROM service_releases WHERE environment_id NOT IN (SELECT id FROM registered WHERE kind = 'environment');

-- A stage with when it began and when the last wave had passed it, and how the release stands.
CREATE VIEW release.stage_times AS
SELECT s.release_key, s.id AS ab_release_id, place.number - 1 AS at, place.value AS stage, r.state, r.ended_ms,
    (SELECT min((t->>'began_ms')::bigint) FROM jsonb_array_elements(d.detail->'times') AS t
        WHERE t->'stage' = place.value->'place') AS began_ms,
    (SELECT max((t->>'ended_ms')::bigint) FROM jsonb_array_elements(d.detail->'times') AS t
        WHERE t->'stage' = place.value->'place') AS passed_ms,
    EXISTS (SELECT 1 FROM jsonb_array_elements(d.detail->'facts') AS f
        WHERE f->>'fact' = 'stage_skipped' AND f->'stage' = place.value->'place') AS is_skipped,
    -- What somebody chose last for the one variation beside the stable one, in units of 0.01 %.
    (SELECT (f.value->>'new')::integer FROM jsonb_array_elements(d.detail->'facts') WITH ORDINALITY AS f (value, number)
        WHERE f.value->>'fact' = 'shares_chosen' AND f.value->'stage' = place.value->'place'
        ORDER BY f.number DESC LIMIT 1) AS chosen
FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key,
    LATERAL (SELECT r.detail::jsonb AS detail) AS d,
    jsonb_array_elements(s.form::jsonb->'stages') WITH ORDINALITY AS place (value, number);

-- Which variation serves alone once a release is done: the last that somebody chose, else the one that has most beside the stable one in the
-- last stage.

-- What each release has come to. `winner` is the variation that serves alone once it is done: the last that somebody chose, else the one
-- that has most beside the stable one in the last stage.
CREATE VIEW release.course AS
SELECT s.release_key, s.form::jsonb AS form, r.state, r.submitted_ms, r.ended_ms,
    r.state IN ('Done', 'DoneWithFailures') AS is_done,
    r.state IN ('Planned', 'RollingBack', 'RolledBack', 'RolledBackUnproven', 'Aborted', 'NoParticipants', 'DoneUntested')
        AS is_stable,
    t.current_at::integer AS current_at, t.chosen, coalesce(t.has_shared, false) AS has_shared, coalesce(t.has_passed_all, false) AS has_passed_all,
    coalesce(
        (SELECT (f.value->>'variation')::integer FROM jsonb_array_elements(r.detail::jsonb->'facts') WITH ORDINALITY AS f (value, number)
            WHERE f.value->>'fact' = 'winner_chosen' ORDER BY f.number DESC LIMIT 1),
        (SELECT v.number::integer - 1 FROM jsonb_array_elements_text(s.form::jsonb->'stages'->-1->'shares') WITH ORDINALITY AS v (value, number)
            WHERE v.number > 1 ORDER BY v.value::integer DESC, v.number LIMIT 1),
        1) AS winner
FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key
LEFT JOIN (
    SELECT release_key, max(at) FILTER (WHERE began_ms IS NOT NULL) AS current_at,
        (array_agg(chosen ORDER BY at DESC) FILTER (WHERE began_ms IS NOT NULL))[1] AS chosen,
        bool_or(began_ms IS NOT NULL AND coalesce(chosen, (stage->>'trafficPercentage')::numeric) > 0) AS has_shared,
        bool_or(is_last AND passed_ms IS NOT NULL) AS has_passed_all
    FROM (SELECT *, at = max(at) OVER (PARTITION BY release_key) AS is_last FROM release.stage_times) AS each
    GROUP BY release_key
) AS t ON t.release_key = s.release_key
WHERE r.state <> 'Removed';

CREATE VIEW release.shares AS
SELECT c.release_key, v.number - 1 AS at, v.value AS variation,
    CASE WHEN c.is_done THEN CASE WHEN v.number = c.winner + 1 THEN 100.0 ELSE 0.0 END
        WHEN c.is_stable OR c.current_at IS NULL THEN CASE WHEN v.number = 1 THEN 100.0 ELSE 0.0 END
        WHEN c.chosen IS NOT NULL THEN CASE WHEN v.number = 1 THEN 10000 - c.chosen ELSE c.chosen END / 100.0
        ELSE (c.form->'stages'->c.current_at->'shares'->>(v.number - 1)::integer)::numeric / 100.0
    END AS percentage
FROM release.course AS c, jsonb_array_elements(c.form->'variations') WITH ORDINALITY AS v (value, number);

CREATE VIEW release.ab_releases AS
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
        WHEN coalesce(10000 - c.chosen, (c.form->'stages'->c.current_at->'shares'->>0)::integer) = 0 OR c.has_passed_all THEN 'promoting'
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
CREATE VIEW release.stage_buckets AS
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

-- What the new versions' calls came to.
CREATE VIEW release.stage_health AS
SELECT release_key, place, sum(calls) AS calls, sum(errors) AS errors, max(at_ms) AS at_ms, max(status) AS status
FROM release.stage_new_versions GROUP BY release_key, place;

CREATE VIEW release.canary_stages AS
SELECT (t.stage->>'id')::uuid AS id, t.ab_release_id::uuid AS ab_release_id, (t.at + 1)::integer AS stage_number,
    round(coalesce(t.chosen / 100.0, (t.stage->>'trafficPercentage')::numeric))::integer AS traffic_percentage, t.status::varchar(50) AS status,
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
