//! Messages as Arrow record batches, and record batches as messages.

mod bodies;
mod build;
mod columns;
mod memory;
mod messages;
mod reader;
mod records;
mod schema;
mod texts;
mod values;

pub use build::record_batch;
pub use messages::{MessageRows, PutRows, RowFault, Shared, queue_by_keys};
pub use reader::{BatchOptions, MessageReader};
pub use records::{encode_records, offsets_of};
pub use schema::{BodyType, Column, Columns, Dialect, UnknownColumn};
pub use values::BatchFault;
