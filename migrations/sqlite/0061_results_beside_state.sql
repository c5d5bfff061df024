-- Results are read from here in every kind of database. In this one each is a row.

CREATE VIEW results AS SELECT * FROM stage_results;
