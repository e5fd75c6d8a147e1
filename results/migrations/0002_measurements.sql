-- Measurements of kernels and collectives, with where each comes from.

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
