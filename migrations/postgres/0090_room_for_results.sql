-- A row of a child in a release is first written without a result, and grows by one with each stage. With room for that
-- on its page it stays there, and no result needs a new entry in the index. Pages that are full already stay as they are.

ALTER TABLE assignments SET (fillfactor = 40);
