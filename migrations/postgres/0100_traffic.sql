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
