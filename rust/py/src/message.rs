//! `mqstore.Message`: a stored message, as a view of its record.

use std::ffi::c_int;

use mqstore_core::format::message::{
    MAGIC_CODE_AT, MESSAGE_MAGIC_CODE_V2, Record, SYS_FLAG_AT, V4_HEAD_SIZE, body_range, decode_record,
};
use mqstore_core::format::message_id::MessageId;
use mqstore_core::format::properties::{self, DispatchProperties};
use mqstore_core::format::{be, body, java_string};
use mqstore_core::mmap::slice::Slice;
use mqstore_core::num;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PyString, PyTuple};

use crate::arguments::Body;
use crate::errors;

/// A stored message. Its body is a view into the store's file and keeps that mapped.
#[pyclass(frozen, module = "mqstore", weakref)]
pub struct Message {
    record: Slice,
    /// Index of the unit by which it was found; `None` for one that was found otherwise.
    logics_offset: Option<u64>,
}

impl Message {
    pub const fn new(record: Slice, logics_offset: Option<u64>) -> Self {
        Self { record, logics_offset }
    }

    pub const fn record_slice(&self) -> &Slice {
        &self.record
    }

    /// Has the processor fetch what says where the body lies, without waiting for it.
    pub fn prefetch_head(&self) {
        self.record.prefetch(SYS_FLAG_AT, V4_HEAD_SIZE - SYS_FLAG_AT);
    }

    fn record(&self) -> PyResult<Record<'_>> {
        decode_record(&self.record).ok_or_else(|| PyValueError::new_err("the bytes hold no message"))
    }

    fn text<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
        PyString::new(py, &java_string::decode(bytes))
    }

    /// The stored body and the system flag.
    fn stored_body(&self) -> PyResult<(&[u8], i32)> {
        let found =
            body_range(&self.record).and_then(|(range, sys_flag)| Some((self.record.get(range)?, sys_flag)));
        found.ok_or_else(|| PyValueError::new_err("the bytes hold no message"))
    }

    fn property<'py>(&self, py: Python<'py>, name: &[u8]) -> PyResult<Option<Bound<'py, PyString>>> {
        Ok(properties::find(self.record()?.properties, name).map(|value| Self::text(py, value)))
    }
}

