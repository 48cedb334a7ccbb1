//! The steps of a rebuild: each one call without the GIL.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use mqstore_core::config::StoreConfig;
use mqstore_core::fs::{FileSystem, OsFileSystem};
use mqstore_core::rebuild;
use mqstore_core::rebuild::segment::WorkFiles;
use mqstore_core::rebuild::{Folded, RangeSummary, StageOptions};
use pyo3::prelude::*;

use crate::log_view::LogView;
use crate::options::EngineOptions;
use crate::signals::interruptible_alone;

/// Begin, where the walk came to, records, units, index entries, parts that were passed over.
type StagedRow = (u64, u64, u64, u64, u64, Vec<(u64, u64)>);
/// Ranges that do not follow the one before and where that came to, queues, units, records,
/// index entries, names of index files, parts that were passed over.
type FoldedRow = (Vec<(u64, u64)>, u64, u64, u64, u64, Vec<String>, Vec<(u64, u64)>);

static FS: LazyLock<Arc<dyn FileSystem>> = LazyLock::new(|| Arc::new(OsFileSystem));

fn work(folder: &Path) -> WorkFiles<'_> {
    WorkFiles { fs: &FS, folder }
}

fn staged_row(summary: &RangeSummary) -> StagedRow {
    let units = summary.unit_count();
    let RangeSummary { from, reached, record_count, entry_count, .. } = *summary;
    (from, reached, record_count, units, entry_count, summary.gaps.clone())
}

#[pymethods]
impl LogView {
    #[pyo3(signature = (folder, begin, to, *, topics, with_index))]
    fn stage(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        begin: u64,
        to: u64,
        topics: Option<Vec<String>>,
        with_index: bool,
    ) -> PyResult<Option<StagedRow>> {
        let options = StageOptions { topics, with_index };
        let stage = || rebuild::stage(&self.core, work(&folder), begin, to, &options);
        Ok(interruptible_alone(py, stage)?.as_ref().map(staged_row))
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
    let folded: Folded =
        interruptible_alone(py, || rebuild::fold(&config, work(&folder), &ranges, with_index))?;
    let Folded { broken, queue_count, unit_count, record_count, entry_count, index_names, gaps } = folded;
    Ok((broken, queue_count, unit_count, record_count, entry_count, index_names, gaps))
}

/// Writes a staged range's units to the queue files; gives how many.
#[pyfunction]
pub fn rebuild_place(py: Python<'_>, options: EngineOptions, folder: PathBuf, begin: u64) -> PyResult<u64> {
    let config = StoreConfig::from(options);
    interruptible_alone(py, || rebuild::place(&config, work(&folder), begin))
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
    interruptible_alone(py, || rebuild::fill(&config, work(&folder), number, name))
}
