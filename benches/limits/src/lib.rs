//! What calls from Python, memory and processor allow at the best: the least that a store has to do for a
//! put or a look-up, without a store. `limits.py` holds mqstore against it.

#![allow(unsafe_code)] // a mapping of a file: every block says why it holds

mod beside;
mod columns;
mod objects;
mod records;

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, ptr, thread};

use beside::Beside;
use objects::Object;
use records::Records;

use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};
use mqstore_core::clock::{Clock, SystemClock};
use mqstore_core::format::host::Host;
use mqstore_core::format::message::{self, Place, RecordFields};
use mqstore_core::format::properties::ClientProperties;
use mqstore_core::num;
use nix::fcntl::{FallocateFlags, fallocate};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};

/// What the processor fetches at once.
const CACHE_LINE: usize = 64;

/// Memory: a file's, or nobody's whose pages were all touched.
#[pyclass]
struct Memory {
    map: Arc<MmapRaw>,
    /// Where the next record goes.
    at: usize,
    properties: Vec<u8>,
    host: Host,
    hasher: RandomState,
    /// What goes on beside the writer.
    beside: Option<Beside>,
}

/// Where a record is, as a put tells it.
#[pyclass(frozen)]
struct Placed {
    #[pyo3(get)]
    wrote_offset: usize,
}

/// A message, borrowed from Python.
struct Given<'a> {
    topic: &'a str,
    body: &'a [u8],
    keys: Option<&'a str>,
    tags: Option<&'a str>,
    queue_id: i32,
}

impl Memory {
    /// Encodes a message with its body's CRC where the next record goes.
    fn write(&mut self, given: &Given<'_>, now_ms: i64) -> Option<usize> {
        self.properties.clear();
        ClientProperties::of(given.keys.map(str::as_bytes), None, given.tags.map(str::as_bytes), true)
            .encode_into(&mut self.properties);
        let fields = RecordFields {
            body_crc: message::body_crc(given.body),
            queue_id: given.queue_id,
            flag: 0,
            sys_flag: 0,
            born_timestamp: now_ms,
            born_host: self.host,
            store_host: self.host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: given.body,
            topic: given.topic.as_bytes(),
            properties: &self.properties,
            append_crc: false,
        };
        let size = fields.record_size();
        let at = if self.at + size <= self.map.len() { self.at } else { 0 };
        if size > self.map.len() {
            return None;
        }
        let place = Place { queue_offset: 0, physical_offset: 0, store_timestamp: now_ms };
        let mut next = at;
        fields.write(place, |bytes| {
            // SAFETY: the pieces of a record have its size together, and that fits behind `at`.
            let to = unsafe { self.map.as_mut_ptr().add(next) };
            // SAFETY: as above; nobody else has this memory.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
            next += bytes.len();
        });
        self.at = next;
        if let Some(beside) = &self.beside {
            beside.wrote(next);
        }
        Some(at)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long as it says, and `write` has it alone while it writes.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr(), self.map.len()) }
    }

    fn of(map: MmapRaw) -> PyResult<Self> {
        let host = "127.0.0.1:10911".parse().map_err(|_| PyValueError::new_err("no host"))?;
        let (map, properties, hasher) = (Arc::new(map), Vec::new(), RandomState::new());
        Ok(Self { map, at: 0, properties, host, hasher, beside: None })
    }

    /// Reads at so many random places, each of which is known when the one before it was read.
    fn chase(&self, text: &str, steps: usize) -> u64 {
        let lines = (self.map.len() / CACHE_LINE).max(1) as u64;
        (0..steps).fold(self.hasher.hash_one(text), |hash, _| {
            let line = usize::try_from(hash % lines).unwrap_or_default();
            let found = self.bytes().get(line * CACHE_LINE).copied().unwrap_or_default();
            hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ u64::from(found)
        })
    }
}

#[pymethods]
impl Memory {
    #[new]
    fn new(size: usize) -> PyResult<Self> {
        let mut map = MmapMut::map_anon(size)?;
        map.fill(1);
        Self::of(map.into())
    }

