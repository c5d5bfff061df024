-- What is known of routers and of the services that they lead, and how their shares came about.

CREATE TABLE routers (
    child_key  INTEGER PRIMARY KEY,
    kind       TEXT    NOT NULL,
    version    TEXT,
    phase      TEXT    NOT NULL,
    reached    INTEGER NOT NULL CHECK (reached IN (0, 1)),
    trouble    TEXT,
    updated_ms INTEGER NOT NULL,
    detail     TEXT    NOT NULL
) STRICT;

-- A service has a place of its router's, which is given again when it is gone: then its name is empty.
CREATE TABLE led_services (
    child_key  INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    service    TEXT    NOT NULL,
    epoch      INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    offer      TEXT,
    standing   INTEGER NOT NULL CHECK (standing IN (0, 1)),
    updated_ms INTEGER NOT NULL,
    detail     TEXT    NOT NULL,
    PRIMARY KEY (child_key, place)
) STRICT, WITHOUT ROWID;

-- The last orders of each router, by places that are given again.
CREATE TABLE router_orders (
    child_key INTEGER NOT NULL,
    place     INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    what      TEXT    NOT NULL,
    at_ms     INTEGER NOT NULL,
    detail    TEXT    NOT NULL,
    PRIMARY KEY (child_key, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE traffic_history (
    seq         INTEGER NOT NULL,
    idx         INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    child_key   INTEGER NOT NULL,
    router      TEXT    NOT NULL,
    service     TEXT    NOT NULL,
    release_key INTEGER,
    detail      TEXT    NOT NULL,
    PRIMARY KEY (seq, idx)
) STRICT, WITHOUT ROWID;

CREATE INDEX traffic_history_by_release ON traffic_history (release_key, seq, idx) WHERE release_key IS NOT NULL;
CREATE INDEX traffic_history_by_service ON traffic_history (service, seq, idx);
