//! The gets and look-ups of `mqstore._native.Store`.

use mqstore_core::consume_queue::{Boundary, ConsumeQueue};
use mqstore_core::index::KeyQuery;
use mqstore_core::num;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyMemoryView;

use crate::arguments::{TimeMs, checked};
use crate::errors::detached;
use crate::filter::GivenSubscription;
use crate::given;
use crate::message::{Message, view};
use crate::results::{GetMessageResult, QueryMessagesResult};
use crate::signals::interruptible;
use crate::store::Store;

/// Most messages of a get that takes no time to speak of.
const SHORT_GET_MSG_NUMS: usize = 1024;

pub fn boundary_of(boundary: &str) -> PyResult<Boundary> {
    match boundary {
        "nearest" => Ok(Boundary::Nearest),
        "lower" => Ok(Boundary::Lower),
        "upper" => Ok(Boundary::Upper),
        _ => Err(PyValueError::new_err(format!(
            "boundary={boundary:?}: expected \"nearest\", \"lower\" or \"upper\""
        ))),
    }
}

/// Numbers, each told by its name and bounds where it is none, or has no room.
macro_rules! integers {
    ($($argument:ident: $kind:ty, $name:literal, $bounds:expr;)*) => {$(
        fn $argument(given: &Bound<'_, PyAny>) -> PyResult<$kind> {
            checked($name, given, $bounds)
        }
    )*};
}

integers! {
    max_msg_nums: usize, "max_msg_nums", 0..=i64::MAX;
    max_num: usize, "max_num", 0..=i64::MAX;
    queue_id: i32, "queue_id", i32::MIN.into()..=i32::MAX.into();
    offset: i64, "offset", i64::MIN..=i64::MAX;
    place: u64, "offset", 0..=i64::MAX;
    commit_log_offset: i64, "commit_log_offset", i64::MIN..=i64::MAX;
}

/// A queue's number, or none.
fn queue_id_if_given(given: &Bound<'_, PyAny>) -> PyResult<Option<i32>> {
    if given.is_none() { Ok(None) } else { queue_id(given).map(Some) }
}

impl Store {
    /// How often what it has has changed otherwise than by growing, once no such change is under way.
    pub(crate) fn settled_changes(&self, py: Python<'_>) -> PyResult<u64> {
        let core = self.open_core(py)?;
        match core.changes_if_settled() {
            Some(changes) => Ok(changes),
            None => interruptible(py, || core.settled_changes()),
        }
    }

    /// What a queue says that has all that is its; 0 where there is none.
    fn of_whole_queue(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        ask: impl Fn(&ConsumeQueue) -> u64,
    ) -> PyResult<u64> {
        loop {
            let changes = self.settled_changes(py)?;
            let found = self.core.find_consume_queue(topic, queue_id).map_or(0, |queue| ask(&queue));
            if self.core.changes_if_settled() == Some(changes) {
                return Ok(found);
            }
        }
    }
}

