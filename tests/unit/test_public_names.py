"""The names on which users rely: what `pytubemq` and its public packages offer.

A name that is missing here is promised to nobody; one that is added or taken away is a change that users see.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq import pipelines, sync

if TYPE_CHECKING:
    from types import ModuleType

CLIENT = """
    Address BalanceConsumer Batch Bound BrokerInfo ConfirmFailed Connected Consumer ConsumerStats Credentials Event
    HandlerFailed
    Lost Message Partition PartitionOffset PositionMoved Producer ProducerStats PushConsumer PushStats ReadBatch Reader
    Rebalanced Receipt Receipts Skipped SlowConsumer Start Throttled TlsOptions Tube __version__ connect errors sync
"""
SYNC = "BalanceConsumer Batch Consumer Producer PushConsumer Reader Start Tube connect"
PIPELINES = """
    FAULT_MEANINGS SINKS TEMPLATE_FORMATS
    Audit Case DeadLetter Decode Guarantee Limit OnError OnSchemaChange Pipeline Sink Source SparkSettings Step Table
    Trigger TriggerKind Watermark
    Fault FaultCode Loaded MissingError PipelineError PipelineFileError Places Severity StepError
    CaseResult Change Check Mismatch Plan PlannedSink PlannedSource PlannedStep
    BatchDone Event Failed Finished RunRecord RunResult RunStatus Started Starting Totals
    Backfill Choice DeadLetters Dropped Progress Redrive Redriven RunState StateFiles Status Taken
    json_schema lint load load_checked open_pipeline open_state read redact severity_of spark_pipelines_files template
    let_steps_import place_step_error
    dry_run plan_lines plan_run run_tests step_columns
    complete_record event_as_json new_record put_promises read_record run_pipeline write_report
    ask_to_stop backfill_effects backfill_of backfill_ranges check_reason check_stage dead_letter_rows dead_letters_of
    drop_dead_letters forget_progress read_backfills read_progress read_status stage_redrive tap tap_needs_spark
    unfinished_redrive wait_for_end
"""
DEFINED = {
    "pytubemq.errors": """
        AlreadyExistsError BadRequestError BufferFullError ClosedError Code ConfigError ConnectionLostError CorruptError
        DatabaseReadOnlyError DatabaseTimeoutError DatabaseUnreachableError DirectoryLockedError DiskFailedError
        DiskFullError EnvelopeError ExitCode FencedError ForkedError FormatError FrameError
        GroupMismatchError MessageError MissingExtraError NewerVersionError NotAllowedError NotFoundError
        NotRegisteredError OccupiedError OffsetMovedError OlderVersionError OutOfResourcesError PartialSendError
        RefusedError RemoteError RequestTimeoutError ServerOverflowError StaleBatchError StandbyError StorageError
        SubmitError ThrottledError TlsError TransportError TubeError UnavailableError UnreachableError UntoldError
        WireError one_line refused
    """,
    "pytubemq.spark.functions": "decode_dataframe register",
    "pytubemq.spark.listener": "LagListener observe_times",
    "pytubemq.spark.sink": "in_fixed_order",
    "pytubemq.testing.cluster": "tube_cluster",
    "pytubemq.testing.disk": "FaultyDisk FaultyFile FaultyLock Operation",
    "pytubemq.testing.mock_broker": "MockBroker",
}
"""Classes and functions of modules that have no list of their names, or are not loaded here since they need pyspark."""


@pytest.mark.parametrize(
    ("module", "names"),
    [(pytubemq, CLIENT), (sync, SYNC), (pipelines, PIPELINES)],
    ids=["pytubemq", "pytubemq.sync", "pytubemq.pipelines"],
)
def test_the_public_names_are_pinned(module: ModuleType, names: str) -> None:
    assert sorted(module.__all__) == sorted(names.split())
    for name in names.split():
        assert getattr(module, name) is not None
    if module is not sync:  # the others load a name when it is first used
        assert set(dir(module)) == set(names.split())
        assert not hasattr(module, "nothing_of_this_name")


@pytest.mark.parametrize("module", DEFINED)
def test_the_public_classes_and_functions_are_pinned(module: str) -> None:
    assert {name for name in defined_in(module) if not name.startswith("_")} == set(DEFINED[module].split())


def defined_in(module: str) -> set[str]:
    """Return the classes and functions that a module defines, and those that it offers from inside its package."""
    found = find_spec(module)
    assert found is not None
    body = ast.parse(Path(str(found.origin)).read_text("utf-8")).body
    names = {part.name for part in body if isinstance(part, ast.ClassDef | ast.FunctionDef)}
    for part in body:
        if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "__all__":
            names.update(ast.literal_eval(part.value))
    return names


def test_the_names_of_pipelines_are_typed_as_they_are_loaded() -> None:
    tree = ast.parse(Path(str(pipelines.__file__)).read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    typed = {name.name: str(node.module) for node in imports for name in node.names}
    assert {name: home for name, home in typed.items() if home.startswith("pytubemq.")} == pipelines._HOME_OF


@pytest.mark.process
def test_pipelines_are_imported_and_a_file_is_opened_without_spark_and_arrow(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("name: p\nsource: {topic: t, master: '127.0.0.1:1'}\nsinks: [{name: out, format: console}]\n")
    code = (
        "import sys; from pytubemq import pipelines\n"
        "print([name for name in sys.modules if name.startswith('pytubemq.pipelines.')])\n"
        f"pipelines.plan_run(pipelines.open_pipeline({str(file)!r}), offline=True)\n"
        "print([name for name in ('click', 'rich', 'pyarrow', 'pyspark') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "[]"]
