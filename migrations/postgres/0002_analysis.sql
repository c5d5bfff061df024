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
