-- The schema as it is now, for readers and for other programs. The store itself gets there by the
-- numbered files in migrations/; a test holds the two together. user_version is the number of the
-- last migration, application_id spells "fpln".
PRAGMA application_id = 1718643822;
PRAGMA user_version = 4;

-- Where a run was computed. One row per distinct content; NULL means unknown.
CREATE TABLE environment (
  id              INTEGER PRIMARY KEY,
  content_hash    TEXT NOT NULL UNIQUE CHECK (length(content_hash) = 64),  -- SHA-256 of the rest
  program_version TEXT NOT NULL,
  git_commit      TEXT,  -- of the program, with "-dirty" where the tree had changes
  compiler        TEXT,
  host_cpu        TEXT,
  kernel          TEXT,
  os              TEXT
) STRICT;

-- The rates that a prediction was made with.
CREATE TABLE profile (
  id           INTEGER PRIMARY KEY,
  content_hash TEXT NOT NULL UNIQUE CHECK (length(content_hash) = 64),
  name         TEXT NOT NULL,
  kind         TEXT NOT NULL CHECK (kind IN ('datasheet', 'calibrated')),
  device       TEXT NOT NULL,  -- DeviceSpec name
  body_json    TEXT NOT NULL CHECK (json_valid(body_json))
) STRICT;

-- What was asked: the file as a person wrote it, and what it means with every default filled in.
CREATE TABLE scenario (
  id            INTEGER PRIMARY KEY,
  content_hash  TEXT NOT NULL UNIQUE CHECK (length(content_hash) = 64),
  name          TEXT NOT NULL,
  file_text     TEXT NOT NULL,
  resolved_json TEXT NOT NULL CHECK (json_valid(resolved_json))
) STRICT;

-- One execution of a verb over a search space. Totals stay NULL until the run is finished.
CREATE TABLE run (
  id               INTEGER PRIMARY KEY,
  verb             TEXT NOT NULL,  -- 'sweep', 'recommend', ...
  scenario         INTEGER NOT NULL REFERENCES scenario (id),
  profile          INTEGER NOT NULL REFERENCES profile (id),
  environment      INTEGER NOT NULL REFERENCES environment (id),
  keep             TEXT NOT NULL CHECK (keep IN ('best', 'all')),
  chunk_count      INTEGER NOT NULL CHECK (chunk_count >= 0),
  status           TEXT NOT NULL CHECK (status IN ('running', 'finished')),
  threads          INTEGER NOT NULL CHECK (threads >= 1),
  started_at_utc   INTEGER NOT NULL,  -- seconds since 1970-01-01
  finished_at_utc  INTEGER,
  plans_enumerated INTEGER CHECK (plans_enumerated >= plans_scored),
  plans_scored     INTEGER CHECK (plans_scored >= plans_feasible),
  plans_feasible   INTEGER CHECK (plans_feasible >= 0),
  wall_time_s      REAL CHECK (wall_time_s >= 0),  -- of the process that finished the run
  CHECK ((status = 'finished') = (finished_at_utc IS NOT NULL)),
  CHECK ((status = 'finished') = (plans_enumerated IS NOT NULL)),
  CHECK ((status = 'finished') = (plans_scored IS NOT NULL)),
  CHECK ((status = 'finished') = (plans_feasible IS NOT NULL)),
  CHECK ((status = 'finished') = (wall_time_s IS NOT NULL))
) STRICT;

-- A part of the search space that is done and stored; what a resumed run leaves out.
CREATE TABLE run_chunk (
  run              INTEGER NOT NULL REFERENCES run (id),
  chunk_index      INTEGER NOT NULL CHECK (chunk_index >= 0),
  plans_enumerated INTEGER NOT NULL CHECK (plans_enumerated >= plans_scored),
  plans_scored     INTEGER NOT NULL CHECK (plans_scored >= plans_feasible),
  plans_feasible   INTEGER NOT NULL CHECK (plans_feasible >= 0),
  wall_time_s      REAL NOT NULL CHECK (wall_time_s >= 0),
  PRIMARY KEY (run, chunk_index)
) STRICT;

