//! The least that a reader of records has to do. They are those of a store's own log, as it has them in memory: of one
//! size, and queues have them in turns, so that nothing has to be found.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use memmap2::{MmapOptions, MmapRaw};
use mqstore_core::format::be;
use mqstore_core::format::message::{self, Check, Decoded};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::objects::Object;
use crate::{beside, columns};

/// How much is copied before its memory is used again.
const COPIED_SIZE: usize = 8 << 20;

/// Records of one size that follow each other in a log file.
#[pyclass(frozen)]
pub struct Records {
    map: Arc<MmapRaw>,
    record_size: usize,
    /// How many there are.
    #[pyo3(get)]
    count: usize,
}

impl Records {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long as it says, and nobody writes to records that are there.
        let all = unsafe { std::slice::from_raw_parts(self.map.as_ptr(), self.map.len()) };
        all.get(..self.count * self.record_size).unwrap_or_default()
    }

    /// Lets some threads share the records; gives what they have counted.
    fn shared(&self, py: Python<'_>, threads: usize, work: impl Fn(&[u8]) -> usize + Sync) -> usize {
        py.detach(|| {
            let share = self.count.div_ceil(threads.max(1)).max(1) * self.record_size;
            thread::scope(|scope| {
                let shares = self.bytes().chunks(share);
                let threads: Vec<_> = shares.map(|records| scope.spawn(|| work(records))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
            })
        })
    }
}

#[pymethods]
impl Records {
    /// Those of a log file from one on, as many as have its size.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // Python's, made for the call
    fn new(path: PathBuf, first: u64, record_size: usize) -> PyResult<Self> {
        let map = MmapOptions::new().offset(first).map_raw_read_only(&File::open(path)?)?;
        let count = map.len() / record_size.max(1);
        let all = Self { map: Arc::new(map), record_size, count };
        let size = i32::try_from(record_size)?;
        let of_its_size = |record: &&[u8]| be::i32_at(record, 0) == Some(size);
        let count = all.bytes().chunks_exact(record_size).take_while(of_its_size).count();
        if count == 0 {
            return Err(PyValueError::new_err("no record of that size begins there"));
        }
        Ok(Self { count, ..all })
    }

    /// Copies the bodies into memory that is used again, by some threads.
    fn copy_bodies(&self, py: Python<'_>, body_size: usize, threads: usize) -> usize {
        self.shared(py, threads, |records| {
            let mut copied = Vec::with_capacity(COPIED_SIZE);
            let records = records.chunks_exact(self.record_size);
            let count = records.len();
            for record in records {
                if copied.len() + body_size > COPIED_SIZE {
                    copied.clear();
                }
                copied.extend_from_slice(record.get(..body_size).unwrap_or_default());
            }
            count
        })
    }

    /// Puts what they hold into columns, by some threads.
    fn read_columns(&self, py: Python<'_>, queues: usize, threads: usize) -> usize {
        self.shared(py, threads, |records| columns::read(records, self.record_size, queues))
    }

    /// Some of them as objects: from one on, each so-manieth. Fewer where there are no more.
    fn objects(&self, first: usize, step: usize, count: usize) -> PyResult<Vec<Object>> {
        let numbers = (first..self.count).step_by(step.max(1)).take(count);
        let object = |number: usize| {
            let start = number * self.record_size;
            let record = self.bytes().get(start..start + self.record_size).unwrap_or_default();
            // Where a body begins and ends is in its record.
            let (body, _) = message::body_range(record).ok_or_else(|| PyValueError::new_err("no record"))?;
            Object::of(&self.map, start + body.start..start + body.end)
        };
        for number in numbers.clone() {
            let start = number * self.record_size;
            columns::fetch(self.bytes(), start, message::V4_HEAD_SIZE);
        }
        numbers.map(object).collect()
    }

    /// Some threads hold each body against its CRC, and one beside them puts units and entries into new files of a folder.
    #[allow(clippy::needless_pass_by_value)] // Python's, made for the call
    fn recover(&self, py: Python<'_>, folder: PathBuf, threads: usize) -> PyResult<usize> {
        thread::scope(|scope| {
            let dispatch = scope.spawn(|| beside::dispatch_all(self.bytes(), &folder));
            let count = self.shared(py, threads, |records| {
                let is_whole = |record: &&[u8]| {
                    matches!(message::decode(record, Check::BodyCrc), Ok(Decoded::Message(_)))
                };
                records.chunks_exact(self.record_size).filter(is_whole).count()
            });
            dispatch.join().map_err(|_| PyValueError::new_err("dispatch panicked"))??;
            Ok(count)
        })
    }
}
