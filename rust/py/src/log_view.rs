//! A store's log alone, and its derived files as they lie there.

use std::path::PathBuf;
use std::sync::Arc;

use mqstore_core::clock::SystemClock;
use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::config::StoreConfig;
use mqstore_core::consume_queue::ConsumeQueue;
use mqstore_core::consume_queue::table::QueueTable;
use mqstore_core::error::Result as CoreResult;
use mqstore_core::format::cq_unit::CQ_STORE_UNIT_SIZE;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::index::file::IndexFile;
use mqstore_core::log_view::LogView as CoreLogView;
use mqstore_core::repair::{self, Hole, Look};
use mqstore_core::sync::Mutex;
use mqstore_core::verify::{self, Findings, LogChecked};
use pyo3::prelude::*;

use crate::inspect::{GapRow, gap_row};
use crate::options::EngineOptions;
use crate::ranges::file_system;
use crate::signals::interruptible_alone;

/// A store's log, and its derived files as they lie there.
#[pyclass(frozen, module = "mqstore._native")]
pub struct LogView {
    pub(crate) core: CoreLogView,
    queues: Mutex<Option<Arc<QueueTable>>>,
    index_files: Mutex<Option<IndexFiles>>,
    look: Mutex<Option<Arc<Look>>>,
}

#[pymethods]
impl LogView {
    #[new]
    #[pyo3(signature = (options, end=None, ranges=None, *, locked=false))]
    fn new(
        py: Python<'_>,
        options: EngineOptions,
        end: Option<u64>,
        ranges: Option<Py<PyAny>>,
        locked: bool,
    ) -> PyResult<Self> {
        let config = StoreConfig::from(options);
        let fs = file_system(ranges, &config.store_path_root_dir);
        let open = || match locked {
            true => CoreLogView::open_locked(config, fs, Arc::new(SystemClock)),
            false => CoreLogView::open(config, fs, Arc::new(SystemClock), end),
        };
        Ok(Self {
            core: interruptible_alone(py, open)?,
            queues: Mutex::default(),
            index_files: Mutex::default(),
            look: Mutex::default(),
        })
    }

    /// Lets go of the store's lock, where it is held.
    fn unlock(&self) {
        self.core.unlock();
    }

    #[getter]
    fn min_offset(&self) -> u64 {
        self.core.min_offset()
    }

    #[getter]
    fn named_begin(&self) -> u64 {
        self.core.named_begin()
    }

    #[getter]
    fn end(&self) -> u64 {
        self.core.end()
    }

    /// What was on the disk behind the end and is there no more: from, to, why; not where the end was given.
    #[getter]
    fn lost_end(&self) -> Option<GapRow> {
        self.core.lost_end().as_ref().map(gap_row)
    }

    /// Where the log began when its last writer closed the store, where nobody has written to it since.
    #[getter]
    fn begin_when_closed(&self) -> Option<u64> {
        self.core.begin_when_closed()
    }

    #[getter]
    fn is_live(&self) -> bool {
        self.core.is_live()
    }

    #[getter]
    fn log_file_size(&self) -> u64 {
        self.core.files().file_size()
    }

    #[getter]
    fn queue_file_size(&self, py: Python<'_>) -> PyResult<u64> {
        interruptible_alone(py, || self.core.queue_file_size())
    }

    #[getter]
    fn ext_file_size(&self, py: Python<'_>) -> PyResult<u64> {
        interruptible_alone(py, || self.core.ext_file_size())
    }

    #[getter]
    fn index_shape(&self, py: Python<'_>) -> PyResult<(u32, u32)> {
        let shape = interruptible_alone(py, || self.core.index_shape())?;
        Ok((shape.hash_slot_num, shape.index_num))
    }

    fn boundary(&self, py: Python<'_>, offset: u64) -> PyResult<u64> {
        interruptible_alone(py, || self.core.boundary(offset))
    }

    fn divide(&self, py: Python<'_>, begin: u64, to: u64, step: u64) -> PyResult<Vec<u64>> {
        interruptible_alone(py, || self.core.divide(begin, to, step))
    }

    /// Path, expected, found of files and folders of log, queues and index that are not as they should be.
    fn strays(&self, py: Python<'_>) -> PyResult<Vec<(String, String, String)>> {
        interruptible_alone(py, || {
            let mut strays = self.core.strays()?;
            strays.extend(self.core.index()?.map(|(_, faults)| faults).unwrap_or_default());
            let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
            Ok(strays.into_iter().map(|stray| (text(&stray.path), stray.expected, stray.found)).collect())
        })
    }

    fn queue_folder(&self, topic: &str, queue_id: i32) -> String {
        self.core.config().queue_folder(topic, queue_id).to_string_lossy().into_owned()
    }

