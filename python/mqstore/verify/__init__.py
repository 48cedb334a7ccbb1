"""Checking a store, and making one whole again."""

from mqstore.verify.findings import Finding, StoreAudit
from mqstore.verify.repair import LostMessage, RepairResult, repair
from mqstore.verify.verify import verify

__all__ = ["Finding", "LostMessage", "RepairResult", "StoreAudit", "repair", "verify"]
