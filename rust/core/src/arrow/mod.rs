//! Messages as Arrow record batches.

mod build;
mod reader;
mod schema;

pub use build::record_batch;
pub use reader::{BatchOptions, MessageReader};
pub use schema::{BodyType, Column, Columns, Dialect, UnknownColumn};
