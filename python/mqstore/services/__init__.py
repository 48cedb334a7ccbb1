"""The threads of a store: each decides when, and one engine call without the GIL does the pass."""

from mqstore.services.allocate import AllocateMappedFileService, ReserveBlocksService
from mqstore.services.clean import CleanFilesService
from mqstore.services.commit import CommitRealTimeService
from mqstore.services.flush import (
    FlushConsumeQueueService,
    FlushRealTimeService,
    GroupCommitService,
)
from mqstore.services.ha import HAClient, HAService
from mqstore.services.persist import PersistConsumerOffsetService
from mqstore.services.reput import ReputMessageService
from mqstore.services.schedule import ScheduleMessageService
from mqstore.services.service import ServiceThread
from mqstore.services.stats import StoreStatsService
from mqstore.services.timed import TimedMessageService
from mqstore.services.transaction_check import TransactionalMessageCheckService

__all__ = [
    "AllocateMappedFileService",
    "CleanFilesService",
    "CommitRealTimeService",
    "FlushConsumeQueueService",
    "FlushRealTimeService",
    "GroupCommitService",
    "HAClient",
    "HAService",
    "PersistConsumerOffsetService",
    "ReputMessageService",
    "ReserveBlocksService",
    "ScheduleMessageService",
    "ServiceThread",
    "StoreStatsService",
    "TimedMessageService",
    "TransactionalMessageCheckService",
]