-- Histogram bins of the chunks of an unfinished run; finishing sums them into `histogram`.
CREATE TABLE run_chunk_histogram (
  run         INTEGER NOT NULL,
  chunk_index INTEGER NOT NULL,
  quantity    TEXT NOT NULL,
  bin_low     REAL NOT NULL,
  bin_high    REAL NOT NULL,
  plan_count  INTEGER NOT NULL CHECK (plan_count >= 0),
  PRIMARY KEY (run, chunk_index, quantity, bin_low, bin_high),
  FOREIGN KEY (run, chunk_index) REFERENCES run_chunk (run, chunk_index),
  CHECK (bin_low < bin_high)
) STRICT;

-- A plan that a run kept: its coordinates, what was predicted, and why it cannot run if it cannot.
CREATE TABLE plan (
  run                   INTEGER NOT NULL REFERENCES run (id),
  plan_index            INTEGER NOT NULL CHECK (plan_index >= 0),  -- place in the enumeration
  chunk_index           INTEGER NOT NULL,
  key                   TEXT NOT NULL,  -- canonical text of the plan
  tp                    INTEGER NOT NULL CHECK (tp >= 1),
  pp                    INTEGER NOT NULL CHECK (pp >= 1),
  vpp                   INTEGER NOT NULL CHECK (vpp >= 1),
  dp                    INTEGER NOT NULL CHECK (dp >= 1),
  cp                    INTEGER NOT NULL CHECK (cp >= 1),
  ep                    INTEGER NOT NULL CHECK (ep >= 1),
  etp                   INTEGER NOT NULL CHECK (etp >= 1),
  sequence_parallel     INTEGER NOT NULL CHECK (sequence_parallel IN (0, 1)),
  zero_stage            INTEGER NOT NULL CHECK (zero_stage BETWEEN 0 AND 3),
  micro_batch           INTEGER NOT NULL CHECK (micro_batch >= 1),  -- sequences
  recompute             TEXT NOT NULL,
  precision             TEXT NOT NULL,
  framework             TEXT NOT NULL,
  gpus                  INTEGER NOT NULL CHECK (gpus >= 1),
  feasible              INTEGER NOT NULL CHECK (feasible IN (0, 1)),
  reason                TEXT,  -- first constraint violated and by how much; NULL = feasible
  step_time_s           REAL CHECK (step_time_s > 0),
  step_time_low_s       REAL CHECK (step_time_low_s > 0),
  step_time_high_s      REAL CHECK (step_time_high_s >= step_time_low_s),
  tokens_per_s_per_gpu  REAL CHECK (tokens_per_s_per_gpu > 0),
  mfu_fraction          REAL CHECK (mfu_fraction >= 0),
  peak_memory_bytes     REAL CHECK (peak_memory_bytes >= 0),  -- of the fullest rank
  memory_headroom_bytes REAL,  -- usable memory less the peak; negative = does not fit
  on_front              INTEGER NOT NULL DEFAULT 0 CHECK (on_front IN (0, 1)),
  rank                  INTEGER CHECK (rank >= 1),  -- 1 = best; NULL = not among the top
  plan_json             TEXT NOT NULL CHECK (json_valid(plan_json)),
  breakdown_json        TEXT CHECK (breakdown_json IS NULL OR json_valid(breakdown_json)),  -- in s
  memory_json           TEXT CHECK (memory_json IS NULL OR json_valid(memory_json)),  -- bytes
  objective             REAL,  -- what ranks are made by, smaller first; NULL in older runs
  extra_json            TEXT CHECK (extra_json IS NULL OR json_valid(extra_json)),  -- of hooks
  PRIMARY KEY (run, plan_index),
  UNIQUE (run, key),
  FOREIGN KEY (run, chunk_index) REFERENCES run_chunk (run, chunk_index),
  CHECK ((feasible = 1) = (reason IS NULL)),
  CHECK (feasible = 0 OR step_time_s IS NOT NULL),
  CHECK (feasible = 1 OR (rank IS NULL AND on_front = 0))
) STRICT;

CREATE UNIQUE INDEX plan_by_rank ON plan (run, rank) WHERE rank IS NOT NULL;
CREATE INDEX plan_on_front ON plan (run) WHERE on_front = 1;

-- How a quantity is spread over all plans that a finished run scored, kept or not.
CREATE TABLE histogram (
  run        INTEGER NOT NULL REFERENCES run (id),
  quantity   TEXT NOT NULL,  -- a column name of `plan`, which says the unit of the bins
  bin_low    REAL NOT NULL,  -- inclusive
  bin_high   REAL NOT NULL,  -- exclusive
  plan_count INTEGER NOT NULL CHECK (plan_count >= 0),
  PRIMARY KEY (run, quantity, bin_low, bin_high),
  CHECK (bin_low < bin_high)
) STRICT;

