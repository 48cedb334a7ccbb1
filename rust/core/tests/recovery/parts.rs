//! A store's parts as recovery gets them, to ask recovery alone.

use std::path::Path;
use std::sync::Arc;

use mqstore_core::checkpoint::{LastPositions, StoreCheckpoint};
use mqstore_core::clock::{Clock, ManualClock};
use mqstore_core::closed::Closed;
use mqstore_core::commit_log::CommitLog;
use mqstore_core::config::StoreConfig;
use mqstore_core::consume_queue::table::QueueTable;
use mqstore_core::dispatch::DispatchTargets;
use mqstore_core::format::positions::DurablePositions;
use mqstore_core::index::IndexService;
use mqstore_core::mmap::file_queue::{FileQueue, FileQueueOptions};
use mqstore_core::mmap::mapped_file::Access;
use mqstore_core::recovery::layout::Layout;
use mqstore_core::recovery::{Recovered, StoreState};

use crate::stores::{config, fs};

pub struct Parts {
    config: StoreConfig,
    pub log: CommitLog,
    pub queues: QueueTable,
    pub index: IndexService,
    checkpoint: StoreCheckpoint,
    pub positions: LastPositions,
    closed: Option<Arc<Closed>>,
}

impl Parts {
    pub fn of(root: &Path) -> Self {
        Self::with(config(root))
    }

    pub fn with(config: StoreConfig) -> Self {
        let (shared, access) = (Arc::new(config.clone()), Access::MapRead);
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(1_000_000));
        let layout = Layout::read(&*fs(), &config).unwrap();
        let options = FileQueueOptions {
            paths: config.store_path_commit_log.clone(),
            read_only_paths: Vec::new(),
            file_size: layout.log_file_size,
            access,
            budget: None,
        };
        let files = FileQueue::new(fs(), options, &layout.log);
        let log = CommitLog::new(Arc::clone(&shared), Arc::clone(&clock), files).unwrap();
        let queues = QueueTable::new(shared, fs(), access, &layout.queues).unwrap();
        let index = IndexService::new(fs(), clock, config.store_path_index(), config.index_shape, access);
        assert!(index.load(false).unwrap().faults.is_empty());
        let (checkpoint, positions) =
            StoreCheckpoint::load(fs(), config.store_checkpoint(), &config.own_dir()).unwrap();
        let is_closed = !config.abort_file().exists();
        let closed = Closed::load(&*fs(), &config.own_dir(), is_closed).unwrap().map(Arc::new);
        Self { config, log, queues, index, checkpoint, positions, closed }
    }

    /// As a writer recovers them.
    pub fn recovered(&self, state: StoreState) -> Recovered<'_> {
        Recovered {
            config: &self.config,
            log: &self.log,
            queues: &self.queues,
            index: Some(&self.index),
            checkpoint: &self.checkpoint,
            positions: self.positions,
            flushed: 0,
            closed: self.closed.as_ref(),
            state,
            writable: true,
            is_remote: false,
        }
    }

    pub fn targets(&self) -> DispatchTargets<'_> {
        let Self { config, log, queues, index, .. } = self;
        DispatchTargets { config, log, queues, index: Some(index) }
    }
}

/// Has the last mqstore writer have known everything below these offsets to be on the disk.
pub fn set_positions(root: &Path, log: u64, queues: u64, index: u64) {
    let positions = DurablePositions { log, queues, index };
    std::fs::write(root.join("mqstore/positions"), positions.to_bytes()).unwrap();
}

/// Has the checkpoint say these times, of log, queues and index.
pub fn set_times(root: &Path, times: [i64; 3]) {
    let mut file = vec![0; 4096];
    file[..24].copy_from_slice(&times.map(i64::to_be_bytes).concat());
    std::fs::write(root.join("checkpoint"), file).unwrap();
}
