//! Whether a store's files agree with each other.