-- For people: one line per run.
CREATE VIEW run_summary AS
SELECT run.id AS run,
       run.verb,
       run.status,
       scenario.name AS scenario,
       profile.name AS profile,
       profile.kind AS profile_kind,
       profile.device,
       environment.program_version,
       environment.git_commit,
       datetime(run.started_at_utc, 'unixepoch') AS started_at,
       datetime(run.finished_at_utc, 'unixepoch') AS finished_at,
       (SELECT count(*) FROM run_chunk WHERE run_chunk.run = run.id) AS chunks_stored,
       run.chunk_count,
       run.plans_enumerated,
       run.plans_scored,
       run.plans_feasible,
       run.wall_time_s,
       best.key AS best_plan,
       best.step_time_s AS best_step_time_s,
       best.tokens_per_s_per_gpu AS best_tokens_per_s_per_gpu,
       best.mfu_fraction AS best_mfu_fraction
FROM run
JOIN scenario ON scenario.id = run.scenario
JOIN profile ON profile.id = run.profile
JOIN environment ON environment.id = run.environment
LEFT JOIN plan AS best ON best.run = run.id AND best.rank = 1;

-- For people: the first choice of every finished run, with its scenario and device.
CREATE VIEW best_plan AS
SELECT scenario.name AS scenario, profile.name AS profile, profile.device, plan.*
FROM plan
JOIN run ON run.id = plan.run
JOIN scenario ON scenario.id = run.scenario
JOIN profile ON profile.id = run.profile
WHERE plan.rank = 1;

-- One file that was imported, each time it was.
CREATE TABLE measurement_import (
  id              INTEGER PRIMARY KEY,
  file            TEXT NOT NULL,  -- as the person named it
  file_hash       TEXT NOT NULL CHECK (length(file_hash) = 64),  -- SHA-256 of its bytes
  format          TEXT NOT NULL,
  imported_at_utc INTEGER NOT NULL,  -- seconds since 1970-01-01
  accepted        INTEGER NOT NULL CHECK (accepted >= 0),  -- rows that hold, new or not
  added           INTEGER NOT NULL CHECK (added BETWEEN 0 AND accepted),  -- that were new
  rejected        INTEGER NOT NULL CHECK (rejected >= 0),
  flagged         INTEGER NOT NULL CHECK (flagged BETWEEN 0 AND accepted),
  duplicates      INTEGER NOT NULL CHECK (duplicates >= 0)  -- repeated rows of the same file
) STRICT;

-- Where measurements come from. One row per distinct content; an empty text is not stated.
CREATE TABLE measurement_origin (
  id              INTEGER PRIMARY KEY,
  content_hash    TEXT NOT NULL UNIQUE CHECK (length(content_hash) = 64),  -- SHA-256 of the rest
  device          TEXT NOT NULL,  -- DeviceSpec name
  library         TEXT NOT NULL,
  library_version TEXT NOT NULL,
  source          TEXT NOT NULL,
  licence         TEXT NOT NULL,  -- of the source
  date            TEXT NOT NULL,  -- of the source or of the run
  basis           TEXT NOT NULL,  -- what the source gave: time, bandwidth, ...
  statistic       TEXT NOT NULL,  -- mean, median, ...
  note            TEXT NOT NULL
) STRICT;

CREATE INDEX measurement_origin_of_device ON measurement_origin (device);

