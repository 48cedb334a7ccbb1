//! The options that the engine itself goes by, under RocketMQ's names in Rust's spelling.
//!
//! Which of RocketMQ's options exist, what they may be and where they come from is the control
//! plane's; what arrives here is checked already, and checked again where a bad value could do harm.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::consume_queue::EXT_FILE_SIZES;
use crate::error::{Error, Result};
use crate::filter::bit_map::FilterTable;
use crate::format::cq_unit::CQ_STORE_UNIT_SIZE;
use crate::format::index::IndexShape;
use crate::format::message::FIXED_SIZE;
use crate::removed_queues::RemovedQueues;
use crate::side_by_side::available_threads_up_to;

/// What opening a store for writing does about valid records behind a damaged one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDamage {
    /// Refuse to open, and change nothing.
    #[default]
    Raise,
    /// Cut the log at the damaged record, as 4.9.3 does.
    Truncate,
}

/// The engine's options. Defaults are 4.9.3's.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools)] // they are RocketMQ's switches
pub struct StoreConfig {
    /// The store's folder.
    pub store_path_root_dir: PathBuf,
    /// The folders of the log.
    pub store_path_commit_log: Vec<PathBuf>,
    /// Folders of the log that are only read.
    pub read_only_commit_log_store_paths: Vec<PathBuf>,
    /// Bytes of a log file, for a store that has none yet.
    pub mapped_file_size_commit_log: u64,
    /// Bytes of a queue file, for a store that has none yet.
    pub mapped_file_size_consume_queue: u64,
    /// Whether queues have an extension.
    pub enable_consume_queue_ext: bool,
    /// Bytes of a file of the extension.
    pub mapped_file_size_consume_queue_ext: u64,
    /// Whether messages are indexed by their keys.
    pub message_index_enable: bool,
    /// Whether recovery goes back as far as the index's time says.
    pub message_index_safe: bool,
    /// Slots and entries of an index file.
    pub index_shape: IndexShape,
    /// Largest record.
    pub max_message_size: u32,
    /// Most messages that a look-up by key gives.
    pub max_msgs_num_batch: usize,
    /// Whether recovery checks bodies.
    pub check_crc_on_recover: bool,
    /// Whether records get the checksum of all of them as a property, as RocketMQ 5 writes it.
    pub enabled_append_prop_crc: bool,
    /// Light queues.
    pub enable_lmq: bool,
    /// Dispatch to further queues.
    pub enable_multi_dispatch: bool,
    /// Most light queues.
    pub max_lmq_consume_queue_num: usize,
    /// Nothing is dispatched behind the confirm offset.
    pub duplication_enable: bool,
    /// Milliseconds of the delay levels, the first being level 1.
    pub delay_levels_ms: Vec<i64>,
    /// How far ahead a timed message may be due, in milliseconds.
    pub max_deliver_distance_ms: i64,
    /// Whether dispatch says of each message which groups' filters it passes.
    pub enable_calc_filter_bit_map: bool,
    /// The filters of which it does so.
    pub filters: Arc<FilterTable>,
    /// Queues whose messages in the log are no longer theirs; what opens the store reads them.
    pub removed_queues: Arc<RemovedQueues>,
    /// Most timed messages that wait in memory, those that are due first.
    pub max_timed_in_memory: usize,
    /// Whether puts go through locked memory.
    pub transient_store_pool_enable: bool,
    /// Buffers of that memory.
    pub transient_store_pool_size: usize,
    /// Whether a put fails at once when no buffer is left.
    pub fast_fail_if_no_buffer_in_store_pool: bool,
    /// Whether new log files are touched page by page and locked.
    pub warm_mapped_file_enable: bool,
    /// Whether a put waits for the disk.
    pub sync_flush: bool,
    /// Whether asynchronous flushing goes by time alone; otherwise each put wakes it.
    pub flush_commit_log_timed: bool,
    /// Whether this store follows a master.
    pub is_slave: bool,
    /// Messages of a get that are in memory: bytes and count.
    pub max_transfer_in_memory: TransferLimit,
    /// Messages of a get that are on disk: bytes and count.
    pub max_transfer_on_disk: TransferLimit,
    /// Percent of memory that counts as "in memory" behind the log's end.
    pub access_message_in_memory_max_ratio: u8,
    /// After how long an append that is under way counts as a busy page cache, in milliseconds.
    pub os_page_cache_busy_timeout_ms: i64,
    /// Whether look-ups of a slave correct offsets.
    pub offset_check_in_slave: bool,
    /// Give 4.9.3's answers where the two differ visibly.
    pub compat: bool,
    /// What to do about damage that is no torn tail.
    pub on_damage: OnDamage,
    /// Where a log ends that was just mended: what is behind goes. Its records are where they say, as far as
    /// queues told that are to be made anew.
    pub mended_to: Option<u64>,
    /// Read without mappings.
    pub pread: bool,
    /// Most queue files open at once.
    pub max_open_queue_files: usize,
    /// How the log is divided among the threads that walk it.
    pub walked_parts: WalkedParts,
    /// Bytes of records of one call from which on a system call writes them.
    pub by_call_size: usize,
    /// Bytes of the least step in which blocks of the log are reserved ahead.
    pub reserve_step_size: u64,
    /// Bytes of units in memory of a store that is only read, above which the files are looked at again.
    pub adopt_above: usize,
}

