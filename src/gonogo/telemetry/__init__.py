"""What operators see: logs, metrics and traces, as subscribers of events.

Nothing here decides anything, and nothing here is needed for a plan to run. What people and models
say stays out of logs and labels unless the operator asks for it; secrets always do.
"""

from gonogo.telemetry.logs import setup_logging
from gonogo.telemetry.metrics import CONTENT_TYPE, Metrics
from gonogo.telemetry.tracing import Tracing

__all__ = ["CONTENT_TYPE", "Metrics", "Tracing", "setup_logging"]
