"""Pipelines: source, decode, steps, sinks, as one file describes them.

`file` reads it, `rules` check it, `check` and `plan` look ahead, `run` runs it, `operate` looks after it. The names
below are what the command line uses and what a caller in Python needs; nothing outside imports from further inside.
They are loaded when they are first used: importing this package loads nothing.

    from pytubemq import pipelines

    pipeline = pipelines.open_pipeline("orders.yaml")
    result = pipelines.run_pipeline(pipeline, once=True)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytubemq.pipelines.analysis.missing import MissingError
    from pytubemq.pipelines.check.cases import CaseResult, run_tests
    from pytubemq.pipelines.check.columns import step_columns
    from pytubemq.pipelines.check.compare import Mismatch
    from pytubemq.pipelines.check.compiling import place_step_error
    from pytubemq.pipelines.check.dry_run import Check, dry_run
    from pytubemq.pipelines.events import (
        BatchDone,
        Event,
        Failed,
        Finished,
        RunResult,
        RunStatus,
        Started,
        Starting,
        Totals,
        event_as_json,
    )
    from pytubemq.pipelines.file.faults import (
        FAULT_MEANINGS,
        Fault,
        FaultCode,
        PipelineFileError,
        Severity,
        severity_of,
    )
    from pytubemq.pipelines.file.model import (
        Audit,
        Case,
        DeadLetter,
        Decode,
        Guarantee,
        Limit,
        OnError,
        OnSchemaChange,
        Pipeline,
        Sink,
        Source,
        SparkSettings,
        Step,
        Table,
        Trigger,
        TriggerKind,
        Watermark,
    )
    from pytubemq.pipelines.file.reading.loader import Loaded, load
    from pytubemq.pipelines.file.secrets import redact
    from pytubemq.pipelines.file.sink_table import SINKS
    from pytubemq.pipelines.file.source_positions import Places
    from pytubemq.pipelines.file.writing.json_schema import json_schema
    from pytubemq.pipelines.file.writing.template import TEMPLATE_FORMATS, template
    from pytubemq.pipelines.opening import let_steps_import, open_pipeline, open_state
    from pytubemq.pipelines.operate.backfill import Backfill, backfill_effects, backfill_of, backfill_ranges
    from pytubemq.pipelines.operate.backfills import read_backfills
    from pytubemq.pipelines.operate.dead_letter_store import dead_letters_of
    from pytubemq.pipelines.operate.dead_letters import (
        Choice,
        DeadLetters,
        Dropped,
        Taken,
        check_reason,
        dead_letter_rows,
        drop_dead_letters,
    )
    from pytubemq.pipelines.operate.redrive import Redrive, Redriven, stage_redrive, unfinished_redrive
    from pytubemq.pipelines.operate.reset import Progress, forget_progress, read_progress
    from pytubemq.pipelines.operate.spark_pipelines import spark_pipelines_files
    from pytubemq.pipelines.operate.status import RunState, Status, read_status
    from pytubemq.pipelines.operate.stop import ask_to_stop, wait_for_end
    from pytubemq.pipelines.operate.tap import check_stage, tap, tap_needs_spark
    from pytubemq.pipelines.plan.plan_run import plan_run
    from pytubemq.pipelines.plan.plan_text import plan_lines
    from pytubemq.pipelines.plan.planned import Change, Plan, PlannedSink, PlannedSource, PlannedStep
    from pytubemq.pipelines.report.page import write_report
    from pytubemq.pipelines.report.record import RunRecord, complete_record, new_record, put_promises, read_record
    from pytubemq.pipelines.rules.lint import lint, load_checked, read
    from pytubemq.pipelines.run.engine import run_pipeline
    from pytubemq.pipelines.spark_faults import PipelineError, StepError
    from pytubemq.pipelines.state.files import StateFiles

__all__ = [
    "FAULT_MEANINGS",
    "SINKS",
    "TEMPLATE_FORMATS",
    "Audit",
    "Backfill",
    "BatchDone",
    "Case",
    "CaseResult",
    "Change",
    "Check",
    "Choice",
    "DeadLetter",
    "DeadLetters",
    "Decode",
    "Dropped",
    "Event",
    "Failed",
    "Fault",
    "FaultCode",
    "Finished",
    "Guarantee",
    "Limit",
    "Loaded",
    "Mismatch",
    "MissingError",
    "OnError",
    "OnSchemaChange",
    "Pipeline",
    "PipelineError",
    "PipelineFileError",
    "Places",
    "Plan",
    "PlannedSink",
    "PlannedSource",
    "PlannedStep",
    "Progress",
    "Redrive",
    "Redriven",
    "RunRecord",
    "RunResult",
    "RunState",
    "RunStatus",
    "Severity",
    "Sink",
    "Source",
    "SparkSettings",
    "Started",
    "Starting",
    "StateFiles",
    "Status",
    "Step",
    "StepError",
    "Table",
    "Taken",
    "Totals",
    "Trigger",
    "TriggerKind",
    "Watermark",
    "ask_to_stop",
    "backfill_effects",
    "backfill_of",
    "backfill_ranges",
    "check_reason",
    "check_stage",
    "complete_record",
    "dead_letter_rows",
    "dead_letters_of",
    "drop_dead_letters",
    "dry_run",
    "event_as_json",
    "forget_progress",
    "json_schema",
    "let_steps_import",
    "lint",
    "load",
    "load_checked",
    "new_record",
    "open_pipeline",
    "open_state",
    "place_step_error",
    "plan_lines",
    "plan_run",
    "put_promises",
    "read",
    "read_backfills",
    "read_progress",
    "read_record",
    "read_status",
    "redact",
    "run_pipeline",
    "run_tests",
    "severity_of",
    "spark_pipelines_files",
    "stage_redrive",
    "step_columns",
    "tap",
    "tap_needs_spark",
    "template",
    "unfinished_redrive",
    "wait_for_end",
    "write_report",
]

_HOMES = {
    "pytubemq.pipelines.analysis.missing": ("MissingError",),
    "pytubemq.pipelines.check.cases": (
        "CaseResult",
        "run_tests",
    ),
    "pytubemq.pipelines.check.columns": ("step_columns",),
    "pytubemq.pipelines.check.compare": ("Mismatch",),
    "pytubemq.pipelines.check.compiling": ("place_step_error",),
    "pytubemq.pipelines.check.dry_run": (
        "Check",
        "dry_run",
    ),
    "pytubemq.pipelines.events": (
        "BatchDone",
        "Event",
        "Failed",
        "Finished",
        "RunResult",
        "RunStatus",
        "Started",
        "Starting",
        "Totals",
        "event_as_json",
    ),
    "pytubemq.pipelines.file.faults": (
        "FAULT_MEANINGS",
        "Fault",
        "FaultCode",
        "PipelineFileError",
        "Severity",
        "severity_of",
    ),
    "pytubemq.pipelines.file.model": (
        "Audit",
        "Case",
        "DeadLetter",
        "Decode",
        "Guarantee",
        "Limit",
        "OnError",
        "OnSchemaChange",
        "Pipeline",
        "Sink",
        "Source",
        "SparkSettings",
        "Step",
        "Table",
        "Trigger",
        "TriggerKind",
        "Watermark",
    ),
    "pytubemq.pipelines.file.source_positions": ("Places",),
    "pytubemq.pipelines.file.reading.loader": (
        "Loaded",
        "load",
    ),
    "pytubemq.pipelines.file.secrets": ("redact",),
    "pytubemq.pipelines.file.sink_table": ("SINKS",),
    "pytubemq.pipelines.file.writing.json_schema": ("json_schema",),
    "pytubemq.pipelines.file.writing.template": (
        "TEMPLATE_FORMATS",
        "template",
    ),
    "pytubemq.pipelines.opening": (
        "let_steps_import",
        "open_pipeline",
        "open_state",
    ),
    "pytubemq.pipelines.operate.backfill": (
        "Backfill",
        "backfill_effects",
        "backfill_of",
        "backfill_ranges",
    ),
    "pytubemq.pipelines.operate.backfills": ("read_backfills",),
    "pytubemq.pipelines.operate.dead_letter_store": ("dead_letters_of",),
    "pytubemq.pipelines.operate.dead_letters": (
        "Choice",
        "DeadLetters",
        "Dropped",
        "Taken",
        "check_reason",
        "dead_letter_rows",
        "drop_dead_letters",
    ),
    "pytubemq.pipelines.operate.redrive": (
        "Redrive",
        "Redriven",
        "stage_redrive",
        "unfinished_redrive",
    ),
    "pytubemq.pipelines.operate.reset": (
        "Progress",
        "forget_progress",
        "read_progress",
    ),
    "pytubemq.pipelines.operate.spark_pipelines": ("spark_pipelines_files",),
    "pytubemq.pipelines.operate.status": (
        "RunState",
        "Status",
        "read_status",
    ),
    "pytubemq.pipelines.operate.stop": (
        "ask_to_stop",
        "wait_for_end",
    ),
    "pytubemq.pipelines.operate.tap": (
        "check_stage",
        "tap",
        "tap_needs_spark",
    ),
    "pytubemq.pipelines.plan.plan_run": ("plan_run",),
    "pytubemq.pipelines.plan.planned": (
        "Change",
        "Plan",
        "PlannedSink",
        "PlannedSource",
        "PlannedStep",
    ),
    "pytubemq.pipelines.plan.plan_text": ("plan_lines",),
    "pytubemq.pipelines.report.page": ("write_report",),
    "pytubemq.pipelines.report.record": (
        "RunRecord",
        "complete_record",
        "new_record",
        "put_promises",
        "read_record",
    ),
    "pytubemq.pipelines.rules.lint": (
        "lint",
        "load_checked",
        "read",
    ),
    "pytubemq.pipelines.run.engine": ("run_pipeline",),
    "pytubemq.pipelines.spark_faults": (
        "PipelineError",
        "StepError",
    ),
    "pytubemq.pipelines.state.files": ("StateFiles",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
