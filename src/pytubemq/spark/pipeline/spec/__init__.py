"""What a pipeline file says: read, checked, and made into frozen values. Needs neither Spark nor a cluster."""

from __future__ import annotations

from pytubemq.spark.pipeline.spec.faults import Fault, FaultCode, PipelineFileError, Severity
from pytubemq.spark.pipeline.spec.lint import lint, load_checked, read
from pytubemq.spark.pipeline.spec.loader import Loaded, load

__all__ = ["Fault", "FaultCode", "Loaded", "PipelineFileError", "Severity", "lint", "load", "load_checked", "read"]