    /// Topic, queue, first index, behind the last index, of every queue file.
    fn queue_files(&self, py: Python<'_>) -> PyResult<Vec<(String, i32, u64, u64)>> {
        const UNIT: u64 = CQ_STORE_UNIT_SIZE as u64;
        let queues = interruptible_alone(py, || self.queues())?;
        let rows = |queue: Arc<ConsumeQueue>| {
            let files = queue.files();
            let row = |file: &Arc<_>| -> (String, i32, u64, u64) {
                let file: &mqstore_core::mmap::mapped_file::MappedFile = file;
                let (from, to) = (file.file_from_offset() / UNIT, file.end_offset() / UNIT);
                (queue.topic().to_owned(), queue.queue_id(), from, to)
            };
            files.iter().map(row).collect::<Vec<_>>()
        };
        Ok(queues.all().into_iter().flat_map(rows).collect())
    }

    /// Place in the log, size and tags code of units as they lie in a queue's file; none behind its end.
    fn units(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        first: u64,
        count: usize,
    ) -> PyResult<Vec<(i64, i32, i64)>> {
        let units = interruptible_alone(py, || {
            let queue = self.queue(topic, queue_id)?;
            queue.map_or(Ok(Vec::new()), |queue| queue.units(first, count))
        })?;
        Ok(units.into_iter().map(|unit| (unit.physical_offset, unit.size, unit.tags_code)).collect())
    }

    /// The index files, oldest first; `None` where messages are not indexed.
    fn index_file_names(&self, py: Python<'_>) -> PyResult<Option<Vec<String>>> {
        Ok(interruptible_alone(py, || self.index_files())?
            .map(|files| files.iter().map(|file| name_of(file)).collect()))
    }

    fn holes(&self, py: Python<'_>) -> PyResult<Vec<HoleRow>> {
        Ok(hole_rows(&interruptible_alone(py, || self.look())?.holes))
    }

    /// Topic and number of a queue that the store has, and that these options would not make from the log.
    fn further_queue(&self, py: Python<'_>) -> PyResult<Option<(String, i32)>> {
        Ok(interruptible_alone(py, || self.look())?.further.clone())
    }

    /// Topic, queue, queue offset and place in the log of the messages in the holes whose heads still tell.
    fn lost_by_head(&self, py: Python<'_>) -> PyResult<Vec<(String, i32, i64, u64)>> {
        interruptible_alone(py, || repair::lost_by_head(&self.core, &self.look()?.holes))
    }

    /// Whether one of a queue's units between two indices agrees with its record; `None` where all of those are gone.
    fn agrees_with_log(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        begin: u64,
        to: u64,
    ) -> PyResult<Option<bool>> {
        interruptible_alone(py, || {
            let Some(queue) = self.queue(topic, queue_id)? else { return Ok(None) };
            repair::agrees_with_log(&self.core, &self.look()?.holes, &queue, begin, to)
        })
    }

    fn copy_repaired(&self, py: Python<'_>, folder: PathBuf) -> PyResult<Vec<HoleRow>> {
        let copy = || {
            let look = self.look()?;
            repair::copy_log(&self.core, &look.holes, &OsFileSystem, &folder).map(|_| look)
        };
        Ok(hole_rows(&interruptible_alone(py, copy)?.holes))
    }

    fn save_holes(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        interruptible_alone(py, || {
            repair::save_holes(&self.core, &self.look()?.holes, &OsFileSystem, &folder)
        })
    }

    fn fill_holes(&self, py: Python<'_>) -> PyResult<()> {
        interruptible_alone(py, || repair::fill_in_place(&self.core, &self.look()?.holes, &OsFileSystem))
    }

    fn check_log(&self, py: Python<'_>, begin: u64, to: u64) -> PyResult<LogRow> {
        let checked = interruptible_alone(py, || verify::check_log(&self.core, &*self.queues()?, begin, to))?;
        Ok(log_row(checked))
    }

    fn check_queue(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        begin: u64,
        to: u64,
    ) -> PyResult<(u64, u64, u64, FindingRows)> {
        let checked = interruptible_alone(py, || {
            let Some(queue) = self.queue(topic, queue_id)? else {
                return Ok(verify::QueueChecked::default());
            };
            verify::check_queue(&self.core, &queue, begin, to)
        })?;
        let rows = finding_rows(&checked.findings);
        Ok((checked.unit_count, checked.expired_count, checked.blank_count, rows))
    }

