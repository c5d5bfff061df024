-- Who there is: tenants, and users, who were named by the configuration or did something. The ids follow from the names and are written
-- here alone; whatever names a tenant or a user refers to them. What a tenant may have, and whether it was deleted, stands in its setting.
-- Nothing that is here goes away again: the audit trail and releases that are over go on naming it.

CREATE TABLE tenants (
    name  TEXT    NOT NULL PRIMARY KEY,
    id    TEXT    NOT NULL UNIQUE,
    at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE users (
    tenant TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    id     TEXT    NOT NULL UNIQUE,
    at_ms  INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

INSERT INTO tenants (name, id, at_ms)
SELECT s.tenant, s.tenant_id, min(r.submitted_ms) FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key
GROUP BY s.tenant, s.tenant_id;

INSERT INTO users (tenant, name, id, at_ms)
SELECT s.tenant, s.actor, s.actor_id, min(r.submitted_ms)
FROM service_releases AS s JOIN releases AS r ON r.release_key = s.release_key
WHERE s.actor IS NOT NULL AND s.actor_id IS NOT NULL GROUP BY s.tenant, s.actor, s.actor_id;

DROP VIEW release_tenants;
CREATE VIEW release_tenants AS
SELECT t.id, t.name, strftime('%Y-%m-%dT%H:%M:%fZ', t.at_ms / 1000.0, 'unixepoch') AS created_at,
    s.value->>'max_children' AS max_children, s.value->>'max_releases' AS max_releases, s.value->>'max_bytes' AS max_bytes,
    coalesce(s.value->>'deleted', 0) AS is_deleted
FROM tenants AS t LEFT JOIN settings AS s ON s.name = 'tenant/' || t.name;

DROP VIEW release_users;
CREATE VIEW release_users AS
SELECT u.id, t.id AS tenant_id, u.name, strftime('%Y-%m-%dT%H:%M:%fZ', u.at_ms / 1000.0, 'unixepoch') AS created_at
FROM users AS u JOIN tenants AS t ON t.name = u.tenant;

-- Whoever submits a strategy as text may name an environment that nobody has registered.
DROP VIEW release_environments;
CREATE VIEW release_environments AS
SELECT e.id, t.id AS tenant_id, e.name, e.detail, strftime('%Y-%m-%dT%H:%M:%fZ', e.at_ms / 1000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.removed_ms / 1000.0, 'unixepoch') AS removed_at
FROM registered AS e JOIN tenants AS t ON t.name = e.tenant WHERE e.kind = 'environment'
UNION ALL
SELECT DISTINCT environment_id, tenant_id, environment, '{}', NULL, NULL
FROM service_releases WHERE environment_id NOT IN (SELECT id FROM registered WHERE kind = 'environment');
