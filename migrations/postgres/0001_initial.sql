-- The first schema. The runner keeps the version in store_version and sets it in the same transaction.
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
    PRIMARY KEY (release_key, child_key)
) WITH (fillfactor = 70);

CREATE TABLE stage_results (
    release_key bigint   NOT NULL,
    child_key   bigint   NOT NULL,
    attempt     smallint NOT NULL,
    stage       smallint NOT NULL,
    status      smallint NOT NULL,
    at_ms       bigint   NOT NULL,
    digest      bigint   NOT NULL,
    summary     text     NOT NULL,
    PRIMARY KEY (release_key, child_key, attempt, stage)
) WITH (fillfactor = 85);

CREATE TABLE deployments (
    child_key   bigint NOT NULL,
    function    text COLLATE "C" NOT NULL,
    release_key bigint NOT NULL,
    variant     text   NOT NULL,
    path        text   NOT NULL,
    at_ms       bigint NOT NULL,
    PRIMARY KEY (child_key, function)
) WITH (fillfactor = 85);

-- "What runs where" pages by function.
CREATE INDEX deployments_by_function ON deployments (function, child_key);

CREATE TABLE audit (
    seq         bigint NOT NULL,
    idx         bigint NOT NULL,
    at_ms       bigint NOT NULL,
    release_key bigint,
    actor       text   NOT NULL,
    events      text   NOT NULL,
    PRIMARY KEY (seq, idx)
);

CREATE INDEX audit_by_release ON audit (release_key, seq, idx) WHERE release_key IS NOT NULL;

CREATE TABLE outbox (
    id      bigint PRIMARY KEY,
    kind    text   NOT NULL,
    at_ms   bigint NOT NULL,
    payload text   NOT NULL
);