    /// By its name: another process may have listed more files, of which some are expired.
    fn check_index_file(&self, py: Python<'_>, name: &str) -> PyResult<(u64, u64, FindingRows)> {
        let checked = interruptible_alone(py, || {
            let files = self.index_files()?.unwrap_or_default();
            let number = files.iter().position(|file| name_of(file) == name);
            number.map_or_else(
                || Ok(verify::IndexChecked::default()),
                |number| verify::check_index_file(&self.core, &files, number),
            )
        })?;
        Ok((checked.entry_count, checked.expired_count, finding_rows(&checked.findings)))
    }
}

impl LogView {
    fn queue(&self, topic: &str, queue_id: i32) -> CoreResult<Option<Arc<ConsumeQueue>>> {
        Ok(self.queues()?.get(QueueRef { topic: topic.as_bytes(), queue_id }))
    }

    /// The queues, listed once.
    fn queues(&self) -> CoreResult<Arc<QueueTable>> {
        let mut known = self.queues.lock();
        if let Some(queues) = &*known {
            return Ok(Arc::clone(queues));
        }
        let queues = Arc::new(self.core.queues()?);
        *known = Some(Arc::clone(&queues));
        Ok(queues)
    }

    /// The holes, looked for once: that reads the whole log.
    fn look(&self) -> CoreResult<Arc<Look>> {
        let mut known = self.look.lock();
        if let Some(look) = &*known {
            return Ok(Arc::clone(look));
        }
        let look = Arc::new(repair::look(&self.core)?);
        *known = Some(Arc::clone(&look));
        Ok(look)
    }

    /// The index files, opened once.
    fn index_files(&self) -> CoreResult<IndexFiles> {
        let mut known = self.index_files.lock();
        if let Some(files) = &*known {
            return Ok(files.clone());
        }
        let files = self.core.index()?.map(|(index, _)| index.files());
        *known = Some(files.clone());
        Ok(files)
    }
}

fn name_of(file: &IndexFile) -> String {
    file.path().file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Begin, end, what is wrong there.
type HoleRow = (u64, u64, Option<String>);

fn hole_rows(holes: &[Hole]) -> Vec<HoleRow> {
    holes.iter().map(|hole| (hole.from, hole.to, hole.fault.map(|fault| fault.to_string()))).collect()
}

/// The files, oldest first; `None` where messages are not indexed.
type IndexFiles = Option<Arc<Vec<Arc<IndexFile>>>>;
/// Kind, file, topic, queue, place in the queue, place in the log, what is wrong.
type FindingRow = (&'static str, String, Option<String>, Option<i32>, Option<u64>, Option<u64>, String);
/// How many of each kind, and the first ones.
type FindingRows = (Vec<(&'static str, u64)>, Vec<FindingRow>);
/// What of it, messages, bytes of their records.
type TotalRow<Of> = (Of, u64, u64);
/// Topic, queue, first offset with its place in the log, largest offset, whether the last one was there before.
type SpanRow = (String, i32, (u64, u64), u64, bool);

/// What a range of the log holds.
#[derive(IntoPyObject)]
pub struct LogRow {
    reached: u64,
    begins_anew: Option<u64>,
    record_count: u64,
    key_count: u64,
    unit_count: u64,
    times: Option<(i64, i64)>,
    findings: FindingRows,
    spans: Vec<SpanRow>,
    by_topic: Vec<TotalRow<String>>,
    by_hour: Vec<TotalRow<i64>>,
    by_host: Vec<TotalRow<String>>,
    by_size: Vec<TotalRow<u32>>,
}

fn finding_rows(findings: &Findings) -> FindingRows {
    let counts = findings.counts.iter().map(|(kind, count)| (kind.name(), *count)).collect();
    let first = findings.first.iter().cloned().map(|finding| {
        let verify::Finding { kind, path, topic, queue_id, queue_offset, phy_offset, detail } = finding;
        (kind.name(), path, topic, queue_id, queue_offset, phy_offset, detail)
    });
    (counts, first.collect())
}

fn log_row(checked: LogChecked) -> LogRow {
    fn rows<Of>(totals: impl IntoIterator<Item = (Of, (u64, u64))>) -> Vec<TotalRow<Of>> {
        totals.into_iter().map(|(of, (count, size))| (of, count, size)).collect()
    }
    LogRow {
        reached: checked.reached,
        begins_anew: checked.begins_anew,
        record_count: checked.record_count,
        key_count: checked.key_count,
        unit_count: checked.unit_count,
        times: checked.times,
        findings: finding_rows(&checked.findings),
        spans: checked
            .spans
            .into_iter()
            .map(|span| (span.topic, span.queue_id, span.first, span.last.0, span.is_behind))
            .collect(),
        by_topic: rows(checked.totals.by_topic),
        by_hour: rows(checked.totals.by_hour),
        by_host: rows(checked.totals.by_host),
        by_size: rows(checked.totals.by_size),
    }
}
