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
from .calibration import Calibration, GroupScore, calibrate
from .catalogue import (Cluster, Device, LayerKind, Model, ModelSummary, Operator, cluster, clusters, device,
                        devices, model, models)
from .engines import Dask, Processes, Ray
from .plans import FrontPlan, Memory, MemoryCurve, NearestFit, Plan, Report, Stage, Timing
from .scenario import Scenario, scenarios
from .search import Recommendation, ScoredPlans, Simulation, recommend, search, simulate
from .store import HistogramBin, Run, Store, StoredPlan
from .sweep import JoinedRun, MergeOutcome, SweepOutcome, merge, sweep
from .validation import ErrorSummary, KernelValidation, RunValidation, SourceScore, validate

__all__ = [
    "Calibration", "Cluster", "Dask", "Device", "ErrorSummary", "FrontPlan", "GroupScore", "HistogramBin", "JoinedRun",
    "KernelValidation", "LayerKind", "Memory", "MemoryCurve", "MergeOutcome", "Model", "ModelSummary", "NearestFit", "Operator",
    "Plan", "Processes", "Ray", "Recommendation", "Report", "Run", "RunValidation", "Scenario", "ScoredPlans", "Simulation",
    "SourceScore", "Stage", "Store", "StoredPlan", "SweepOutcome", "Timing", "__version__", "calibrate",
    "cluster", "clusters", "device", "devices", "git_commit", "merge", "model", "models", "recommend", "scenarios",
    "search", "simulate", "sweep", "validate",
]
