//! The engine's options from the control plane's.

use std::path::PathBuf;
use std::sync::Arc;

use mqstore_core::config::{
    ADOPT_ABOVE, BY_CALL_SIZE, OnDamage, RESERVE_STEP_SIZE, StoreConfig, TransferLimit, WalkedParts,
};
use mqstore_core::filter::bit_map::FilterTable;
use mqstore_core::format::index::IndexShape;
use pyo3::prelude::*;

/// Topic, bits and expression of a group's filter.
pub type FilterRow = (String, Vec<usize>, String);

/// What `mqstore.options` has checked, by the names of its attributes.
#[derive(FromPyObject)]
#[allow(clippy::struct_excessive_bools)] // they are RocketMQ's switches
pub struct EngineOptions {
    store_path_root_dir: PathBuf,
    store_path_commit_log: Vec<PathBuf>,
    read_only_commit_log_store_paths: Vec<PathBuf>,
    mapped_file_size_commit_log: u64,
    mapped_file_size_consume_queue: u64,
    enable_consume_queue_ext: bool,
    mapped_file_size_consume_queue_ext: u64,
    message_index_enable: bool,
    message_index_safe: bool,
    max_hash_slot_num: u32,
    max_index_num: u32,
    max_message_size: u32,
    max_msgs_num_batch: usize,
    check_crc_on_recover: bool,
    enabled_append_prop_crc: bool,
    enable_lmq: bool,
    enable_multi_dispatch: bool,
    max_lmq_consume_queue_num: usize,
    duplication_enable: bool,
    delay_levels_ms: Vec<i64>,
    max_deliver_distance_ms: i64,
    max_timed_in_memory: usize,
    enable_calc_filter_bit_map: bool,
    filters: Vec<FilterRow>,
    transient_store_pool_enable: bool,
    transient_store_pool_size: usize,
    fast_fail_if_no_buffer_in_store_pool: bool,
    warm_maped_file_enable: bool,
    sync_flush: bool,
    flush_commit_log_timed: bool,
    is_slave: bool,
    max_transfer_bytes_on_message_in_memory: u64,
    max_transfer_count_on_message_in_memory: usize,
    max_transfer_bytes_on_message_in_disk: u64,
    max_transfer_count_on_message_in_disk: usize,
    access_message_in_memory_max_ratio: u8,
    os_page_cache_busy_time_out_mills: i64,
    offset_check_in_slave: bool,
    compat: bool,
    truncate_on_damage: bool,
    mended_to: Option<u64>,
    pread: bool,
    max_open_queue_files: usize,
}

impl From<EngineOptions> for StoreConfig {
    fn from(options: EngineOptions) -> Self {
        let filters = FilterTable::default();
        filters.set(options.filters);
        Self {
            store_path_root_dir: options.store_path_root_dir,
            store_path_commit_log: options.store_path_commit_log,
            read_only_commit_log_store_paths: options.read_only_commit_log_store_paths,
            mapped_file_size_commit_log: options.mapped_file_size_commit_log,
            mapped_file_size_consume_queue: options.mapped_file_size_consume_queue,
            enable_consume_queue_ext: options.enable_consume_queue_ext,
            mapped_file_size_consume_queue_ext: options.mapped_file_size_consume_queue_ext,
            message_index_enable: options.message_index_enable,
            message_index_safe: options.message_index_safe,
            index_shape: IndexShape {
                hash_slot_num: options.max_hash_slot_num,
                index_num: options.max_index_num,
            },
            max_message_size: options.max_message_size,
            max_msgs_num_batch: options.max_msgs_num_batch,
            check_crc_on_recover: options.check_crc_on_recover,
            enabled_append_prop_crc: options.enabled_append_prop_crc,
            enable_lmq: options.enable_lmq,
            enable_multi_dispatch: options.enable_multi_dispatch,
            max_lmq_consume_queue_num: options.max_lmq_consume_queue_num,
            duplication_enable: options.duplication_enable,
            delay_levels_ms: options.delay_levels_ms,
            max_deliver_distance_ms: options.max_deliver_distance_ms,
            max_timed_in_memory: options.max_timed_in_memory,
            enable_calc_filter_bit_map: options.enable_calc_filter_bit_map,
            filters: Arc::new(filters),
            removed_queues: Arc::default(),
            transient_store_pool_enable: options.transient_store_pool_enable,
            transient_store_pool_size: options.transient_store_pool_size,
            fast_fail_if_no_buffer_in_store_pool: options.fast_fail_if_no_buffer_in_store_pool,
            warm_mapped_file_enable: options.warm_maped_file_enable,
            sync_flush: options.sync_flush,
            flush_commit_log_timed: options.flush_commit_log_timed,
            is_slave: options.is_slave,
            max_transfer_in_memory: TransferLimit {
                bytes: options.max_transfer_bytes_on_message_in_memory,
                count: options.max_transfer_count_on_message_in_memory,
            },
            max_transfer_on_disk: TransferLimit {
                bytes: options.max_transfer_bytes_on_message_in_disk,
                count: options.max_transfer_count_on_message_in_disk,
            },
            access_message_in_memory_max_ratio: options.access_message_in_memory_max_ratio,
            os_page_cache_busy_timeout_ms: options.os_page_cache_busy_time_out_mills,
            offset_check_in_slave: options.offset_check_in_slave,
            compat: options.compat,
            on_damage: if options.truncate_on_damage { OnDamage::Truncate } else { OnDamage::Raise },
            mended_to: options.mended_to,
            pread: options.pread,
            max_open_queue_files: options.max_open_queue_files,
            walked_parts: WalkedParts::default(),
            by_call_size: BY_CALL_SIZE,
            reserve_step_size: RESERVE_STEP_SIZE,
            adopt_above: ADOPT_ABOVE,
        }
    }
}
