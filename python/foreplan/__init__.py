"""foreplan: which parallel plan trains this model on this cluster, how fast, will it fit.

    >>> import foreplan
    >>> answer = foreplan.recommend(model="llama3-70b", cluster="8x8xH100",
    ...                             sequence_length="8192 tokens", global_batch="512 sequences")
    >>> answer.best.plan, answer.best.step_time_s
    >>> answer.frame()                      # the top plans, pandas

Answers equal those of the command line, number for number. Bad input is a ValueError with the command
line's text, one line per mistake; a failed environment (a full disk) a RuntimeError or ValueError with
the reason. Long calls free the GIL and end on Ctrl-C.
"""

from ._native import git_commit, version as __version__
from ._columns import Columns
from .calibration import Calibration, ClusterFactor, ClusterFit, GroupScore, calibrate
from .catalogue import (Cluster, Device, LayerKind, Model, ModelSummary, Operator, cluster, clusters, device,
                        devices, model, models)
from .engines import Dask, Processes, Ray
from .measurements import ImportedFile, ImportedLine, import_measurements, measurements
from .plans import (Dependence, FrontPlan, Memory, MemoryCurve, NearestFit, Plan, Report, Sensitivity, Share, Stage,
                    Timing, WhatIf)
from .scenario import Scenario, scenarios
from .search import (Recommendation, ScoredPlans, Simulation, recommend, search, sensitivity, simulate, trace)
from .store import HistogramBin, Run, Store, StoredPlan
from .sweep import JoinedRun, MergeOutcome, SweepOutcome, merge, sweep
from .validation import ErrorSummary, KernelValidation, RunValidation, SourceScore, run_tables, validate

__all__ = [
    "Calibration", "Cluster", "ClusterFactor", "ClusterFit", "Columns", "Dask", "Dependence", "Device",
    "ErrorSummary", "FrontPlan", "GroupScore", "HistogramBin", "ImportedFile", "ImportedLine", "JoinedRun",
    "KernelValidation", "LayerKind", "Memory", "MemoryCurve", "MergeOutcome", "Model", "ModelSummary", "NearestFit",
    "Operator", "Plan", "Processes", "Ray", "Recommendation", "Report", "Run", "RunValidation", "Scenario",
    "ScoredPlans", "Sensitivity", "Share", "Simulation", "SourceScore", "Stage", "Store", "StoredPlan",
    "SweepOutcome", "Timing", "WhatIf", "__version__", "calibrate", "cluster", "clusters", "device", "devices",
    "git_commit", "import_measurements", "measurements", "merge", "model", "models", "recommend", "run_tables",
    "scenarios", "search", "sensitivity", "simulate", "sweep", "trace", "validate",
]
