//! The arguments of calls, each told by its name where it is not what is expected.
//!
//! The better text is made once a conversion has failed: a call with what is right takes no longer for it.

use std::fmt::Display;
use std::ops::RangeInclusive;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeEncodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyInt, PyString};

use crate::arguments::{Body, Keys, Place, TimeMs, checked, text, wrong_type};

const INT: RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;
const QUEUES: RangeInclusive<i64> = 0..=i32::MAX as i64;
const LONG: RangeInclusive<i64> = i64::MIN..=i64::MAX;

/// Functions that take arguments, each of which has the argument's name.
macro_rules! arguments {
    ($($argument:ident: $kind:ty, $expected:literal;)*) => {$(
        #[allow(clippy::needless_lifetimes)] // some kinds borrow nothing
        pub fn $argument<'a>(given: &'a Bound<'_, PyAny>) -> PyResult<$kind> {
            converted(stringify!($argument), $expected, given)
        }
    )*};
}

/// The same for numbers, which are told with their bounds.
macro_rules! integers {
    ($($argument:ident: $kind:ty, $bounds:ident;)*) => {$(
        pub fn $argument(given: &Bound<'_, PyAny>) -> PyResult<$kind> {
            checked(stringify!($argument), given, $bounds)
        }
    )*};
}

arguments! {
    topic: &'a str, "a string";
    body: Body, "bytes or what has the buffer protocol";
    data: Body, "bytes or what has the buffer protocol";
    tags: Option<&'a str>, "a string";
    deliver_at: Option<TimeMs>, "a datetime or milliseconds";
    born_timestamp: Option<TimeMs>, "a datetime or milliseconds";
    wait_store_msg_ok: bool, "True or False";
    unique_key: bool, "True or False";
    partitioner: &'a str, "a string";
    key: &'a str, "a string";
    boundary: &'a str, "a string";
    expression: &'a str, "a string";
    keep_times: bool, "True or False";
    check_crc: bool, "True or False";
    read_body: bool, "True or False";
    compat: bool, "True or False";
}

integers! {
    queue_id: Option<i32>, QUEUES;
    flag: i32, INT;
    sys_flag: i32, INT;
    delay_time_level: i32, INT;
}

/// The keys of a message, of which one that is wrong is told by its place.
pub fn keys(given: &Bound<'_, PyAny>) -> PyResult<Option<Keys>> {
    if given.is_none() { Ok(None) } else { Keys::of(Place::of("keys"), given).map(Some) }
}

/// The keys that are looked up in one call.
pub fn keys_to_look_up(given: &Bound<'_, PyAny>) -> PyResult<Vec<PyBackedStr>> {
    several("keys", "several keys", given, |place, key| text(key, || place.to_string()))
}

/// Times, each told by its name where it is none, or has no room.
macro_rules! times {
    ($($argument:ident),*) => {$(
        pub fn $argument(given: &Bound<'_, PyAny>) -> PyResult<TimeMs> {
            time(Place::of(stringify!($argument)), given)
        }
    )*};
}

times!(begin, end, timestamp);

fn time(place: Place<'_>, given: &Bound<'_, PyAny>) -> PyResult<TimeMs> {
    if given.is_instance_of::<PyInt>() {
        return checked(&place.to_string(), given, LONG).map(TimeMs);
    }
    given.extract().map_err(|error| named(place, "a datetime or milliseconds", given, error))
}

/// The times that are looked up in one call.
pub fn timestamps(given: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    several("timestamps", "several times", given, |place, given| match given.extract() {
        Ok(time) => Ok(time),
        Err(_) => time(place, given).map(|time| time.0),
    })
}

/// The names of topics.
pub fn topics(given: &Bound<'_, PyAny>) -> PyResult<Vec<PyBackedStr>> {
    several("topics", "the names of several topics", given, |place, topic| text(topic, || place.to_string()))
}

/// Several of something, each read by its place.
pub fn several<'py, T>(
    argument: &str,
    expected: &str,
    given: &Bound<'py, PyAny>,
    read: impl Fn(Place<'_>, &Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    // One text is several letters, and one of bytes several numbers.
    if given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>() {
        return Err(wrong_type(argument, given, expected));
    }
    let items = given.try_iter().map_err(|error| named(Place::of(argument), expected, given, error))?;
    let mut found = Vec::with_capacity(given.len().unwrap_or(0));
    for item in items {
        found.push(read(Place { argument, at: Some(found.len()) }, &item?)?);
    }
    Ok(found)
}

/// The topic of what may have another one each.
pub fn topic_of_others<'a>(given: &'a Bound<'_, PyAny>) -> PyResult<Option<&'a str>> {
    converted("topic", "a string", given)
}

/// What of a message's fields has another type than a put's argument of that name.
pub mod field {
    use super::{Bound, INT, LONG, PyAny, PyResult, checked, converted};

    arguments! {
        born_host: Option<&'a str>, "a string";
        store_host: Option<&'a str>, "a string";
    }

    integers! {
        queue_id: i32, INT;
        born_timestamp: Option<i64>, LONG;
        reconsume_times: i32, INT;
        prepared_transaction_offset: i64, LONG;
    }
}

fn converted<'a, 'py, T>(argument: &str, expected: &str, given: &'a Bound<'py, PyAny>) -> PyResult<T>
where
    T: FromPyObject<'a, 'py>,
    T::Error: Into<PyErr>,
{
    given.extract().map_err(|error: T::Error| named(Place::of(argument), expected, given, error.into()))
}

/// An error that says of which argument, and of which place in it, it is.
pub fn named(place: Place<'_>, expected: &str, given: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = given.py();
    let kind = error.get_type(py);
    if kind.is(py.get_type::<PyTypeError>()) {
        wrong_type(place, given, expected)
    } else if kind.is(py.get_type::<PyValueError>()) || kind.is(py.get_type::<PyOverflowError>()) {
        PyErr::from_type(kind, format!("{place}: {}", error.value(py)))
    } else if kind.is(py.get_type::<PyUnicodeEncodeError>()) {
        no_utf8(&place, given).unwrap_or(error)
    } else {
        // Others may not be made of a text alone.
        error
    }
}

/// The error that Python's checks have for a string of which UTF-8 has not all.
pub fn no_utf8(place: &dyn Display, given: &Bound<'_, PyAny>) -> Option<PyErr> {
    let checks = given.py().import("mqstore.store.arguments").ok()?;
    checks.call_method1("checked_text", (place.to_string(), given)).err()
}
