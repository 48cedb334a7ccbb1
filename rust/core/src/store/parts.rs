//! The parts of a store as its files are, before anything is recovered, and who has it open beside.

use std::sync::Arc;

use super::Notes;
use crate::checkpoint::{LastPositions, StoreCheckpoint};
use crate::clock::Clock;
use crate::closed::Closed;
use crate::commit_log::CommitLog;
use crate::config::StoreConfig;
use crate::consume_queue::table::QueueTable;
use crate::error::{Error, Result};
use crate::fs::FileSystem;
use crate::index::IndexService;
use crate::lock::{self, Writer};
use crate::mmap::file_queue::{FileQueue, FileQueueOptions};
use crate::mmap::map_budget::MapBudget;
use crate::mmap::mapped_file::Access;
use crate::published::{self, Progress};
use crate::recovery::layout::{Layout, check_exists};
use crate::recovery::{self, Recovered, StoreState};

/// The parts of a store before it is known what they hold.
pub(super) struct Parts {
    pub(super) log: CommitLog,
    pub(super) queues: QueueTable,
    pub(super) index: Option<IndexService>,
    pub(super) checkpoint: StoreCheckpoint,
    pub(super) positions: LastPositions,
    /// As that of what is recovered; for a writer by what it has withheld.
    pub(super) flushed: u64,
    pub(super) closed: Option<Arc<Closed>>,
    pub(super) notes: Notes,
}

pub(super) fn load(
    config: &Arc<StoreConfig>,
    fs: &Arc<dyn FileSystem>,
    clock: &Arc<dyn Clock>,
    layout: &Layout,
    access: Access,
    is_live: bool,
) -> Result<Parts> {
    let options = FileQueueOptions {
        paths: config.store_path_commit_log.clone(),
        read_only_paths: config.read_only_commit_log_store_paths.clone(),
        file_size: layout.log_file_size,
        access,
        budget: Some(MapBudget::of_log()),
    };
    let files = FileQueue::new(Arc::clone(fs), options, &layout.log);
    let log = CommitLog::new(Arc::clone(config), Arc::clone(clock), files)?;
    let queues = QueueTable::new(Arc::clone(config), Arc::clone(fs), access, &layout.queues)?;
    let mut notes = Notes { strays: layout.faults.clone(), ..Notes::default() };
    notes.strays.extend(config.removed_queues.load(&**fs, &config.own_dir(), log.files())?);
    let abort = config.abort_file();
    notes.closed_cleanly = fs.metadata(&abort).map_err(Error::io("look at", &abort))?.is_none();
    let index = if config.message_index_enable {
        let index = IndexService::new(
            Arc::clone(fs),
            Arc::clone(clock),
            config.store_path_index(),
            config.index_shape,
            access,
        );
        notes.strays.extend(index.load(is_live)?.faults);
        Some(index)
    } else {
        None
    };
    let (checkpoint, positions) =
        StoreCheckpoint::load(Arc::clone(fs), config.store_checkpoint(), &config.own_dir())?;
    // From elsewhere the end is found by the queues, and nothing dispatched that they lack.
    let closed = if is_live || fs.is_remote() {
        None
    } else {
        Closed::load(&**fs, &config.own_dir(), notes.closed_cleanly)?.map(Arc::new)
    };
    Ok(Parts { log, queues, index, checkpoint, positions, flushed: 0, closed, notes })
}

/// The options of what reads log and queues alone.
pub(super) fn without_index(config: StoreConfig) -> Arc<StoreConfig> {
    Arc::new(StoreConfig { message_index_enable: false, removed_queues: Arc::default(), ..config })
}

pub(super) fn load_to_read(
    config: &Arc<StoreConfig>,
    fs: &Arc<dyn FileSystem>,
    clock: &Arc<dyn Clock>,
    topics: Option<&[String]>,
    is_live: bool,
) -> Result<Parts> {
    check_exists(&**fs, config)?;
    let layout = Layout::read_part(&**fs, config, topics)?;
    let access = if config.pread { Access::Read } else { Access::MapRead };
    let flushed = published::flushed(&**fs, &config.own_dir())?;
    Ok(Parts { flushed, ..load(config, fs, clock, &layout, access, is_live)? })
}

pub(super) fn recovered<'a>(
    config: &'a StoreConfig,
    parts: &'a Parts,
    live: Option<&LiveWriter>,
    writable: bool,
) -> Recovered<'a> {
    let state = match live {
        Some(live) => live.state,
        None if parts.notes.closed_cleanly => StoreState::Closed,
        None => StoreState::Crashed,
    };
    Recovered {
        config,
        log: &parts.log,
        queues: &parts.queues,
        index: parts.index.as_ref(),
        checkpoint: &parts.checkpoint,
        positions: parts.positions,
        flushed: parts.flushed,
        closed: parts.closed.as_ref(),
        state,
        writable,
        is_remote: false,
    }
}

/// Who has a store open for writing, asked before its files are listed: what is dispatched later can be in
/// files that the listing does not have.
pub(super) struct LiveWriter {
    pub(super) holder: String,
    state: StoreState,
}

impl LiveWriter {
    /// The writer; `None` where nobody has the store open.
    pub(super) fn find(
        config: &Arc<StoreConfig>,
        fs: &Arc<dyn FileSystem>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Self>> {
        let writer = lock::writer(&**fs, &config.lock_file(), &config.own_dir())?;
        let Some(Writer { holder, progress }) = writer else { return Ok(None) };
        let live = |wrote, dispatched| StoreState::Live { wrote, dispatched };
        let mut writer = Self { holder, state: StoreState::Crashed };
        writer.state = match progress {
            // What the one before it left is made of what was known to be on the disk, as the writer does.
            Progress::Recovering => StoreState::Crashed,
            Progress::Published(published) => live(Some(published.wrote), published.dispatched),
            Progress::Untold => {
                // How far it has dispatched shows in the files that there are now.
                writer.state = live(None, 0);
                let config = without_index(StoreConfig::clone(config));
                let parts = load_to_read(&config, fs, clock, None, true)?;
                live(
                    None,
                    recovery::find_reached_by_queues(recovered(&config, &parts, Some(&writer), false))?
                        .dispatch_from,
                )
            }
        };
        Ok(Some(writer))
    }
}