-- One product of matrices: C[m,n] = A[m,k] B[k,n], `batch` times.
CREATE TABLE gemm_measurement (
  id             INTEGER PRIMARY KEY,
  content_hash   TEXT NOT NULL UNIQUE CHECK (length(content_hash) = 32),  -- SHA-256, first half
  origin         INTEGER NOT NULL REFERENCES measurement_origin (id),
  import         INTEGER NOT NULL REFERENCES measurement_import (id),  -- that brought it first
  line           INTEGER NOT NULL CHECK (line >= 1),  -- in that file
  op             TEXT NOT NULL CHECK (op IN ('gemm', 'linear', 'bmm', 'grouped_gemm')),
  m              INTEGER NOT NULL CHECK (m >= 1),  -- of one group where op is grouped_gemm
  n              INTEGER NOT NULL CHECK (n >= 1),
  k              INTEGER NOT NULL CHECK (k >= 1),
  batch          INTEGER NOT NULL CHECK (batch >= 1),
  dtype_in       TEXT NOT NULL,
  dtype_acc      TEXT,
  dtype_out      TEXT,
  quant          TEXT NOT NULL,
  layout         TEXT NOT NULL CHECK (layout IN ('unstated', 'tn', 'nn', 'nt')),
  incl_act_quant INTEGER NOT NULL CHECK (incl_act_quant IN (0, 1)),
  time_s         REAL NOT NULL CHECK (time_s > 0),
  samples        INTEGER CHECK (samples >= 1),  -- measurements behind time_s
  flags          TEXT NOT NULL  -- reasons for less trust, joined by +; '' = none
) STRICT;

CREATE INDEX gemm_measurement_of_origin ON gemm_measurement (origin);

-- One attention call.
CREATE TABLE attention_measurement (
  id            INTEGER PRIMARY KEY,
  content_hash  TEXT NOT NULL UNIQUE CHECK (length(content_hash) = 32),
  origin        INTEGER NOT NULL REFERENCES measurement_origin (id),
  import        INTEGER NOT NULL REFERENCES measurement_import (id),
  line          INTEGER NOT NULL CHECK (line >= 1),
  phase         TEXT NOT NULL CHECK (phase IN ('prefill', 'decode', 'encoder', 'train')),
  pass          TEXT NOT NULL CHECK (pass IN ('fwd', 'bwd', 'fwd_bwd')),
  causal        INTEGER NOT NULL CHECK (causal IN (0, 1)),
  batch         INTEGER NOT NULL CHECK (batch >= 1),
  q_len         INTEGER NOT NULL CHECK (q_len >= 1),  -- tokens
  kv_len        INTEGER NOT NULL CHECK (kv_len >= 1),  -- tokens
  heads_q       INTEGER NOT NULL CHECK (heads_q >= 1),
  heads_kv      INTEGER NOT NULL CHECK (heads_kv >= 1),
  head_dim_qk   INTEGER NOT NULL CHECK (head_dim_qk >= 1),
  head_dim_v    INTEGER NOT NULL CHECK (head_dim_v >= 1),
  window        INTEGER NOT NULL CHECK (window >= 0),  -- tokens; 0 = none
  dtype_in      TEXT NOT NULL,
  dtype_kv      TEXT,
  deterministic INTEGER CHECK (deterministic IN (0, 1)),
  time_s        REAL NOT NULL CHECK (time_s > 0),
  samples       INTEGER CHECK (samples >= 1),
  flags         TEXT NOT NULL
) STRICT;

CREATE INDEX attention_measurement_of_origin ON attention_measurement (origin);

-- One collective, or one exchange of tokens between experts.
CREATE TABLE collective_measurement (
  id            INTEGER PRIMARY KEY,
  content_hash  TEXT NOT NULL UNIQUE CHECK (length(content_hash) = 32),
  origin        INTEGER NOT NULL REFERENCES measurement_origin (id),
  import        INTEGER NOT NULL REFERENCES measurement_import (id),
  line          INTEGER NOT NULL CHECK (line >= 1),
  op            TEXT NOT NULL,
  ngpus         INTEGER NOT NULL CHECK (ngpus >= 1),
  nodes         INTEGER NOT NULL CHECK (nodes >= 1),
  gpus_per_node INTEGER CHECK (gpus_per_node >= 1),
  bytes         REAL CHECK (bytes > 0),  -- as in nccl-tests; NULL for exchanges
  dtype         TEXT,
  inplace       INTEGER CHECK (inplace IN (0, 1)),
  impl          TEXT NOT NULL,
  intra_link    TEXT NOT NULL,
  inter_link    TEXT NOT NULL,
  moe_tokens    INTEGER CHECK (moe_tokens >= 1),  -- per rank
  moe_hidden    INTEGER CHECK (moe_hidden >= 1),
  moe_topk      INTEGER CHECK (moe_topk >= 1),
  moe_experts   INTEGER CHECK (moe_experts >= 1),
  moe_sms       INTEGER CHECK (moe_sms >= 1),  -- multiprocessors that communicate
  time_s        REAL NOT NULL CHECK (time_s > 0),
  samples       INTEGER CHECK (samples >= 1),
  flags         TEXT NOT NULL
) STRICT;

