//! Whether a store's files agree with each other: log, queues and index, each against the log.
//!
//! Nothing is recovered or dispatched first: files are looked at as they lie there. Each check is one
//! call over a part of the store, so that many run at a time; what spans two parts is told by both and
//! put together by who asked.

pub mod index;
pub mod log;
pub mod queue;
mod store_times;

use std::collections::BTreeMap;

use crate::num;

pub use index::{IndexChecked, check_index_file};
pub use log::{LogChecked, QueueSpan, Totals, check_log};
pub use queue::{QueueChecked, check_queue};

/// Findings of a kind that are told one by one in one call; all are counted.
pub const MOST_FINDINGS: u64 = 100;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// Bytes of the log that are no record.
    BadRecord,
    /// A record's body is not the one that was stored.
    BadBody,
    /// A record is not the one that was stored, by the checksum of all of it.
    RecordChanged,
    /// A record with a field that cannot be as it was stored.
    RecordOdd,
    /// A record's queue offset jumps ahead: messages of the queue are not in the log.
    OffsetGap,
    /// A record's queue offset was there before.
    OffsetRepeated,
    /// A record whose store time alone is out of the order of those around it.
    TimeBackwards,
    /// Records go on in order from an earlier store time than those before them: the clock was set back. It is nothing wrong.
    ClockSetBack,
    /// A record without its unit in its queue.
    UnitMissing,
    /// A unit whose record is none, or another one.
    UnitWrong,
    /// A unit that points behind the log's end.
    UnitDangling,
    /// A unit whose record stands before the one of the unit before it.
    UnitOrder,
    /// Two units of one record next to each other.
    UnitRepeated,
    /// A unit behind the end of its queue.
    UnitStray,
    /// A unit whose part in the extension is missing or another one's.
    ExtWrong,
    /// A record without an index entry for each of its keys.
    KeyMissing,
    /// An index entry whose message does not have its key.
    EntryWrong,
    /// An index file's header that does not say what its entries do.
    IndexHeader,
    /// An index file's chains that do not lead to all of its entries.
    IndexChain,
}

impl FindingKind {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::BadRecord,
        Self::BadBody,
        Self::RecordChanged,
        Self::RecordOdd,
        Self::OffsetGap,
        Self::OffsetRepeated,
        Self::TimeBackwards,
        Self::ClockSetBack,
        Self::UnitMissing,
        Self::UnitWrong,
        Self::UnitDangling,
        Self::UnitOrder,
        Self::UnitRepeated,
        Self::UnitStray,
        Self::ExtWrong,
        Self::KeyMissing,
        Self::EntryWrong,
        Self::IndexHeader,
        Self::IndexChain,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BadRecord => "bad_record",
            Self::BadBody => "bad_body",
            Self::RecordChanged => "record_changed",
            Self::RecordOdd => "record_odd",
            Self::OffsetGap => "offset_gap",
            Self::OffsetRepeated => "offset_repeated",
            Self::TimeBackwards => "time_backwards",
            Self::ClockSetBack => "clock_set_back",
            Self::UnitMissing => "unit_missing",
            Self::UnitWrong => "unit_wrong",
            Self::UnitDangling => "unit_dangling",
            Self::UnitOrder => "unit_order",
            Self::UnitRepeated => "unit_repeated",
            Self::UnitStray => "unit_stray",
            Self::ExtWrong => "ext_wrong",
            Self::KeyMissing => "key_missing",
            Self::EntryWrong => "entry_wrong",
            Self::IndexHeader => "index_header",
            Self::IndexChain => "index_chain",
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// The file, or the folder of a queue.
    pub path: String,
    /// The queue's topic.
    pub topic: Option<String>,
    /// The queue.
    pub queue_id: Option<i32>,
    /// The place in the queue.
    pub queue_offset: Option<u64>,
    /// The place in the log.
    pub phy_offset: Option<u64>,
    /// What was expected and what was found.
    pub detail: String,
}

/// What a check found: how many of each kind, and the first ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// How many.
    pub counts: BTreeMap<FindingKind, u64>,
    /// The first of each kind.
    pub first: Vec<Finding>,
}

impl Findings {
    /// Adds one; it is made only where it is told.
    fn add(&mut self, kind: FindingKind, make: impl FnOnce() -> Finding) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count <= MOST_FINDINGS {
            self.first.push(make());
        }
    }
}

/// A number of the store as an offset; negative becomes `None`.
const fn place(value: i64) -> Option<u64> {
    num::from_java_long(value)
}
