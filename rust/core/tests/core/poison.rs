//! Failures that are final.

use mqstore_core::error::Error;
use mqstore_core::poison::Poison;

#[test]
fn the_first_failure_is_told_ever_after() {
    let poison = Poison::default();
    assert!(poison.watch("flush", Ok(1)).is_ok() && !poison.is_set() && poison.check().is_ok());
    let failed: Result<(), Error> = poison.watch("flush", Err(Error::Closed));
    assert!(matches!(failed, Err(Error::Closed)));
    let _later: Result<(), Error> = poison.watch("commit", Err(Error::Closed));
    assert!(poison.is_set());
    let text = poison.check().unwrap_err().to_string();
    assert_eq!(text, "an earlier flush failed, reopen the store: the store is closed");
}