    /// A new file's, of which all is ready: blocks, and pages of zeros.
    #[staticmethod]
    fn of_new_file(path: PathBuf, size: usize) -> PyResult<Self> {
        let new = Self::of(map_new_file(path, size)?)?;
        new.map.advise_range(Advice::PopulateWrite, 0, size)?;
        Ok(new)
    }

    /// A new file's, in a folder, whose blocks are ready: threads beside the writer have its pages ready, write them to the
    /// disk, and dispatch its records.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)] // Python's, made for the call
    fn of_growing_file(folder: PathBuf, size: usize) -> PyResult<Self> {
        let mut new = Self::of(map_new_file(folder.join("log"), size)?)?;
        new.beside = Some(Beside::begin(&new.map, &folder)?);
        Ok(new)
    }

    /// Waits until all records are dispatched, and ends what goes on beside the writer.
    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        let beside = self.beside.take();
        Ok(py.detach(|| beside.map_or(Ok(()), Beside::finish))?)
    }

    /// The arguments of a put, a record, its place: no queue, no index, no check, nothing for another thread.
    #[pyo3(signature = (topic, body, *, keys=None, tags=None, queue_id=0, unique_key=false))]
    #[allow(clippy::too_many_arguments)] // those of a put
    fn put(
        &mut self,
        topic: &str,
        body: &[u8],
        keys: Option<&str>,
        tags: Option<&str>,
        queue_id: i32,
        unique_key: bool,
    ) -> Option<Placed> {
        let _is_none = unique_key;
        let at = self.write(&Given { topic, body, keys, tags, queue_id }, SystemClock.now_ms());
        at.map(|wrote_offset| Placed { wrote_offset })
    }

    /// As `put`, for many messages.
    #[pyo3(signature = (topic, bodies, *, keys, tags=None, queue_id=0, unique_key=false))]
    #[allow(clippy::too_many_arguments)] // those of a put
    #[allow(clippy::needless_pass_by_value)] // taken out of Python's lists
    fn put_many(
        &mut self,
        topic: &str,
        bodies: Vec<PyBackedBytes>,
        keys: Vec<PyBackedStr>,
        tags: Option<&str>,
        queue_id: i32,
        unique_key: bool,
    ) -> Option<Placed> {
        let _is_none = unique_key;
        let now_ms = SystemClock.now_ms();
        let mut last = None;
        for (body, key) in bodies.iter().zip(&keys) {
            last = self.write(&Given { topic, body, keys: Some(key), tags, queue_id }, now_ms);
        }
        last.map(|wrote_offset| Placed { wrote_offset })
    }

    /// A look-up that waits for memory so many times, and gives one object.
    fn look_up(&self, topic: &str, text: &str, steps: usize) -> Placed {
        let _queue = topic;
        Placed { wrote_offset: usize::try_from(self.chase(text, steps) >> 1).unwrap_or_default() }
    }

    /// As `look_up`, for many texts; those that follow each other wait beside each other.
    #[allow(clippy::needless_pass_by_value)] // taken out of Python's list
    fn look_up_many(&self, py: Python<'_>, texts: Vec<PyBackedStr>, steps: usize, threads: usize) -> u64 {
        let sum = AtomicU64::new(0);
        let share = texts.len().div_ceil(threads.max(1)).max(1);
        py.detach(|| {
            thread::scope(|scope| {
                for texts in texts.chunks(share) {
                    scope.spawn(|| {
                        let found = texts.iter().fold(0, |sum, text| sum ^ self.chase(text, steps));
                        sum.fetch_xor(found, Ordering::Relaxed);
                    });
                }
            });
        });
        sum.into_inner()
    }
}

fn map_new_file(path: PathBuf, size: usize) -> io::Result<MmapRaw> {
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    fallocate(&file, FallocateFlags::empty(), 0, num::java_long(size as u64))?;
    MmapOptions::new().len(size).map_raw(&file)
}

#[pymodule]
fn limits(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Memory>()?;
    module.add_class::<Object>()?;
    module.add_class::<Placed>()?;
    module.add_class::<Records>()
}
