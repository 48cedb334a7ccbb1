//! What a client makes of messages and properties before they are put.

use mqstore_core::format::batch::BatchItem;
use mqstore_core::format::java_hash_map::JavaHashMap;
use pyo3::prelude::*;

use crate::arguments::{Body, GivenProperties};
use crate::errors;

/// A client's encoding of the messages of a batch; with `compat` whatever their properties hold.
#[pyfunction]
pub fn encode_messages(
    py: Python<'_>,
    items: Vec<(Body, i32, GivenProperties)>,
    compat: bool,
) -> PyResult<Vec<u8>> {
    let mut out = Vec::new();
    for (body, flag, given) in &items {
        let properties = given.borrow();
        if !compat {
            properties.check_separators().map_err(|refusal| errors::refusal_to_py(py, &refusal))?;
        }
        let encoded = properties.encode();
        let item = BatchItem { flag: *flag, body: body.as_slice(), properties: &encoded };
        if !item.write(&mut out) {
            let reason = "those of a message in a batch have at most 32767 bytes";
            return Err(errors::illegal(py, "properties", format!("{} bytes", encoded.len()), reason));
        }
    }
    Ok(out)
}

/// Properties in the order in which Java's `HashMap` gives them.
#[pyfunction]
pub fn properties_to_bytes(properties: GivenProperties) -> Vec<u8> {
    properties.borrow().encode()
}

/// The names of a mapping in the order in which Java's `HashMap` gives them.
#[pyfunction]
pub fn java_hash_map_order(names: Vec<String>) -> Vec<String> {
    let mut map = JavaHashMap::default();
    for name in &names {
        map.put(name.as_bytes(), &b""[..]);
    }
    map.ordered().into_iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
}
