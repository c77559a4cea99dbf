"""The audit: does a model, or the server in front of it, look things up worse at some positions than at others?"""

from weakspots.audit.questions import Question, context_of, planned
from weakspots.audit.report import Report
from weakspots.audit.run import audit

__all__ = ["Question", "Report", "audit", "context_of", "planned"]
