"""What the kinds of findings are to a person."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from mqstore.verify.findings import BROKEN_OFF

__all__ = ["LOOK", "MEANINGS", "REBUILD", "Meaning", "meaning_beside"]


class Meaning(NamedTuple):
    """What a kind of finding is to a person."""

    title: str
    means: str
    to_do: str


_REPAIR = "mqstore repair"
REBUILD = "Rebuild queues and index from the log: mqstore repair."
_REBUILD_AND_SEE = "Rebuild queues and index from the log: mqstore repair. It tells which messages are lost."
_OR_OPTIONS = (
    "Or the broker has a messageDelayLevel of its own, enableMultiDispatch or enableLmq, and neither -c nor -o says "
    "so: check again with these before anything is repaired."
)
LOOK = "Look at the other findings at this place; the log itself is not changed by a rebuild."

MEANINGS: Mapping[str, Meaning] = {
    BROKEN_OFF: Meaning(
        "A repair in place that was broken off",
        "Or one that is at work now. Queues and index are set aside, and with them what tells of lost messages.",
        "Go on with it before anything else opens the store for writing: mqstore repair --in-place.",
    ),
    "bad_record": Meaning(
        "Parts of the log that are no record",
        "Messages that stood there cannot be read. The log goes on behind them.",
        "Restore these bytes from a replica; mqstore repair lets a broker read on behind them.",
    ),
    "bad_body": Meaning(
        "Bodies that are not what was stored",
        "A body's checksum does not agree: its bytes changed on the disk.",
        "Restore the messages from a replica.",
    ),
    "record_changed": Meaning(
        "Records that are not what was stored",
        "The checksum of the whole record does not agree: some byte of it changed on the disk.",
        "Restore the messages from a replica.",
    ),
    "record_odd": Meaning(
        "Records with a field that cannot be as it was stored",
        "The message is there; its flags, hosts, times or numbers changed on the disk, or a client sent nonsense.",
        "Compare with a replica: mqstore spark diff.",
    ),
    "offset_gap": Meaning(
        "Queue offsets that no record has",
        "Messages of the queue are missing from the log.",
        "Expected where records are bad, or a repair has told them lost; otherwise compare with a replica: "
        "mqstore spark diff.",
    ),
    "offset_repeated": Meaning(
        "Queue offsets that were there before",
        "Records claim places of a queue that others had, and of two one is not served. Those in a row are told once.",
        "Expected after a broker began a queue anew; otherwise look at both records.",
    ),
    "time_backwards": Meaning(
        "Store times out of the order around them",
        "One message's store time changed on the disk, or the clock was set back right before the last message.",
        "Compare with a replica: mqstore spark diff.",
    ),
    "clock_set_back": Meaning(
        "Remark: places where the broker's clock was set back",
        "Times go on in order from an earlier one. Look-ups by time can miss messages near there.",
        "Nothing to repair.",
    ),
    "begin_gone": Meaning(
        "Remark: the log began earlier when it was closed",
        "Its oldest files are gone since, and no mqstore store was open that could have expired them.",
        "Nothing to repair. Restore the files if nobody has removed them on purpose.",
    ),
    "end_lost": Meaning(
        "The log ends before what was on the disk",
        "Its last files are missing, or on a disk that is not mounted, or what stands there is damaged. Who writes on "
        "gives the same offsets to other messages: mqstore refuses, the Java store does it.",
        "Let no broker write to it. See that the log's disk is there, and restore what is missing. Of what is left "
        "mqstore repair makes a store, and tells which messages are lost.",
    ),
    "unit_missing": Meaning(
        "Messages without their place in a queue",
        f"They are in the log, but consumers never get them. {_OR_OPTIONS}",
        REBUILD,
    ),
    "unit_wrong": Meaning(
        "Places in a queue that lead to no message or another one",
        "Consumers get nothing or a wrong message there. The message may be lost, or lack its place alone. "
        f"{_OR_OPTIONS}",
        _REBUILD_AND_SEE,
    ),
    "unit_dangling": Meaning(
        "Places in a queue behind the log's end",
        "The log lost its end and the messages there, or the queues are of another store.",
        _REBUILD_AND_SEE,
    ),
    "unit_order": Meaning(
        "Places in a queue out of the log's order",
        "Consumers get messages in another order than they were put in.",
        REBUILD,
    ),
    "unit_repeated": Meaning("Places in a queue that are there twice", "Consumers get a message twice.", REBUILD),
    "unit_stray": Meaning(
        "Places behind a queue's end", "A queue has a hole: what is behind it is never read.", REBUILD
    ),
    "ext_wrong": Meaning("Extensions that do not agree", "Filtering by tag goes wrong for these messages.", REBUILD),
    "key_missing": Meaning("Messages whose keys are not in the index", "They are not found by their keys.", REBUILD),
    "entry_wrong": Meaning(
        "Index entries whose message does not have their key",
        "Looking up the key costs time and finds nothing there.",
        REBUILD,
    ),
    "index_header": Meaning("Index files whose header is wrong", "Look-ups by time may pass over the file.", REBUILD),
    "index_chain": Meaning("Index files whose chains are broken", "Keys in them are not found.", REBUILD),
    "config_damaged": Meaning(
        "Files of the configuration that cannot be read",
        "Nor can the .bak beside them. Without topics.json nobody can open the store for writing, without another one "
        "groups or delayed messages do not go on.",
        "Restore them. mqstore repair makes topics anew from the log, and leaves the others as they are: once such a "
        "file and its .bak are moved away all that they tell begins anew.",
    ),
    "stray": Meaning(
        "Files that are not as they should be",
        "A file is missing, has another size, or does not belong there. The Java store may refuse to start.",
        "Move it out of the store, or restore it. Of a log file cut short mqstore repair --out keeps what is left.",
    ),
}


def meaning_beside(kind: str, kinds: Collection[str]) -> Meaning:
    """What a kind of finding is in a store that has findings of some kinds.

    Where a repair was broken off that is to be ended, and what else there is to repair is seen behind that.
    """
    meaning = MEANINGS.get(kind, Meaning(kind, "", LOOK))
    if kind != BROKEN_OFF and BROKEN_OFF in kinds and _REPAIR in meaning.to_do:
        return meaning._replace(to_do="Check it again once the repair is done.")
    return meaning
