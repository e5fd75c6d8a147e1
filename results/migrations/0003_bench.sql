-- What is true of the machine and of the program for a whole run, as a list of facts.
CREATE TABLE bench_environment (
  id           INTEGER PRIMARY KEY,
  content_hash TEXT NOT NULL UNIQUE CHECK (length(content_hash) = 64),  -- SHA-256 of facts_json
  facts_json   TEXT NOT NULL CHECK (json_valid(facts_json))  -- {"name": "text"}, sorted by name
) STRICT;

-- A list of points measured on one machine, by one process or, after interruptions, by several.
CREATE TABLE bench_run (
  id              INTEGER PRIMARY KEY,
  target          TEXT NOT NULL,  -- kind of machine: 'cuda', 'host', 'synthetic'
  origin          TEXT NOT NULL CHECK (origin IN ('measured', 'synthetic')),
  device          TEXT NOT NULL,  -- DeviceSpec name
  environment     INTEGER NOT NULL REFERENCES bench_environment (id),
  points_hash     TEXT NOT NULL CHECK (length(points_hash) = 64),  -- SHA-256 of the sorted keys
  point_count     INTEGER NOT NULL CHECK (point_count >= 0),
  ranks           INTEGER NOT NULL CHECK (ranks >= 1),
  seed            INTEGER NOT NULL,
  rules_json      TEXT NOT NULL CHECK (json_valid(rules_json)),  -- when a point is done
  import          INTEGER NOT NULL REFERENCES measurement_import (id),  -- its measurements' log line
  status          TEXT NOT NULL CHECK (status IN ('running', 'finished')),
  started_at_utc  INTEGER NOT NULL,  -- seconds since 1970-01-01
  finished_at_utc INTEGER,
  CHECK ((status = 'finished') = (finished_at_utc IS NOT NULL))
) STRICT;

-- A process that worked on a run.
CREATE TABLE bench_process (
  id             INTEGER PRIMARY KEY,
  run            INTEGER NOT NULL REFERENCES bench_run (id),
  command_line   TEXT NOT NULL,
  budget_s       REAL CHECK (budget_s > 0),  -- NULL = none
  started_at_utc INTEGER NOT NULL
) STRICT;

-- How often a point was begun: one that ends its process each time must not be begun forever.
CREATE TABLE bench_attempt (
  run      INTEGER NOT NULL REFERENCES bench_run (id),
  key      TEXT NOT NULL,
  attempts INTEGER NOT NULL CHECK (attempts >= 1),
  PRIMARY KEY (run, key)
) STRICT;

