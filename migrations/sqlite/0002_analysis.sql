-- What analyses have measured has rows of its own: they are written when somebody looks, not with every change of the
-- release. And of each release that ended well, when its stages were: later releases are compared with it.

CREATE TABLE analysis_runs (
    release_key INTEGER NOT NULL,
    block       INTEGER NOT NULL,
    detail      TEXT    NOT NULL,
    PRIMARY KEY (release_key, block)
) STRICT;

CREATE TABLE precedents (
    function    TEXT    NOT NULL,
    release_key INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    ended_ms    INTEGER,
    times       TEXT    NOT NULL,
    PRIMARY KEY (function, release_key)
) STRICT;

-- "The last one that ended before this instant."
CREATE INDEX precedents_by_end ON precedents (function, ended_ms, release_key);
