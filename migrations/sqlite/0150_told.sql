-- What single children do fills most of the trail. What remains is what people look for, newest first; entries of before count as that.

ALTER TABLE audit ADD COLUMN steps INTEGER NOT NULL DEFAULT 0 CHECK (steps IN (0, 1));

CREATE INDEX audit_told ON audit (seq, idx) WHERE NOT steps;
CREATE INDEX audit_told_of_release ON audit (release_key, seq, idx) WHERE NOT steps AND release_key IS NOT NULL;
