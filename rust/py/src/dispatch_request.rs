//! What dispatch sees of a record, for those that read the log themselves.

use mqstore_core::dispatch::tags_code;
use mqstore_core::format::be;
use mqstore_core::format::java_string::decode as decode_text;
use mqstore_core::format::message::{self, Check, Decoded, RecordFault};
use mqstore_core::format::properties::{self, DispatchProperties};
use mqstore_core::num;
use pyo3::prelude::*;

use crate::arguments::checked;
use crate::errors::detached;
use crate::given;
use crate::store::Store;

/// What stands at a place of the log. Source: `DispatchRequest`.
#[pyclass(frozen, get_all, module = "mqstore")]
#[derive(Default)]
pub struct DispatchRequest {
    success: bool,
    msg_size: i32,
    topic: String,
    queue_id: i32,
    commit_log_offset: i64,
    consume_queue_offset: i64,
    tags_code: i64,
    store_timestamp: i64,
    keys: Option<String>,
    uniq_key: Option<String>,
    sys_flag: i32,
    prepared_transaction_offset: i64,
    /// `None` where the record has no properties.
    properties: Option<Vec<(String, String)>>,
    /// Why `success` is false.
    reason: Option<String>,
}

impl DispatchRequest {
    fn failed(fault: &RecordFault) -> Self {
        let msg_size = match fault {
            RecordFault::Lengths { total_size, .. } => num::java_int(*total_size as usize),
            _ => -1,
        };
        Self { msg_size, keys: Some(String::new()), reason: Some(fault.to_string()), ..Self::default() }
    }
}

fn commit_log_offset(given: &Bound<'_, PyAny>) -> PyResult<u64> {
    checked("commit_log_offset", given, 0..=i64::MAX)
}

#[pymethods]
impl Store {
    /// Checks what stands at an offset of the log; ``None`` at its end.
    ///
    /// Source: ``checkMessageAndReturnSize``.
    #[pyo3(signature = (commit_log_offset, *, check_crc=true, read_body=true))]
    fn check_message_and_return_size(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = commit_log_offset)] commit_log_offset: u64,
        #[pyo3(from_py_with = given::check_crc)] check_crc: bool,
        #[pyo3(from_py_with = given::read_body)] read_body: bool,
    ) -> PyResult<Option<DispatchRequest>> {
        let head_size = num::offset(message::END_FILE_MIN_BLANK_LENGTH);
        let log = self.open_core(py)?.log();
        let Some(head) = detached(py, || log.get_bytes(commit_log_offset, head_size))? else {
            return Ok(None);
        };
        let size = be::i32_at(&head, 0).and_then(num::from_java_int).map_or(head_size, u64::from);
        let Some(bytes) = detached(py, || log.get_bytes(commit_log_offset, size.max(head_size)))? else {
            return Ok(None);
        };
        let check = if check_crc && read_body { Check::BodyCrc } else { Check::Structure };
        Ok(Some(match message::decode(&bytes, check) {
            Err(fault) => DispatchRequest::failed(&fault),
            Ok(Decoded::Blank { .. }) => {
                DispatchRequest { success: true, keys: Some(String::new()), ..DispatchRequest::default() }
            }
            Ok(Decoded::Message(record)) => {
                let found = DispatchProperties::of(record.properties);
                let text = |bytes: &[u8]| decode_text(bytes).into_owned();
                let has_properties = !record.properties.is_empty();
                let pairs =
                    || properties::pairs(record.properties).map(|(name, value)| (text(name), text(value)));
                DispatchRequest {
                    success: true,
                    msg_size: num::java_int(record.total_size as usize),
                    topic: text(record.topic),
                    queue_id: record.queue_id,
                    commit_log_offset: record.physical_offset,
                    consume_queue_offset: record.queue_offset,
                    tags_code: tags_code(self.core.config(), &record, &found),
                    store_timestamp: record.store_timestamp,
                    keys: if has_properties { found.keys.map(text) } else { Some(String::new()) },
                    uniq_key: found.uniq_key.map(text),
                    sys_flag: record.sys_flag,
                    prepared_transaction_offset: record.prepared_transaction_offset,
                    properties: has_properties.then(|| pairs().collect()),
                    reason: None,
                }
            }
        }))
    }
}
