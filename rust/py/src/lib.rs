//! `mqstore._native`: the engine for Python. Converts types, releases the GIL where time is spent,
//! maps errors, and decides nothing.

#![allow(clippy::needless_pass_by_value)] // arguments that Python gives arrive owned

mod append_records;
mod arguments;
mod attach;
mod bell;
mod clock;
mod dispatch_request;
mod encoding;
mod engine;
mod errors;
mod filter;
mod forking;
mod given;
mod inspect;
mod interpreter;
mod lock_file;
mod log_view;
mod message;
mod moving;
mod once;
mod options;
mod per_message;
mod put;
mod put_arrow;
mod put_many;
mod ranges;
mod reading;
mod rebuild;
mod replication;
mod results;
mod retention;
mod schedule;
mod selection;
mod signals;
mod stats;
mod status;
mod store;

use pyo3::pymodule;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::bell::Bell;
    #[pymodule_export]
    use crate::dispatch_request::DispatchRequest;
    #[pymodule_export]
    use crate::encoding::{encode_messages, java_hash_map_order, properties_to_bytes};
    #[pymodule_export]
    use crate::engine::{Arrival, Engine};
    #[pymodule_export]
    use crate::filter::SqlFilter;
    #[pymodule_export]
    use crate::lock_file::LockFile;
    #[pymodule_export]
    use crate::log_view::LogView;
    #[pymodule_export]
    use crate::message::Message;
    #[pymodule_export]
    use crate::moving::encode_records;
    #[pymodule_export]
    use crate::once::make_once;
    #[pymodule_export]
    use crate::put_arrow::RowCheck;
    #[pymodule_export]
    use crate::rebuild::{rebuild_fill, rebuild_fold, rebuild_place};
    #[pymodule_export]
    use crate::results::{GetMessageResult, PutMessageResult, QueryMessagesResult};
    #[pymodule_export]
    use crate::selection::{BadRanges, Cursor};
    #[pymodule_export]
    use crate::store::{Store, check_exists, is_mapping_risky, locked_by, read_bytes, write_whole};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::interpreter::check_first(module.py())?;
        crate::forking::prepare()?;
        crate::signals::prepare(module.py())
    }
}
