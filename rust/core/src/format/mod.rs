//! Pure codecs, one file an on-disk structure. Nothing here does input or output.

pub mod batch;
pub mod be;
pub mod body;
pub mod checkpoint;
pub mod closed;
pub mod cq_ext_unit;
pub mod cq_unit;
pub mod file_name;
pub mod host;
pub mod index;
pub mod java_hash_map;
pub mod java_string;
pub mod message;
pub mod message_id;
pub mod positions;
pub mod properties;
pub mod record_crc;
mod record_fault;
mod record_fields;
pub mod removed_queues;
mod sealed;
pub mod sys_flag;
pub mod timed_progress;
