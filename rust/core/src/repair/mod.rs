//! Making a damaged log one that can be walked from end to end, without moving a record.
//!
//! Every record that checks out keeps its place. What lies between two of them is filled with a record
//! of its own, of a rolled back transaction: RocketMQ walks over it, and puts it into no queue and no
//! index. Queues, index and checkpoint follow from the log.

mod believed;
mod copy;
pub(crate) mod filler;
mod foreign;
mod further;
mod holes;
mod order;
mod renamed;

pub use believed::agrees_with_log;
pub use copy::{copy_log, fill_in_place, save_holes};
pub use holes::{Hole, Look, holes, look, lost_by_head};
