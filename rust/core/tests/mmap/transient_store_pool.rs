//! The pool of locked memory.

use std::sync::Arc;

use mqstore_core::mmap::transient_store_pool::TransientStorePool;

#[test]
fn buffers_are_lent_and_given_back() {
    let pool = TransientStorePool::new(2, 4096).unwrap();
    let (a, b) = (pool.borrow_buffer().unwrap(), pool.borrow_buffer().unwrap());
    assert!(!Arc::ptr_eq(&a, &b));
    assert_eq!((a.len(), pool.available_buffer_count()), (4096, 0));
    assert!(pool.borrow_buffer().is_none());
    assert!(a.write(4090, b"ab"));
    pool.return_buffer(b);
    assert_eq!(pool.available_buffer_count(), 1);
    assert!(pool.borrow_buffer().is_some());
}

#[test]
fn a_pool_of_none_lends_nothing() {
    let pool = TransientStorePool::new(0, 4096).unwrap();
    assert!(pool.borrow_buffer().is_none());
}
