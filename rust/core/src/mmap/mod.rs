//! Files of fixed size in memory: the only mapping, a file, a queue of files, slices of them.

pub mod file_queue;
pub mod map_budget;
pub mod mapped_file;
pub mod region;
pub mod slice;
pub mod transient_store_pool;
