-- What is left of releases that were removed from the history is found without reading all others, and so is whether an
-- archive is referred to.

CREATE INDEX releases_removed ON releases (release_key) WHERE state = 'Removed';

CREATE INDEX releases_by_archive ON releases (archive);
