//! What a put of many messages gives for all of them, or for each.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PySequence, PyString};

use crate::arguments::{Body, Keys, Place, PropertyMap, TimeMs, wrong_type};
use crate::given::{named, several};

/// What messages can share, by the argument that gives it.
pub trait Shareable: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr> {
    /// The argument.
    const ARGUMENT: &'static str;
    /// What one of them is.
    const EXPECTED: &'static str;

    /// What is given at a place: the argument, or one of several in it.
    fn read(place: Place<'_>, expected: &str, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        given.extract().map_err(|error| named(place, expected, given, error))
    }
}

impl Shareable for Tags {
    const ARGUMENT: &'static str = "tags";
    const EXPECTED: &'static str = "a string";
}

impl Shareable for PropertyMap {
    const ARGUMENT: &'static str = "properties";
    const EXPECTED: &'static str = "a mapping of strings";

    fn read(place: Place<'_>, expected: &str, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(place, expected, given)
    }
}

impl Shareable for TimeMs {
    const ARGUMENT: &'static str = "deliver_at";
    const EXPECTED: &'static str = "a datetime or milliseconds";
}

/// A message's tag.
pub struct Tags(PyBackedStr);

impl Tags {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Tags {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        given.extract().map(Self)
    }
}

/// One for all messages, or one for each.
pub enum PerMessage<T> {
    One(T),
    Each(Vec<Option<T>>),
}

impl<T> PerMessage<T> {
    pub fn of(&self, at: usize) -> Option<&T> {
        match self {
            Self::One(one) => Some(one),
            Self::Each(each) => each.get(at).and_then(Option::as_ref),
        }
    }

    /// Whether it is so of one of them.
    pub fn any(&self, is_so: impl Fn(&T) -> bool) -> bool {
        match self {
            Self::One(one) => is_so(one),
            Self::Each(each) => each.iter().flatten().any(is_so),
        }
    }

    /// How many there are, where each message has its own.
    pub const fn count(&self) -> Option<usize> {
        match self {
            Self::One(_) => None,
            Self::Each(each) => Some(each.len()),
        }
    }
}

impl<'a, 'py, T: Shareable> FromPyObject<'a, 'py> for PerMessage<T> {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if are_several(&given) {
            let read = |place: Place<'_>, one: &Bound<'_, PyAny>| {
                if one.is_none() { Ok(None) } else { T::read(place, T::EXPECTED, one).map(Some) }
            };
            return several(T::ARGUMENT, T::EXPECTED, &given, read).map(Self::Each);
        }
        let expected = format!("{}, or one for each body", T::EXPECTED);
        T::read(Place::of(T::ARGUMENT), &expected, &given).map(Self::One)
    }
}

/// The bodies of several messages.
pub struct Bodies(pub Vec<Body>);

impl<'a, 'py> FromPyObject<'a, 'py> for Bodies {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let several_expected = "a list of bodies";
        if !are_several(&given) {
            return Err(wrong_type("bodies", &given, several_expected));
        }
        let expected = "bytes or what has the buffer protocol";
        let read = |place: Place<'_>, body: &Bound<'_, PyAny>| {
            body.extract().map_err(|error| named(place, expected, body, error))
        };
        several("bodies", several_expected, &given, read).map(Self)
    }
}

/// The keys of several messages.
pub struct KeysOfEach(pub Vec<Option<Keys>>);

impl<'a, 'py> FromPyObject<'a, 'py> for KeysOfEach {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let expected = "a list of the keys of each body";
        if !are_several(&given) {
            return Err(wrong_type("keys", &given, expected));
        }
        let read = |place: Place<'_>, keys: &Bound<'_, PyAny>| {
            if keys.is_none() { Ok(None) } else { Keys::of(place, keys).map(Some) }
        };
        several("keys", expected, &given, read).map(Self)
    }
}

fn are_several(given: &Bound<'_, PyAny>) -> bool {
    let is_text = given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>();
    !is_text && given.cast::<PySequence>().is_ok()
}
