-- The outbox holds what is still to be done. What a manager keeps of itself, and where strategies went that were submitted here,
-- is never done: each has a table of its own.

CREATE TABLE settings (
    name  TEXT    NOT NULL PRIMARY KEY,
    value TEXT    NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE pointers (
    pointer_key INTEGER PRIMARY KEY,
    at_ms       INTEGER NOT NULL,
    detail      TEXT    NOT NULL
) STRICT;

-- The first identity counted, and the latest enrolment.
INSERT INTO settings (name, value, at_ms)
SELECT kind, payload, at_ms FROM outbox
WHERE id = (SELECT min(id) FROM outbox WHERE kind = 'identity')
   OR id = (SELECT max(id) FROM outbox WHERE kind = 'enrolled');

INSERT INTO pointers (pointer_key, at_ms, detail)
SELECT id, at_ms, payload FROM outbox WHERE kind = 'forwarded';

DELETE FROM outbox WHERE kind IN ('identity', 'enrolled', 'forwarded');
