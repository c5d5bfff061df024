-- The first schema. The version is kept in PRAGMA user_version, which the runner sets in the same transaction.
-- STRICT, so that a value of the wrong type is refused instead of stored. No foreign keys: the engine is the only
-- writer, and a check for every row would be paid on the hottest path.

CREATE TABLE lease (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    epoch       INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    holder      TEXT    NOT NULL,
    served_ms   INTEGER NOT NULL,
    renewed_ms  INTEGER NOT NULL
) STRICT;

INSERT INTO lease VALUES (1, 0, 0, '', 0, 0);

CREATE TABLE children (
    child_key   INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    kind        TEXT    NOT NULL,
    name        TEXT,
    area        TEXT,
    agents      INTEGER NOT NULL,
    born_ms     INTEGER NOT NULL,
    seen_ms     INTEGER NOT NULL,
    detail      TEXT    NOT NULL
) STRICT;

CREATE TABLE releases (
    release_key  INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    state        TEXT    NOT NULL,
    open         INTEGER NOT NULL,
    digest       BLOB    NOT NULL,
    archive      BLOB    NOT NULL,
    strategy     TEXT    NOT NULL,
    functions    TEXT    NOT NULL,
    submitted_ms INTEGER NOT NULL,
    updated_ms   INTEGER NOT NULL,
    ended_ms     INTEGER,
    detail       TEXT    NOT NULL
) STRICT;

CREATE TABLE archives (
    digest BLOB NOT NULL PRIMARY KEY,
    bytes  BLOB NOT NULL
) STRICT;

CREATE TABLE members (
    release_key INTEGER NOT NULL,
    slice       INTEGER NOT NULL,
    keys        BLOB    NOT NULL,
    waves       BLOB    NOT NULL,
    PRIMARY KEY (release_key, slice)
) STRICT;

CREATE TABLE assignments (
    release_key  INTEGER NOT NULL,
    child_key    INTEGER NOT NULL,
    status       INTEGER NOT NULL,
    outcome      TEXT,
    attempt      INTEGER NOT NULL,
    stage        INTEGER NOT NULL,
    stage_status INTEGER NOT NULL,
    updated_ms   INTEGER NOT NULL,
    detail       TEXT    NOT NULL,
    PRIMARY KEY (release_key, child_key)
) STRICT, WITHOUT ROWID;

-- With a rowid: results come in any order of keys, and so they are appended instead of each changing a page of its own.
CREATE TABLE stage_results (
    release_key INTEGER NOT NULL,
    child_key   INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    stage       INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    digest      INTEGER NOT NULL,
    summary     TEXT    NOT NULL,
    PRIMARY KEY (release_key, child_key, attempt, stage)
) STRICT;

CREATE TABLE deployments (
    child_key   INTEGER NOT NULL,
    function    TEXT    NOT NULL,
    release_key INTEGER NOT NULL,
    variant     TEXT    NOT NULL,
    path        TEXT    NOT NULL,
    at_ms       INTEGER NOT NULL,
    PRIMARY KEY (child_key, function)
) STRICT, WITHOUT ROWID;

-- "What runs where" pages by function.
CREATE INDEX deployments_by_function ON deployments (function, child_key);

CREATE TABLE audit (
    seq         INTEGER NOT NULL,
    idx         INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    release_key INTEGER,
    actor       TEXT    NOT NULL,
    events      TEXT    NOT NULL,
    PRIMARY KEY (seq, idx)
) STRICT, WITHOUT ROWID;

CREATE INDEX audit_by_release ON audit (release_key, seq, idx) WHERE release_key IS NOT NULL;

CREATE TABLE outbox (
    id      INTEGER PRIMARY KEY,
    kind    TEXT    NOT NULL,
    at_ms   INTEGER NOT NULL,
    payload TEXT    NOT NULL
) STRICT;
