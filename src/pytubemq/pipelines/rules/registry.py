"""The table of all rules, and the two ways to ask them: for every fault, or until the first error.

The invariant: whoever looks at a pipeline asks this table; so what `lint` says of a file `run` says of it, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.faults import FaultCode, PipelineFileError, Severity
from pytubemq.pipelines.rules.dead_letters import effective_limits, named_place, no_object_store, rejectable_records
from pytubemq.pipelines.rules.environment import (
    named_state,
    no_plain_secrets,
    present_references,
    safe_spark_settings,
    usable_users,
)
from pytubemq.pipelines.rules.rule import Need
from pytubemq.pipelines.rules.sinks import (
    known_columns,
    known_inputs,
    named_masters,
    no_log_apart,
    no_topic_loop,
    own_log,
    own_place,
    possible_guarantee,
    same_query,
    sink_keys,
    sink_values,
    topic_or_column,
)
from pytubemq.pipelines.rules.source import (
    audit_time,
    batch_limits,
    decode_options,
    decode_schema,
    known_topics,
    master_addresses,
    own_progress,
    reachable_masters,
    source_keys,
    source_options,
    topic_names,
)
from pytubemq.pipelines.rules.steps import (
    known_names,
    no_state_apart,
    no_unused,
    repeatable_rows,
    sql_or_python,
    test_names,
    unique_names,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytubemq.pipelines.file.faults import Fault
    from pytubemq.pipelines.rules.rule import Context, Rule

RULES: Final[tuple[Rule, ...]] = (
    # the file
    source_keys.check,
    topic_names.check,
    batch_limits.check,
    master_addresses.check,
    source_options.check,
    decode_options.check,
    decode_schema.check,
    unique_names.check,
    sql_or_python.check,
    known_names.check,
    no_unused.check,
    known_inputs.check,
    sink_keys.check,
    sink_values.check,
    own_place.check,
    named_place.check,
    rejectable_records.check,
    effective_limits.check,
    no_object_store.check,
    test_names.check,
    safe_spark_settings.check,
    named_state.check,
    no_plain_secrets.check,
    present_references.check,
    usable_users.check,
    no_log_apart.check,
    # the file first, and more of it with more in sight
    no_topic_loop.check,
    repeatable_rows.check,
    no_state_apart.check,
    # the state directory and the cluster
    own_progress.check,
    same_query.check,
    named_masters.check,
    reachable_masters.check,
    known_topics.check,
    possible_guarantee.check,
    # what Spark made of the steps
    audit_time.check,
    known_columns.check,
    topic_or_column.check,
    own_log.check,
)
"""In the order in which they are asked: what needs less comes first."""
BEFORE_SPARK: Final = Need.FILE | Need.VALUES | Need.PROGRESS | Need.CLUSTER
"""The needs that a run can see before it starts Spark."""
EVERYTHING: Final = BEFORE_SPARK | Need.SESSION


def faults_of(context: Context, *, already: Need = Need.NOTHING) -> Iterator[Fault]:
    """Ask every rule that sees anything new.

    Args:
        context: the pipeline, and what can be seen.
        already: what was seen when the rules were asked before.
    """
    for found in _by_rule(context, already):
        yield from found


def refuse(
    context: Context, *, already: Need = Need.NOTHING, warn: Callable[[Fault], None] = lambda fault: None
) -> None:
    """Ask the rules until one finds an error; warnings refuse nothing.

    Args:
        context: the pipeline, and what can be seen.
        already: what was seen when the rules were asked before.
        warn: called with each warning.

    Raises:
        PipelineFileError: a rule found errors; all of that rule are in it.
        TubeError: what the cluster said instead, where that says it better.
    """
    for found in _by_rule(context, already):
        errors = tuple(fault for fault in found if fault.severity is Severity.ERROR)
        if errors:
            raise error_of(*errors)
        for fault in found:
            warn(fault)


def error_of(first: Fault, *others: Fault) -> Exception:
    """Return the exception to raise for errors of one rule."""
    return first.cause or PipelineFileError((first, *others))


def _by_rule(context: Context, already: Need) -> Iterator[list[Fault]]:
    """Yield the faults of each rule. A cluster that is away is waited for once: rules that need it do not run then."""
    for rule in RULES:
        if rule.has_news(context, already):
            found = list(rule(context))
            if any(fault.code is FaultCode.CLUSTER_AWAY for fault in found):
                context = replace(context, sees=context.sees & ~Need.CLUSTER)
            yield found