/// As [`StoreConfig::adopt_above`], where nothing else is said.
pub const ADOPT_ABOVE: usize = 16 << 20;

/// As [`StoreConfig::by_call_size`], where nothing else is said: of fewer pages than four the mapping is as fast.
pub const BY_CALL_SIZE: usize = 16 << 10;

/// As [`StoreConfig::reserve_step_size`], where nothing else is said.
pub const RESERVE_STEP_SIZE: u64 = 1 << 20;

/// How threads divide the log among them where they walk it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkedParts {
    /// About how many bytes a part has.
    pub size: u64,
    /// How many threads there are; below two of them the log is not divided.
    pub thread_count: usize,
    /// How much memory may be taken for what recovery derives of them, until dispatch puts it where it belongs.
    /// What it has no room for is walked again.
    pub derived_size: usize,
    /// From so many bytes of that on keys and units are put by a thread each.
    pub keys_aside_size: usize,
}

impl Default for WalkedParts {
    fn default() -> Self {
        // More are of no use: what is done with what they gave is done by one.
        const MAX_THREADS: usize = 8;
        // Enough for what some twelve million records give.
        let derived_size = 512 << 20;
        // Enough that handing a part over costs nothing beside it, and little enough that a store of some
        // megabytes already keeps all threads busy.
        let thread_count = available_threads_up_to(MAX_THREADS);
        Self { size: 8 << 20, thread_count, derived_size, keys_aside_size: 2 << 20 }
    }
}

/// How much a get gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferLimit {
    /// Most bytes.
    pub bytes: u64,
    /// Most messages.
    pub count: usize,
}

