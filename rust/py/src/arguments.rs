//! What Python gives a put, as the engine takes it.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use mqstore_core::format::host::{Host, NoHost};
use mqstore_core::format::java_hash_map::JavaHashMap;
use mqstore_core::store::Properties;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBool, PyBytes, PyCapsule, PyCapsuleMethods, PyDict, PyMemoryView, PyString};

use crate::errors;
use crate::given::{named, no_utf8};

/// Most of a wrong value that an error shows.
const MAX_SHOWN_CHARS: usize = 200;

/// A body: `bytes` as they are; of anything else that has a buffer a copy, since its content could
/// change while it is written.
pub enum Body {
    Bytes(PyBackedBytes),
    Copied(Vec<u8>),
}

impl Body {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Body {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = given.cast::<PyBytes>() {
            return Ok(Self::Bytes(PyBackedBytes::from(bytes.to_owned())));
        }
        if let Ok(buffer) = PyBuffer::<u8>::get(&given) {
            return buffer.to_vec(given.py()).map(Self::Copied);
        }
        // Of items that are no bytes.
        let view = match PyMemoryView::from(&given) {
            Ok(view) => view,
            Err(error) if error.is_instance_of::<PyTypeError>(given.py()) => {
                let kind = given.get_type();
                let reason = format!("a body is bytes or has the buffer protocol, not {}", kind.name()?);
                return Err(PyTypeError::new_err(reason));
            }
            // It has a buffer, which it does not give: a view that was released.
            Err(error) => return Err(error),
        };
        let copied = view.call_method0(to_bytes(given.py()))?;
        Ok(Self::Bytes(PyBackedBytes::from(copied.cast_into::<PyBytes>()?)))
    }
}

fn to_bytes(py: Python<'_>) -> &Bound<'_, PyString> {
    intern!(py, "tobytes")
}

/// See `once.rs`.
pub fn prepare(py: Python<'_>) {
    to_bytes(py);
}

/// Properties as a mapping of strings.
#[derive(Default)]
pub struct PropertyMap(Vec<(PyBackedStr, PyBackedStr)>);

impl PropertyMap {
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|(found, _)| found.as_bytes() == name)
    }

    pub fn borrow(&self) -> JavaHashMap<'_> {
        let mut map = JavaHashMap::default();
        for (name, value) in &self.0 {
            map.put(name.as_bytes(), value.as_bytes());
        }
        map
    }

    /// Those of an argument, or of a place in it.
    pub fn of(place: Place<'_>, expected: &str, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let pair = |name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>| {
            let name = text(name, || format!("{place}: name"))?;
            let value = text(value, || format!("{place}[{:?}]", &*name))?;
            Ok((name, value))
        };
        let pairs: PyResult<Vec<_>> = match given.cast::<PyDict>() {
            Ok(map) => map.iter().map(|(name, value)| pair(&name, &value)).collect(),
            Err(_) if !given.hasattr("items")? => return Err(wrong_type(place, given, expected)),
            Err(_) => given
                .call_method0("items")?
                .try_iter()?
                .map(|item| {
                    let (name, value) = item?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
                    pair(&name, &value)
                })
                .collect(),
        };
        pairs.map(Self)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for PropertyMap {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if given.is_none() {
            Ok(Self::default())
        } else {
            Self::of(Place::of("properties"), "a mapping of strings", &given)
        }
    }
}

/// A string at a place of an argument.
pub fn text(given: &Bound<'_, PyAny>, place: impl FnOnce() -> String) -> PyResult<PyBackedStr> {
    if given.is_instance_of::<PyString>() {
        given.extract().map_err(|error: PyErr| no_utf8(&place(), given).unwrap_or(error))
    } else {
        Err(wrong_type(place(), given, "a string"))
    }
}

/// Properties: a mapping of strings, or the string as it is stored.
pub enum GivenProperties {
    Map(PropertyMap),
    RawText(PyBackedStr),
    RawBytes(PyBackedBytes),
}

impl GivenProperties {
    pub fn borrow(&self) -> Properties<'_> {
        match self {
            Self::RawText(raw) => Properties::Raw(raw.as_bytes()),
            Self::RawBytes(raw) => Properties::Raw(raw),
            Self::Map(map) => Properties::Map(map.borrow()),
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for GivenProperties {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if given.cast::<PyString>().is_ok() {
            return given.extract().map(Self::RawText);
        }
        if given.cast::<PyBytes>().is_ok() {
            return Ok(Self::RawBytes(given.extract()?));
        }
        given.extract().map(Self::Map)
    }
}

/// Keys: one string, in which spaces separate them, or several strings.
pub enum Keys {
    Given(PyBackedStr),
    Joined(String),
}

impl Keys {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Given(keys) => keys,
            Self::Joined(keys) => keys,
        }
    }

    /// Those of an argument, or of a place in it.
    pub fn of(place: Place<'_>, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        if given.is_instance_of::<PyString>() {
            return text(given, || place.to_string()).map(Self::Given);
        }
        let expected = "a string, or several";
        if given.is_instance_of::<PyBytes>() {
            return Err(wrong_type(place, given, expected));
        }
        let several = given.try_iter().map_err(|error| named(place, expected, given, error))?;
        let mut keys = String::new();
        for (at, key) in several.enumerate() {
            let key = text(&key?, || format!("{place}[{at}]"))?;
            if key.is_empty() || key.contains(' ') {
                let reason = format!("{place}[{at}]: a key has no space and is not empty, found {:?}", &*key);
                return Err(PyValueError::new_err(reason));
            }
            if !keys.is_empty() {
                keys.push(' ');
            }
            keys.push_str(&key);
        }
        Ok(Self::Joined(keys))
    }
}

