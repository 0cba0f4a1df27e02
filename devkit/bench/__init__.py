"""Benchmarks on the phone: a matrix of runs, their spread, their history, and what is a real difference."""

from devkit.bench.compare import Comparison, compare_runs
from devkit.bench.metrics import Metric, Reader, Reading, regex_reader
from devkit.bench.record import History, Run, Sample
from devkit.bench.session import estimate, run_cells, started_now
from devkit.bench.spec import Cell, Spec, check_dimensions, spec_for

__all__ = [
    "Cell",
    "Comparison",
    "History",
    "Metric",
    "Reader",
    "Reading",
    "Run",
    "Sample",
    "Spec",
    "check_dimensions",
    "compare_runs",
    "estimate",
    "regex_reader",
    "run_cells",
    "spec_for",
    "started_now",
]
