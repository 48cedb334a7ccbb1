//! `mqstore._native.SqlFilter`.

use std::sync::Arc;

use mqstore_core::filter::SqlFilter as CoreFilter;
use mqstore_core::store::Subscription;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::arguments::{GivenProperties, wrong_type};
use crate::encoding::properties_to_bytes;
use crate::errors::detached;
use crate::given;

/// A compiled SQL92 filter.
#[pyclass(frozen, module = "mqstore")]
pub struct SqlFilter(Arc<CoreFilter>);

#[pymethods]
impl SqlFilter {
    #[new]
    #[pyo3(signature = (expression, *, compat=false))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = given::expression)] expression: &str,
        #[pyo3(from_py_with = given::compat)] compat: bool,
    ) -> PyResult<Self> {
        detached(py, || CoreFilter::compile(expression, compat)).map(|filter| Self(Arc::new(filter)))
    }

    /// Whether a message with these properties passes.
    ///
    /// A property that is missing is unknown; one that cannot be converted to the number that it is
    /// compared with makes the whole expression false.
    fn matches(&self, properties: GivenProperties) -> bool {
        self.0.matches(&properties_to_bytes(properties))
    }

    /// The expression as it was given.
    #[getter]
    fn expression(&self) -> &str {
        self.0.text()
    }

    fn __repr__(&self) -> String {
        format!("SqlFilter({:?})", self.0.text())
    }
}

/// Which messages of a queue are asked for.
pub enum GivenSubscription<'py> {
    Tags(String),
    Sql(PyRef<'py, SqlFilter>),
}

impl<'py> FromPyObject<'_, 'py> for GivenSubscription<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if given.is_instance_of::<PyString>() {
            return given.extract().map(Self::Tags);
        }
        let filter = given.extract().map(Self::Sql);
        filter.map_err(|_| wrong_type("subscription", &given, "tags, a string, or a SqlFilter"))
    }
}

impl GivenSubscription<'_> {
    /// What the engine goes by; `None` for all messages.
    pub fn parse(&self) -> Option<Subscription> {
        match self {
            Self::Tags(expression) => Subscription::parse(expression),
            Self::Sql(filter) => Some(Subscription::sql(Arc::clone(&filter.0))),
        }
    }
}
