//! The arguments of puts, each told by its name where it is not what is expected.
//!
//! The better text is made once a conversion has failed: a put of what is right takes no longer for it.

use std::ops::RangeInclusive;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arguments::{Body, Keys, Place, TimeMs, checked, wrong_type};

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
    tags: Option<&'a str>, "a string";
    deliver_at: Option<TimeMs>, "a datetime or milliseconds";
    born_timestamp: Option<TimeMs>, "a datetime or milliseconds";
    wait_store_msg_ok: bool, "True or False";
    unique_key: bool, "True or False";
    partitioner: &'a str, "a string";
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
    } else {
        // Others may not be made of a text alone.
        error
    }
}
