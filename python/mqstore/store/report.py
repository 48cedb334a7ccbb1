"""What opening and reading a store found that its user should know."""

from dataclasses import dataclass, field

__all__ = ["Gap", "Rejected", "StoreReport", "Stray", "Unindexed"]


@dataclass(frozen=True)
class Stray:
    """A file or folder that is not as it should be."""

    path: str
    expected: str
    """What a store has there."""
    found: str
    """What is there."""


@dataclass(frozen=True)
class Gap:
    """A part of the log that gave no message: it holds no record that checks out, or a body that does not inflate."""

    begin_offset: int
    end_offset: int
    """Where records go on."""
    reason: str | None
    """What is wrong at its begin; ``None`` where a file is missing."""


@dataclass(frozen=True)
class Rejected:
    """A queue's unit that was not served: its record is none, or another message's.

    Or a message that is not at its offset in its queue, which had another one there already.
    """

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    reason: str
    """What is wrong with the record, or with the message."""


@dataclass(frozen=True)
class Unindexed:
    """A part of the log whose messages no index file has: they are not found by their keys."""

    begin_offset: int
    end_offset: int
    """Where index files go on."""


@dataclass(frozen=True)
class StoreReport:
    """The state of a store, as far as it has been looked at."""

    closed_cleanly: bool
    """Whether the last writer had closed it."""
    writer: str | None
    """Who has it open for writing, for a store that is only read."""
    min_phy_offset: int
    max_phy_offset: int
    strays: list[Stray] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    unindexed: list[Unindexed] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    """The first ones; ``rejected_count`` counts all."""
    rejected_count: int = 0
    halted: str | None = None
    """Why it takes no messages until it is reopened: a service died, a flush failed, or queues could not be written."""
    derived_failure: str | None = None
    """Why queues and index count as they were on the disk before, until it is reopened: a flush of theirs failed."""
    failing: list[str] = field(default_factory=list)
    """The services that try again and again what fails, each with why it failed last."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong, as far as was looked at."""
        found = (self.strays, self.gaps, self.unindexed, self.rejected_count)
        return not any((*found, self.halted, self.derived_failure, self.failing))

    def __str__(self) -> str:
        """As sentences, one a line."""
        lines = []
        if self.writer is not None:
            lines.append(f"open for writing by {self.writer}")
        elif not self.closed_cleanly:
            lines.append("not closed by its last writer")
        if self.halted is not None:
            lines.append(f"takes no messages until it is reopened: {self.halted}")
        if self.derived_failure is not None:
            lines.append(f"its next opening finishes queues and index again: {self.derived_failure}")
        lines += [f"tried again: {failing}" for failing in self.failing]
        lines += [f"{stray.path}: expected {stray.expected}, found {stray.found}" for stray in self.strays]
        for gap in self.gaps:
            reason = gap.reason or "a file is missing"
            lines.append(f"the log has no records from {gap.begin_offset} to {gap.end_offset}: {reason}")
        for part in self.unindexed:
            lines.append(
                f"no index file has the messages from {part.begin_offset} to {part.end_offset} of the log: "
                "they are not found by their keys"
            )
        lines += [
            f"{unit.topic}-{unit.queue_id} at {unit.queue_offset}, log offset {unit.commit_log_offset}: {unit.reason}"
            for unit in self.rejected
        ]
        more = self.rejected_count - len(self.rejected)
        if more > 0:
            lines.append(f"and {more} more units whose records do not agree with them")
        return "\n".join(lines) if lines else "nothing wrong, as far as was looked at"
