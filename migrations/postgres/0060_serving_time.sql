-- Ages are serving time: wall clocks jump, and nothing is erased or given up because of that. Commits before `seq` were
-- made when at most `served_ms` had been served; what is older than the first row is as old as that one.

CREATE TABLE commit_ages (
    seq       bigint PRIMARY KEY,
    served_ms bigint NOT NULL
);

-- Serving time at which an effect came up; NULL: not known. How long those of before have waited, only a wall clock
-- could tell: they begin anew.
ALTER TABLE outbox ADD COLUMN served_ms bigint;

UPDATE outbox SET served_ms = (SELECT served_ms FROM lease);