#[pymethods]
impl Store {
    /// Messages of a queue from an offset on. Source: ``getMessage``.
    ///
    /// Args:
    ///     topic: The topic.
    ///     queue_id: The queue.
    ///     offset: The first offset.
    ///     max_msg_nums: Most messages.
    ///     subscription: Tags separated by ``||``, or a filter; all messages by default.
    ///
    /// Raises:
    ///     TypeError: ``subscription`` is neither, or a number no integer.
    ///     ValueError: ``max_msg_nums`` is negative, or a number is out of bounds.
    #[pyo3(signature = (topic, queue_id, offset, max_msg_nums=32, subscription=None))]
    fn get_message(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = queue_id)] queue_id: i32,
        #[pyo3(from_py_with = offset)] offset: i64,
        #[pyo3(from_py_with = max_msg_nums)] max_msg_nums: usize,
        subscription: Option<GivenSubscription<'_>>,
    ) -> PyResult<GetMessageResult> {
        let subscription = subscription.and_then(|given| given.parse());
        let get = || self.core.get_message(topic, queue_id, offset, max_msg_nums, subscription.as_ref());
        // One that may take long is broken off by Ctrl-C; to ask for that takes longer than a short one does.
        let found =
            if max_msg_nums > SHORT_GET_MSG_NUMS { interruptible(py, get) } else { detached(py, get) };
        found.map(GetMessageResult::new)
    }

    /// The newest messages by a key, oldest first. Source: ``queryMessage``.
    ///
    /// Args:
    ///     topic: The topic.
    ///     key: One of their keys, or their unique key.
    ///     max_num: Most messages.
    ///     begin: The earliest store time; there is none by default.
    ///     end: The latest store time; there is none by default.
    ///
    /// Raises:
    ///     TypeError: a number is no integer.
    ///     ValueError: a number is out of bounds.
    #[pyo3(signature = (topic, key, max_num=32, begin=TimeMs(0), end=TimeMs(i64::MAX)))]
    fn query_message(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = given::key)] key: &str,
        #[pyo3(from_py_with = max_num)] max_num: usize,
        #[pyo3(from_py_with = given::begin)] begin: TimeMs,
        #[pyo3(from_py_with = given::end)] end: TimeMs,
    ) -> PyResult<Vec<Message>> {
        let query =
            KeyQuery { topic: topic.as_bytes(), key: key.as_bytes(), max_num, begin: begin.0, end: end.0 };
        let records = detached(py, || self.core.query_message(&query))?;
        Ok(records.into_iter().map(|record| Message::new(record, None)).collect())
    }

    /// For each of several keys what :meth:`query_message` gives: far cheaper than key by key.
    #[pyo3(signature = (topic, keys, max_num=32, begin=TimeMs(0), end=TimeMs(i64::MAX)))]
    fn query_messages(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = given::keys_to_look_up)] keys: Vec<PyBackedStr>,
        #[pyo3(from_py_with = max_num)] max_num: usize,
        #[pyo3(from_py_with = given::begin)] begin: TimeMs,
        #[pyo3(from_py_with = given::end)] end: TimeMs,
    ) -> PyResult<QueryMessagesResult> {
        let query = KeyQuery { topic: topic.as_bytes(), key: &[], max_num, begin: begin.0, end: end.0 };
        Ok(QueryMessagesResult::new(detached(py, || self.core.query_messages(&query, &keys))?))
    }

    /// The offset in a queue that a time stands for. Source: ``getOffsetInQueueByTime``.
    ///
    /// Args:
    ///     topic: The topic.
    ///     queue_id: The queue.
    ///     timestamp: The time.
    ///     boundary: ``"nearest"`` for the nearest message, of several of one time the first; ``"lower"``
    ///         for the first that is not before the time, the queue's end where there is none;
    ///         ``"upper"`` for the last that is not behind it, the first where there is none.
    #[pyo3(signature = (topic, queue_id, timestamp, boundary="nearest"))]
    fn get_offset_in_queue_by_time(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = queue_id)] queue_id: i32,
        #[pyo3(from_py_with = given::timestamp)] timestamp: TimeMs,
        #[pyo3(from_py_with = given::boundary)] boundary: &str,
    ) -> PyResult<u64> {
        let boundary = boundary_of(boundary)?;
        detached(py, || self.core.get_offset_in_queue_by_time(topic, queue_id, timestamp.0, boundary))
    }

    /// The message that begins at an offset of the log. Source: ``lookMessageByOffset``.
    fn look_message_by_offset(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = commit_log_offset)] commit_log_offset: i64,
    ) -> PyResult<Option<Message>> {
        let Some(offset) = num::from_java_long(commit_log_offset) else { return Ok(None) };
        let record = detached(py, || self.core.record_at(offset))?;
        Ok(record.map(|record| Message::new(record, None)))
    }

    /// Bytes of the log from an offset on, to the end of its file. Source: ``getCommitLogData``.
    ///
    /// Raises:
    ///     OffsetOutOfRangeError: the log holds nothing there.
    fn get_commit_log_data<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = place)] offset: u64,
    ) -> PyResult<Bound<'py, PyMemoryView>> {
        let data = detached(py, || self.core.get_commit_log_data(offset))?;
        view(py, data)
    }

    /// The offset that the queue's next dispatched message gets. Source: ``getMaxOffsetInQueue``.
    fn get_max_offset_in_queue(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = queue_id)] queue_id: i32,
    ) -> PyResult<u64> {
        self.of_whole_queue(py, topic, queue_id, ConsumeQueue::max_offset_in_queue)
    }

    /// The offset of the queue's first message. Source: ``getMinOffsetInQueue``.
    fn get_min_offset_in_queue(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = queue_id)] queue_id: i32,
    ) -> PyResult<u64> {
        self.of_whole_queue(py, topic, queue_id, ConsumeQueue::min_offset_in_queue)
    }

    /// How many messages a queue has. Source: ``getMessageTotalInQueue``.
    fn get_message_total_in_queue(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = queue_id)] queue_id: i32,
    ) -> PyResult<u64> {
        self.of_whole_queue(py, topic, queue_id, ConsumeQueue::message_total_in_queue)
    }

    /// Where the message of a queue's offset stands in the log; 0 where there is none.
    ///
    /// Source: ``getCommitLogOffsetInQueue``.
    fn get_commit_log_offset_in_queue(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = queue_id)] queue_id: i32,
        #[pyo3(from_py_with = offset)] offset: i64,
    ) -> PyResult<i64> {
        let Ok(offset) = u64::try_from(offset) else { return Ok(0) };
        detached(py, || self.core.get_commit_log_offset_in_queue(topic, queue_id, offset))
    }

    /// When the message of a queue's offset was stored; -1 where there is none.
    ///
    /// Source: ``getMessageStoreTimeStamp``.
    fn get_message_store_time_stamp(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = queue_id)] queue_id: i32,
        #[pyo3(from_py_with = offset)] offset: i64,
    ) -> PyResult<i64> {
        let Ok(offset) = u64::try_from(offset) else { return Ok(-1) };
        detached(py, || self.core.get_message_store_timestamp(topic, queue_id, offset))
    }

    /// When the first message of the log, or of a queue, was stored; -1 where there is none.
    ///
    /// Source: ``getEarliestMessageTime``.
    ///
    /// Raises:
    ///     ValueError: topic without queue, or queue without topic.
    #[pyo3(signature = (topic=None, queue_id=None))]
    fn get_earliest_message_time(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic_of_others)] topic: Option<&str>,
        #[pyo3(from_py_with = queue_id_if_given)] queue_id: Option<i32>,
    ) -> PyResult<i64> {
        match (topic, queue_id) {
            (Some(topic), Some(queue_id)) => {
                detached(py, || self.core.get_earliest_message_time_in_queue(topic, queue_id))
            }
            (None, None) => detached(py, || self.core.get_earliest_message_time()),
            _ => Err(PyValueError::new_err("topic and queue_id go together")),
        }
    }

    /// Whether a message lies so far behind the log's end that it is no longer in memory.
    ///
    /// Source: ``checkInDiskByConsumeOffset``.
    fn check_in_disk_by_consume_offset(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = queue_id)] queue_id: i32,
        #[pyo3(from_py_with = place)] offset: u64,
    ) -> PyResult<bool> {
        detached(py, || self.core.check_in_disk_by_consume_offset(topic, queue_id, offset))
    }

    /// The offset of the log's first byte; -1 while it has no file. Source: ``getMinPhyOffset``.
    fn get_min_phy_offset(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.open_core(py)?.min_phy_offset())
    }

    /// The offset behind the log's last byte. Source: ``getMaxPhyOffset``.
    fn get_max_phy_offset(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.open_core(py)?.max_phy_offset())
    }

    /// The offset behind the last byte of the log that is on the disk. Source: ``getFlushedWhere``.
    fn get_flushed_where(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.open_core(py)?.log().flushed_offset())
    }

    /// Up to where messages are dispatched with ``duplicationEnable``. Source: ``getConfirmOffset``.
    fn get_confirm_offset(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.open_core(py)?.log().confirm_offset())
    }

    /// Moves the confirm offset. Source: ``setConfirmOffset``.
    fn set_confirm_offset(&self, py: Python<'_>, #[pyo3(from_py_with = offset)] offset: i64) -> PyResult<()> {
        self.open_core(py)?.log().set_confirm_offset(offset);
        Ok(())
    }

    /// Bytes of the log that are not dispatched yet. Source: ``dispatchBehindBytes``.
    fn dispatch_behind_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.open_core(py)?.dispatch_behind_bytes())
    }

    /// Store time between the log's last message and the last that is dispatched.
    fn dispatch_behind_ms(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.open_core(py)?.dispatch_behind_ms())
    }

    /// Bytes of the log that are not on the disk yet. Source: ``remainHowManyDataToFlush``.
    fn remain_how_many_data_to_flush(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.open_core(py)?.log().remain_how_many_data_to_flush())
    }

    /// Bytes of the log that are in memory only. Source: ``remainHowManyDataToCommit``.
    fn remain_how_many_data_to_commit(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.open_core(py)?.log().remain_how_many_data_to_commit())
    }

    /// Free buffers of the transient store pool. Source: ``remainTransientStoreBufferNumbs``.
    fn remain_transient_store_buffer_numbs(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.open_core(py)?.log().remain_transient_store_buffer_count())
    }

    /// For how long the append that is under way has taken. Source: ``lockTimeMills``.
    fn lock_time_mills(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.open_core(py)?.log().lock_time_ms())
    }

    /// The time by the store's clock.
    fn now(&self) -> i64 {
        self.core.now_ms()
    }

    /// What the store can do now. Source: ``getRunningFlags``.
    #[getter]
    fn running_flag_bits(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.open_core(py)?.running_flags().bits())
    }

    /// Whether it is closed.
    #[getter]
    fn is_closed(&self) -> bool {
        self.core.is_closed()
    }

    /// How many queue units were not served because the log does not agree with them.
    #[getter]
    fn rejected_count(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.open_core(py)?.rejected_count())
    }
}