/// An argument, or one of several that it gives.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub argument: &'a str,
    pub at: Option<usize>,
}

impl<'a> Place<'a> {
    pub const fn of(argument: &'a str) -> Self {
        Self { argument, at: None }
    }
}

impl Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            None => write!(out, "{}", self.argument),
            Some(at) => write!(out, "{}[{at}]", self.argument),
        }
    }
}

/// The error for an argument of another type than is expected.
pub fn wrong_type(argument: impl Display, given: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let kind = given.get_type();
    let kind = kind.name().map_or_else(|_| "another type".into(), |name| name.to_string());
    let mut shown = given.repr().map_or_else(|_| "…".into(), |shown| shown.to_string());
    if shown.chars().count() > MAX_SHOWN_CHARS {
        shown = shown.chars().take(MAX_SHOWN_CHARS).chain(['…']).collect();
    }
    PyTypeError::new_err(format!("{argument}={shown}: expected {expected}, found {kind}"))
}

/// An integer within bounds; of another the error that Python's checks have.
pub fn checked<'py, T: for<'a> FromPyObject<'a, 'py, Error = PyErr>>(
    argument: &str,
    given: &Bound<'py, PyAny>,
    bounds: RangeInclusive<i64>,
) -> PyResult<T> {
    // A truth value is an integer to Python, and a mistake here.
    if !given.is_exact_instance_of::<PyBool>()
        && let Ok(number) = given.extract()
    {
        return Ok(number);
    }
    let checks = given.py().import("mqstore.store.arguments")?;
    checks.call_method1("checked_integer", (argument, given, *bounds.start(), *bounds.end()))?.extract()
}

/// A time: milliseconds, or a `datetime` with a time zone.
#[derive(Clone, Copy)]
pub struct TimeMs(pub i64);

impl<'a, 'py> FromPyObject<'a, 'py> for TimeMs {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if given.is_exact_instance_of::<PyBool>() {
            return Err(PyTypeError::new_err("a truth value is no time"));
        }
        if let Ok(milliseconds) = given.extract() {
            return Ok(Self(milliseconds));
        }
        let milliseconds = given.py().import("mqstore.store.times")?.call_method1("to_ms", (given,))?;
        milliseconds.extract().map(Self).map_err(|error: PyErr| {
            if error.is_instance_of::<PyOverflowError>(given.py()) {
                PyValueError::new_err(format!("expected milliseconds that a long has, found {milliseconds}"))
            } else {
                error
            }
        })
    }
}

/// A host as text: `1.2.3.4:5` or `[1::2]:5`.
pub fn host(argument: &str, text: &str) -> PyResult<Host> {
    let refused = |fault: NoHost| PyValueError::new_err(format!("{argument}: {fault}"));
    let host: Host = text.parse().map_err(refused)?;
    if u16::try_from(host.port).is_err() {
        return Err(refused(NoHost(text.to_owned())));
    }
    Ok(host)
}

/// Anything that gives a stream of Arrow: a table, a batch or a reader of any library that has it.
pub struct ArrowStream(pub RecordBatchStreamReader);

impl<'a, 'py> FromPyObject<'a, 'py> for ArrowStream {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if !given.hasattr("__arrow_c_stream__")? {
            return Err(PyTypeError::new_err(format!(
                "data: expected a table, a batch or a reader of Arrow (what has __arrow_c_stream__), found {}",
                given.get_type().name()?
            )));
        }
        let capsule = given.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
        let reader = RecordBatchStreamReader::try_new(taken(&capsule)?);
        reader.map(Self).map_err(|error| errors::arrow_error(&error))
    }
}

/// The stream that a capsule holds, which is empty then.
#[allow(unsafe_code)] // a capsule holds a pointer
fn taken(capsule: &Bound<'_, PyCapsule>) -> PyResult<FFI_ArrowArrayStream> {
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: by Arrow's PyCapsule interface a capsule of this name points to a stream that is made and that
    // nobody else uses; whoever takes it moves it out and leaves one that is released, as this does.
    Ok(unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) })
}