#[pymethods]
impl Message {
    /// A message from the bytes of its record, as the log holds it.
    ///
    /// Raises:
    ///     RecordError: the bytes are no record: sizes, magic code or body CRC do not agree.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, record: Body) -> PyResult<Self> {
        use mqstore_core::format::message::{Check, Decoded, decode};
        let record = record.as_slice();
        let fault = match decode(record, Check::BodyCrc) {
            Ok(Decoded::Message(_)) => return Ok(Self::new(Slice::read(record), None)),
            Ok(Decoded::Blank { .. }) => "expected a message, found the blank at a file's end".to_owned(),
            Err(fault) => fault.to_string(),
        };
        Err(errors::record_error(py, &fault))
    }

    /// The topic; of a delayed message ``SCHEDULE_TOPIC_XXXX`` until it is due.
    #[getter]
    fn topic<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        Ok(Self::text(py, self.record()?.topic))
    }

    /// The queue.
    #[getter]
    fn queue_id(&self) -> PyResult<i32> {
        Ok(self.record()?.queue_id)
    }

    /// The offset in the queue, as the record has it.
    #[getter]
    fn queue_offset(&self) -> PyResult<i64> {
        Ok(self.record()?.queue_offset)
    }

    /// The offset in the queue by which it was found; ``None`` where it was found otherwise.
    #[getter]
    const fn logics_offset(&self) -> Option<u64> {
        self.logics_offset
    }

    /// The offset in the log.
    #[getter]
    fn commit_log_offset(&self) -> PyResult<i64> {
        Ok(self.record()?.physical_offset)
    }

    /// Bytes of the record.
    #[getter]
    fn store_size(&self) -> usize {
        self.record.len()
    }

    /// The CRC-32 of the body as it is stored, without its highest bit.
    #[getter]
    fn body_crc(&self) -> PyResult<i32> {
        Ok(self.record()?.body_crc)
    }

    /// The user's flag.
    #[getter]
    fn flag(&self) -> PyResult<i32> {
        Ok(self.record()?.flag)
    }

    /// Whether it is compressed, its part in a transaction, whether its hosts have IPv6 addresses.
    #[getter]
    fn sys_flag(&self) -> PyResult<i32> {
        Ok(self.record()?.sys_flag)
    }

    /// When the client made it.
    #[getter]
    fn born_timestamp(&self) -> PyResult<i64> {
        Ok(self.record()?.born_timestamp)
    }

    /// When it was stored.
    #[getter]
    fn store_timestamp(&self) -> PyResult<i64> {
        Ok(self.record()?.store_timestamp)
    }

    /// Where the client made it: ``1.2.3.4:5``, or an IPv6 address and a port.
    #[getter]
    fn born_host(&self) -> PyResult<String> {
        Ok(self.record()?.born_host.to_string())
    }

    /// Where it was stored.
    #[getter]
    fn store_host(&self) -> PyResult<String> {
        Ok(self.record()?.store_host.to_string())
    }

    /// How often it was consumed in vain.
    #[getter]
    fn reconsume_times(&self) -> PyResult<i32> {
        Ok(self.record()?.reconsume_times)
    }

    /// The offset of its prepared half.
    #[getter]
    fn prepared_transaction_offset(&self) -> PyResult<i64> {
        Ok(self.record()?.prepared_transaction_offset)
    }

    /// Where it is stored, as RocketMQ's tools write it: host and offset in hexadecimal digits.
    #[getter]
    fn msg_id(&self) -> PyResult<String> {
        let record = self.record()?;
        let physical_offset = num::from_java_long(record.physical_offset).unwrap_or(0);
        Ok(MessageId { store_host: record.store_host, physical_offset }.to_hex())
    }

    /// Whether the record is one of RocketMQ 5's, whose topic can be longer.
    #[getter]
    fn is_v2(&self) -> bool {
        be::i32_at(&self.record, MAGIC_CODE_AT) == Some(MESSAGE_MAGIC_CODE_V2)
    }

    /// Whether the body is stored compressed.
    #[getter]
    fn is_compressed(&self) -> PyResult<bool> {
        Ok(body::is_compressed(self.record()?.sys_flag))
    }

    /// The body as it is stored, without a copy.
    #[getter]
    fn raw_body<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(slf.as_any())
    }

    /// The body, inflated where it is compressed.
    ///
    /// Raises:
    ///     RecordError: it cannot be inflated, or would become too large.
    #[getter]
    fn body<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        let (stored, sys_flag) = slf.get().stored_body()?;
        if !body::is_compressed(sys_flag) {
            return PyMemoryView::from(slf.as_any());
        }
        let py = slf.py();
        let inflated = py.detach(|| body::inflate(stored, sys_flag));
        view(py, Slice::read(inflated.map_err(|fault| errors::record_error(py, &fault.to_string()))?))
    }

    /// Fills in a read-only buffer over the body as it is stored: a view of it costs no object between.
    ///
    /// # Safety
    /// As for [`View`].
    #[allow(unsafe_code)] // the buffer protocol is C
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, buffer: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (body, _) = slf.get().stored_body()?;
        // SAFETY: `buffer` is valid by the protocol; the body is the message's own.
        unsafe { fill_buffer(slf.as_any(), body, buffer, flags) }
    }

    /// The whole record.
    #[getter]
    fn record_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        view(py, self.record.clone())
    }

    /// The properties, in the order in which they are stored.
    #[getter]
    fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (name, value) in properties::pairs(self.record()?.properties) {
            all.set_item(Self::text(py, name), Self::text(py, value))?;
        }
        Ok(all)
    }

    /// The properties as they are stored.
    #[getter]
    fn raw_properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, self.record()?.properties))
    }

    /// The tag.
    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.property(py, properties::TAGS)
    }

    /// The key that the client gives each message.
    #[getter]
    fn unique_key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.property(py, properties::UNIQ_KEY)
    }

    /// The keys.
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let record = self.record()?;
        let found = DispatchProperties { uniq_key: None, ..DispatchProperties::of(record.properties) };
        let keys: Vec<_> = found.index_keys().map(|key| Self::text(py, key)).collect();
        PyTuple::new(py, keys)
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.record()?.body.len())
    }

    fn __eq__(&self, other: &Self) -> bool {
        *self.record == *other.record
    }

    fn __hash__(&self) -> u64 {
        u64::from(crc32_of(&self.record))
    }

    fn __repr__(&self) -> PyResult<String> {
        let record = self.record()?;
        Ok(format!(
            "Message(topic={:?}, queue_id={}, queue_offset={}, commit_log_offset={}, body={} bytes)",
            java_string::decode(record.topic),
            record.queue_id,
            record.queue_offset,
            record.physical_offset,
            record.body.len(),
        ))
    }
}

fn crc32_of(bytes: &[u8]) -> u32 {
    num::int_as_bits(mqstore_core::format::message::body_crc(bytes))
}

/// Bytes of a store that Python sees through the buffer protocol.
#[pyclass(frozen, module = "mqstore._native")]
struct View(Slice);

#[pymethods]
impl View {
    /// Fills in a read-only buffer over the bytes.
    ///
    /// # Safety
    /// `buffer` is Python's own and valid, as the protocol says.
    #[allow(unsafe_code)] // the buffer protocol is C
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, buffer: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: `buffer` is valid by the protocol; the bytes are the view's own.
        unsafe { fill_buffer(slf.as_any(), &slf.get().0, buffer, flags) }
    }
}

/// Fills in a read-only buffer over bytes of an object.
///
/// # Safety
/// `buffer` is Python's own and valid, and `bytes` live as long as `owner` and are not written again.
#[allow(unsafe_code)] // the buffer protocol is C
unsafe fn fill_buffer(
    owner: &Bound<'_, PyAny>,
    bytes: &[u8],
    buffer: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let start = bytes.as_ptr().cast_mut().cast();
    let len = ffi::Py_ssize_t::try_from(bytes.len()).map_err(|_| PyBufferError::new_err("too large"))?;
    // SAFETY: `buffer` is valid and the bytes live as long as `owner`, as the caller says; the buffer
    // takes a reference to it.
    let filled = unsafe { ffi::PyBuffer_FillInfo(buffer, owner.as_ptr(), start, len, 1, flags) };
    if filled == 0 { Ok(()) } else { Err(PyErr::fetch(owner.py())) }
}

/// See `once.rs`.
pub fn prepare(py: Python<'_>) {
    py.get_type::<View>();
}

/// A memoryview of bytes of a store, without a copy.
pub fn view(py: Python<'_>, slice: Slice) -> PyResult<Bound<'_, PyMemoryView>> {
    PyMemoryView::from(Bound::new(py, View(slice))?.as_any())
}
