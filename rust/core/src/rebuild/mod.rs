//! Queues and index from the log alone, in parallel, over stores much larger than memory.
//!
//! What comes out equals, byte for byte, what one uninterrupted dispatch over the same log gives. The
//! log is divided into ranges, and a rebuild goes in steps, each of which is independent calls but
//! for the one in the middle:
//!
//! 1. [`stage`]: a range is walked. Its units, by queue, and its index entries go to work files.
//! 2. [`fold`]: in the log's order, over what the ranges counted and not over what they hold, it is
//!    decided where each range's units go in their queues and its entries in the index.
//! 3. [`place`]: a range's units are written to their places in the queue files.
//! 4. [`fill`]: an index file is made from its entries.
//!
//! A range begins where bytes look like a record. That it is one shows when the walk over the range
//! before it ends there; the fold refuses a chain that does not close, so that a record that is
//! forged inside a body is found out, and the range is staged again from where it does begin.
//!
//! Every call can be made again: work files and index files appear under their names once they are
//! whole, a unit is written where it was written before.

pub mod fill;
pub mod fold;
pub mod place;
mod queue_fold;
pub mod segment;
pub mod stage;

pub use fill::fill;
pub use fold::{Folded, fold};
pub use place::place;
pub use segment::RangeSummary;
pub use stage::{StageOptions, stage};