-- What came of one point of a run. A number that is not known is NULL, never 0.
CREATE TABLE bench_point (
  run                       INTEGER NOT NULL REFERENCES bench_run (id),
  key                       TEXT NOT NULL,  -- canonical text of the question
  process                   INTEGER NOT NULL REFERENCES bench_process (id),
  op                        TEXT NOT NULL,
  cache                     TEXT NOT NULL CHECK (cache IN ('cold', 'hot')),
  launch                    TEXT NOT NULL CHECK (launch IN ('stream', 'graph')),
  selection                 TEXT NOT NULL CHECK (selection IN ('heuristic', 'autotuned')),
  variant                   TEXT NOT NULL,  -- asked for; '' = the target's best
  disposition               TEXT NOT NULL CHECK (disposition IN (
                              'measured', 'not_supported', 'failed', 'wrong_result', 'over_limit')),
  message                   TEXT NOT NULL,  -- why there is no number; '' where there is one
  library                   TEXT,
  library_version           TEXT,
  algorithm                 TEXT,
  work_flop                 REAL CHECK (work_flop >= 0),
  read_bytes                REAL CHECK (read_bytes >= 0),
  written_bytes             REAL CHECK (written_bytes >= 0),
  median_s                  REAL CHECK (median_s > 0),  -- of one launch, like all times here
  q1_s                      REAL CHECK (q1_s <= median_s),
  q3_s                      REAL CHECK (q3_s >= median_s),
  min_s                     REAL CHECK (min_s > 0),
  mean_s                    REAL CHECK (mean_s > 0),
  stdev_s                   REAL CHECK (stdev_s >= 0),
  noise_fraction            REAL CHECK (noise_fraction >= 0),  -- standard error of the median over it
  samples_kept              INTEGER CHECK (samples_kept >= 1),
  samples_throttled         INTEGER CHECK (samples_throttled >= 0),  -- dropped: clocks held down
  samples_outlying          INTEGER CHECK (samples_outlying >= 0),  -- dropped: far from the others
  warm_up_launches          INTEGER CHECK (warm_up_launches >= 0),
  launches_per_sample       INTEGER CHECK (launches_per_sample >= 1),
  stopped_by                TEXT CHECK (stopped_by IN (
                              'noise', 'sample_limit', 'point_limit', 'budget', 'interruption')),
  samples_s                 BLOB,  -- kept ones in order of time: little-endian float64
  check_fraction            REAL CHECK (check_fraction >= 0),  -- worst error over what is allowed
  check_message             TEXT,
  sm_clock_before_hz        REAL CHECK (sm_clock_before_hz >= 0),
  sm_clock_after_hz         REAL CHECK (sm_clock_after_hz >= 0),
  memory_clock_before_hz    REAL CHECK (memory_clock_before_hz >= 0),
  memory_clock_after_hz     REAL CHECK (memory_clock_after_hz >= 0),
  temperature_before_celsius REAL,
  temperature_after_celsius REAL,
  power_before_w            REAL CHECK (power_before_w >= 0),
  power_after_w             REAL CHECK (power_after_w >= 0),
  spent_s                   REAL NOT NULL CHECK (spent_s >= 0),  -- with buffers and check
  measured_at_utc           INTEGER NOT NULL,
  measurement_kind          TEXT CHECK (measurement_kind IN (
                              'gemm', 'attention', 'collectives', 'memory', 'moe')),
  PRIMARY KEY (run, key),
  CHECK ((disposition = 'measured') = (median_s IS NOT NULL)),
  CHECK ((disposition = 'measured') = (samples_kept IS NOT NULL)),
  CHECK ((disposition = 'measured') = (samples_s IS NOT NULL)),
  CHECK ((disposition = 'measured') = (message = '')),
  CHECK (samples_s IS NULL OR length(samples_s) = 8 * samples_kept)
) STRICT;

-- For people: what was measured, with the rates that follow.
CREATE VIEW bench_rate AS
SELECT bench_run.id AS run, bench_run.device, bench_run.origin, bench_point.key, op, library,
       library_version, algorithm, cache, launch, selection, median_s, q1_s, q3_s, noise_fraction,
       samples_kept,
       nullif(work_flop, 0) / median_s AS rate_flop_per_s,
       nullif(read_bytes + written_bytes, 0) / median_s AS bandwidth_bytes_per_s
FROM bench_point
JOIN bench_run ON bench_run.id = bench_point.run
WHERE disposition = 'measured';

-- For people: one line per run.
CREATE VIEW bench_summary AS
SELECT bench_run.id AS run, target, origin, device, ranks, status,
       datetime(started_at_utc, 'unixepoch') AS started_at,
       datetime(finished_at_utc, 'unixepoch') AS finished_at,
       point_count,
       count(bench_point.key) AS stored,
       total(disposition = 'measured') AS measured,
       total(disposition = 'not_supported') AS not_supported,
       total(disposition = 'failed') AS failed,
       total(disposition = 'wrong_result') AS wrong_result,
       total(disposition = 'over_limit') AS over_limit,
       total(samples_throttled) AS samples_throttled,
       total(spent_s) AS spent_s
FROM bench_run
LEFT JOIN bench_point ON bench_point.run = bench_run.id
GROUP BY bench_run.id;