CREATE INDEX collective_measurement_of_origin ON collective_measurement (origin);

-- One kernel bound by memory.
CREATE TABLE memory_measurement (
  id           INTEGER PRIMARY KEY,
  content_hash TEXT NOT NULL UNIQUE CHECK (length(content_hash) = 32),
  origin       INTEGER NOT NULL REFERENCES measurement_origin (id),
  import       INTEGER NOT NULL REFERENCES measurement_import (id),
  line         INTEGER NOT NULL CHECK (line >= 1),
  op           TEXT NOT NULL,
  pass         TEXT NOT NULL CHECK (pass IN ('fwd', 'bwd', 'fwd_bwd')),
  rows         INTEGER CHECK (rows >= 1),
  cols         INTEGER CHECK (cols >= 1),
  elements     INTEGER CHECK (elements >= 1),
  dtype        TEXT NOT NULL,
  dtype_out    TEXT,  -- NULL = the same
  bytes        REAL CHECK (bytes > 0),  -- least traffic
  time_s       REAL NOT NULL CHECK (time_s > 0),
  samples      INTEGER CHECK (samples >= 1),
  flags        TEXT NOT NULL
) STRICT;

CREATE INDEX memory_measurement_of_origin ON memory_measurement (origin);

-- One fused MoE feed-forward on one device; sizes before dividing by moe_tp and moe_ep.
CREATE TABLE moe_measurement (
  id           INTEGER PRIMARY KEY,
  content_hash TEXT NOT NULL UNIQUE CHECK (length(content_hash) = 32),
  origin       INTEGER NOT NULL REFERENCES measurement_origin (id),
  import       INTEGER NOT NULL REFERENCES measurement_import (id),
  line         INTEGER NOT NULL CHECK (line >= 1),
  op           TEXT NOT NULL,
  tokens       INTEGER NOT NULL CHECK (tokens >= 1),
  hidden       INTEGER NOT NULL CHECK (hidden >= 1),
  inter        INTEGER NOT NULL CHECK (inter >= 1),
  topk         INTEGER NOT NULL CHECK (topk >= 1),
  experts      INTEGER NOT NULL CHECK (experts >= 1),
  moe_tp       INTEGER NOT NULL CHECK (moe_tp >= 1),
  moe_ep       INTEGER NOT NULL CHECK (moe_ep >= 1),
  distribution TEXT NOT NULL,  -- of tokens over experts
  quant        TEXT NOT NULL,
  time_s       REAL NOT NULL CHECK (time_s > 0),
  samples      INTEGER CHECK (samples >= 1),
  flags        TEXT NOT NULL
) STRICT;

CREATE INDEX moe_measurement_of_origin ON moe_measurement (origin);

-- For people: how many rows there are of each kind, by device, source and library.
CREATE VIEW measurement_count AS
SELECT kind, device, source, licence, library, library_version,
       count(*) AS measurements,
       sum(flags <> '') AS flagged
FROM (SELECT 'gemm' AS kind, origin, flags FROM gemm_measurement
      UNION ALL
      SELECT 'attention' AS kind, origin, flags FROM attention_measurement
      UNION ALL
      SELECT 'collectives' AS kind, origin, flags FROM collective_measurement
      UNION ALL
      SELECT 'memory' AS kind, origin, flags FROM memory_measurement
      UNION ALL
      SELECT 'moe' AS kind, origin, flags FROM moe_measurement)
JOIN measurement_origin ON measurement_origin.id = origin
GROUP BY kind, device, source, licence, library, library_version;

-- For people: products with what they reach.
CREATE VIEW gemm_rate AS
SELECT device, library, library_version, source, op, m, n, k, batch, dtype_in, quant, layout, time_s,
       2.0 * m * n * k * batch / time_s AS rate_flop_per_s,
       flags
FROM gemm_measurement
JOIN measurement_origin ON measurement_origin.id = origin;

-- For people: collectives with what they reach.
CREATE VIEW collective_rate AS
SELECT device, library, library_version, source, impl, op, ngpus, nodes, bytes, dtype, time_s,
       bytes / time_s AS bandwidth_bytes_per_s,
       flags
FROM collective_measurement
JOIN measurement_origin ON measurement_origin.id = origin;

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
