-- What ranks are made by, and columns that a scenario's hooks add.
ALTER TABLE plan ADD COLUMN objective REAL;
ALTER TABLE plan ADD COLUMN extra_json TEXT CHECK (extra_json IS NULL OR json_valid(extra_json));