impl StoreConfig {
    /// The defaults, for a store in a folder.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            store_path_commit_log: vec![root.join("commitlog")],
            store_path_root_dir: root,
            read_only_commit_log_store_paths: Vec::new(),
            mapped_file_size_commit_log: 1 << 30,
            mapped_file_size_consume_queue: 300_000 * CQ_STORE_UNIT_SIZE as u64,
            enable_consume_queue_ext: false,
            mapped_file_size_consume_queue_ext: 48 << 20,
            message_index_enable: true,
            message_index_safe: false,
            index_shape: IndexShape { hash_slot_num: 5_000_000, index_num: 20_000_000 },
            max_message_size: 4 << 20,
            max_msgs_num_batch: 64,
            check_crc_on_recover: true,
            enabled_append_prop_crc: false,
            enable_lmq: false,
            enable_multi_dispatch: false,
            max_lmq_consume_queue_num: 20_000,
            duplication_enable: false,
            delay_levels_ms: Vec::new(),
            max_deliver_distance_ms: i64::MAX,
            enable_calc_filter_bit_map: false,
            filters: Arc::default(),
            removed_queues: Arc::default(),
            max_timed_in_memory: 1 << 18,
            transient_store_pool_enable: false,
            transient_store_pool_size: 5,
            fast_fail_if_no_buffer_in_store_pool: false,
            warm_mapped_file_enable: false,
            sync_flush: false,
            flush_commit_log_timed: true,
            is_slave: false,
            max_transfer_in_memory: TransferLimit { bytes: 256 << 10, count: 32 },
            max_transfer_on_disk: TransferLimit { bytes: 64 << 10, count: 8 },
            access_message_in_memory_max_ratio: 40,
            os_page_cache_busy_timeout_ms: 1000,
            offset_check_in_slave: false,
            compat: false,
            on_damage: OnDamage::Raise,
            mended_to: None,
            pread: false,
            max_open_queue_files: 512,
            walked_parts: WalkedParts::default(),
            by_call_size: BY_CALL_SIZE,
            reserve_step_size: RESERVE_STEP_SIZE,
            adopt_above: ADOPT_ABOVE,
        }
    }

    /// The consume queues' folder.
    #[must_use]
    pub fn store_path_consume_queue(&self) -> PathBuf {
        self.store_path_root_dir.join("consumequeue")
    }

    /// A consume queue's folder.
    #[must_use]
    pub fn queue_folder(&self, topic: &str, queue_id: i32) -> PathBuf {
        self.store_path_consume_queue().join(topic).join(queue_id.to_string())
    }

    /// The extensions' folder.
    #[must_use]
    pub fn store_path_consume_queue_ext(&self) -> PathBuf {
        self.store_path_root_dir.join("consumequeue_ext")
    }

    /// The folder of a consume queue's extension.
    #[must_use]
    pub fn queue_ext_folder(&self, topic: &str, queue_id: i32) -> PathBuf {
        self.store_path_consume_queue_ext().join(topic).join(queue_id.to_string())
    }

    /// The index files' folder.
    #[must_use]
    pub fn store_path_index(&self) -> PathBuf {
        self.store_path_root_dir.join("index")
    }

    /// The checkpoint.
    #[must_use]
    pub fn store_checkpoint(&self) -> PathBuf {
        self.store_path_root_dir.join("checkpoint")
    }

    /// The file that says that a store was not closed.
    #[must_use]
    pub fn abort_file(&self) -> PathBuf {
        self.store_path_root_dir.join("abort")
    }

    /// The file that is locked by a writer.
    #[must_use]
    pub fn lock_file(&self) -> PathBuf {
        self.store_path_root_dir.join("lock")
    }

    /// The folder for what RocketMQ does not have.
    #[must_use]
    pub fn own_dir(&self) -> PathBuf {
        self.store_path_root_dir.join("mqstore")
    }

    /// The highest delay level.
    #[must_use]
    pub fn max_delay_level(&self) -> i32 {
        crate::num::java_int(self.delay_levels_ms.len())
    }

    /// When a message of a delay level is due. Source: `computeDeliverTimestamp`.
    #[must_use]
    pub fn deliver_timestamp(&self, delay_level: i32, store_timestamp: i64) -> i64 {
        let level = usize::try_from(delay_level - 1).ok();
        let delay = level.and_then(|level| self.delay_levels_ms.get(level)).copied();
        store_timestamp.saturating_add(delay.unwrap_or(1000))
    }

    /// Refuses values that would break the files.
    ///
    /// # Errors
    /// Names the first option with a bad value.
    pub fn validate(&self) -> Result<()> {
        let bad = |option: &'static str, value: u64, reason: &str| {
            Err(Error::Option { option, value: value.to_string(), reason: reason.into() })
        };
        let unit = CQ_STORE_UNIT_SIZE as u64;
        let int_max = i32::MAX.unsigned_abs().into();
        let log = self.mapped_file_size_commit_log;
        if log < FIXED_SIZE as u64 + 8 || log > int_max {
            return bad(
                "mappedFileSizeCommitLog",
                log,
                "a log file holds at least one record, and at most 2 GiB",
            );
        }
        if self.max_timed_in_memory == 0 {
            return bad("max_timed_in_memory", 0, "at least one message waits in memory");
        }
        let queue = self.mapped_file_size_consume_queue;
        if queue == 0 || !queue.is_multiple_of(unit) || queue > int_max {
            return bad("mappedFileSizeConsumeQueue", queue, "it must be a multiple of 20, up to 2 GiB");
        }
        let ext = self.mapped_file_size_consume_queue_ext;
        if self.enable_consume_queue_ext && !EXT_FILE_SIZES.contains(&ext) {
            return bad("mappedFileSizeConsumeQueueExt", ext, "it must be between 64 bytes and 2 GiB");
        }
        let IndexShape { hash_slot_num, index_num } = self.index_shape;
        if hash_slot_num == 0 {
            return bad("maxHashSlotNum", 0, "an index file needs at least one slot");
        }
        if index_num < 2 {
            return bad("maxIndexNum", index_num.into(), "entry 0 stays empty, so 2 is the least");
        }
        if self.index_shape.file_size() as u64 > int_max {
            return bad(
                "maxIndexNum",
                index_num.into(),
                "with maxHashSlotNum slots an index file passes 2 GiB",
            );
        }
        Ok(())
    }

    /// Whether a path is one of the log's folders.
    #[must_use]
    pub fn is_commit_log_path(&self, path: &Path) -> bool {
        self.log_folders().into_iter().any(|known| known == path)
    }

    /// The folders that a log lies in.
    #[must_use]
    pub fn log_folders(&self) -> BTreeSet<&PathBuf> {
        self.store_path_commit_log.iter().chain(&self.read_only_commit_log_store_paths).collect()
    }
}
