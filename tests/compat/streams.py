"""Streams of messages, and options for the stores that take them."""

from collections.abc import Set as AbstractSet
from typing import Any

__all__ = ["FEATURES", "SMALL_FILES", "options_for"]

FEATURES = ("batch", "delay", "transaction", "v6", "lmq", "big")
"""What a stream can have beside plain messages."""
SMALL_FILES: dict[str, Any] = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "1000",
    "maxHashSlotNum": "97",
    "maxIndexNum": "400",
}
"""So small that a few hundred messages roll all of them."""
_OF_FEATURE = {
    # Hours, so that nothing comes due meanwhile.
    "delay": {"messageDelayLevel": " ".join(f"{hours}h" for hours in range(10, 28))},
    "lmq": {"enableLmq": "true", "enableMultiDispatch": "true"},
}


def options_for(features: AbstractSet[str]) -> dict[str, Any]:
    """The options of a store that takes a stream with some features."""
    options: dict[str, Any] = dict(SMALL_FILES)
    for feature in features:
        options |= _OF_FEATURE.get(feature, {})
    return options
