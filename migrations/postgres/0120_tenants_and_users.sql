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

INSERT INTO tenants (name, id, at_ms)
SELECT s.tenant, s.tenant_id, min(r.submitted_ms) FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key
GROUP BY s.tenant, s.tenant_id;

INSERT INTO users (tenant, name, id, at_ms)
SELECT s.tenant, s.actor, s.actor_id, min(r.submitted_ms)
FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key
WHERE s.actor IS NOT NULL AND s.actor_id IS NOT NULL GROUP BY s.tenant, s.actor, s.actor_id;

DROP VIEW release.tenants;
CREATE VIEW release.tenants AS
SELECT t.id::uuid AS id, t.name, to_timestamp(t.at_ms / 1000.0) AS created_at,
    (s.value::jsonb->>'max_children')::bigint AS max_children, (s.value::jsonb->>'max_releases')::bigint AS max_releases,
    (s.value::jsonb->>'max_bytes')::bigint AS max_bytes, coalesce((s.value::jsonb->>'deleted')::boolean, false) AS is_deleted
FROM tenants AS t LEFT JOIN settings AS s ON s.name = 'tenant/' || t.name;

DROP VIEW release.users;
CREATE VIEW release.users AS
SELECT u.id::uuid AS id, t.id::uuid AS tenant_id, u.name, to_timestamp(u.at_ms / 1000.0) AS created_at
FROM users AS u JOIN tenants AS t ON t.name = u.tenant;

-- Whoever submits a strategy as text may name an environment that nobody has registered.
DROP VIEW release.environments;
CREATE VIEW release.environments AS
SELECT e.id::uuid AS id, t.id::uuid AS tenant_id, e.name, e.detail::jsonb AS detail, to_timestamp(e.at_ms / 1000.0) AS created_at,
    to_timestamp(e.removed_ms / 1000.0) AS removed_at
FROM registered AS e JOIN tenants AS t ON t.name = e.tenant WHERE e.kind = 'environment'
UNION ALL
SELECT DISTINCT environment_id::uuid, tenant_id::uuid, environment, '{}'::jsonb, NULL::timestamptz, NULL::timestamptz
FROM service_releases WHERE environment_id NOT IN (SELECT id FROM registered WHERE kind = 'environment');
