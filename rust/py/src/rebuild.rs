//! A store's log alone, and the steps of a rebuild: each one call without the GIL.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqstore_core::clock::SystemClock;
use mqstore_core::config::StoreConfig;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::log_view::LogView as CoreLogView;
use mqstore_core::rebuild;
use mqstore_core::rebuild::segment::WorkFiles;
use mqstore_core::rebuild::{Folded, RangeSummary, StageOptions};
use pyo3::prelude::*;

use crate::errors::detached;
use crate::options::EngineOptions;

/// Begin, where the walk came to, records, units, index entries, parts that were passed over.
type StagedRow = (u64, u64, u64, u64, u64, Vec<(u64, u64)>);
/// Ranges that do not follow the one before and where that came to, queues, units, records,
/// index entries, names of index files, parts that were passed over.
type FoldedRow = (Vec<(u64, u64)>, u64, u64, u64, u64, Vec<String>, Vec<(u64, u64)>);

fn work(folder: &Path) -> WorkFiles<'_> {
    WorkFiles { fs: &OsFileSystem, folder }
}

fn staged_row(summary: &RangeSummary) -> StagedRow {
    let units = summary.unit_count();
    let RangeSummary { from, reached, record_count, entry_count, .. } = *summary;
    (from, reached, record_count, units, entry_count, summary.gaps.clone())
}

/// A store's log, and its derived files as they lie there.
#[pyclass(frozen, module = "mqstore._native")]
pub struct LogView {
    pub(crate) core: CoreLogView,
}

#[pymethods]
impl LogView {
    #[new]
    #[pyo3(signature = (options, end=None))]
    fn new(py: Python<'_>, options: EngineOptions, end: Option<u64>) -> PyResult<Self> {
        let open = || CoreLogView::open(options.into(), Arc::new(OsFileSystem), Arc::new(SystemClock), end);
        Ok(Self { core: detached(py, open)? })
    }

    #[getter]
    fn min_offset(&self) -> u64 {
        self.core.min_offset()
    }

    #[getter]
    fn end(&self) -> u64 {
        self.core.end()
    }

    #[getter]
    fn queue_file_size(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.core.queue_file_size())
    }

    #[getter]
    fn index_shape(&self, py: Python<'_>) -> PyResult<(u32, u32)> {
        let shape = detached(py, || self.core.index_shape())?;
        Ok((shape.hash_slot_num, shape.index_num))
    }

    fn boundary(&self, py: Python<'_>, offset: u64) -> PyResult<u64> {
        detached(py, || self.core.boundary(offset))
    }

    fn divide(&self, py: Python<'_>, begin: u64, to: u64, step: u64) -> PyResult<Vec<u64>> {
        detached(py, || self.core.divide(begin, to, step))
    }

    #[pyo3(signature = (folder, begin, to, *, topics, with_index))]
    fn stage(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        begin: u64,
        to: u64,
        topics: Option<Vec<String>>,
        with_index: bool,
    ) -> PyResult<StagedRow> {
        let options = StageOptions { topics, with_index };
        let stage = || rebuild::stage(&self.core, work(&folder), begin, to, &options);
        Ok(staged_row(&detached(py, stage)?))
    }
}

/// Decides where the units of staged ranges go.
#[pyfunction]
pub fn rebuild_fold(
    py: Python<'_>,
    options: EngineOptions,
    folder: PathBuf,
    ranges: Vec<u64>,
    with_index: bool,
) -> PyResult<FoldedRow> {
    let config = StoreConfig::from(options);
    let folded: Folded = detached(py, || rebuild::fold(&config, work(&folder), &ranges, with_index))?;
    let Folded { broken, queue_count, unit_count, record_count, entry_count, index_names, gaps } = folded;
    Ok((broken, queue_count, unit_count, record_count, entry_count, index_names, gaps))
}

/// Writes a staged range's units to the queue files; gives how many.
#[pyfunction]
pub fn rebuild_place(py: Python<'_>, options: EngineOptions, folder: PathBuf, begin: u64) -> PyResult<u64> {
    let config = StoreConfig::from(options);
    detached(py, || rebuild::place(&config, work(&folder), begin))
}

/// Makes an index file; gives how many entries it has.
#[pyfunction]
pub fn rebuild_fill(
    py: Python<'_>,
    options: EngineOptions,
    folder: PathBuf,
    number: u64,
    name: &str,
) -> PyResult<u64> {
    let config = StoreConfig::from(options);
    detached(py, || rebuild::fill(&config, work(&folder), number, name))
}
