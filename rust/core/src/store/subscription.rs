//! Which messages a get asks for.

use std::collections::HashSet;
use std::sync::Arc;

use crate::filter::SqlFilter;
use crate::format::java_string::hash_code;
use crate::format::properties;

/// Which messages of its queues a get asks for: by tags, or by a filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscription {
    tags: HashSet<Vec<u8>>,
    codes: HashSet<i32>,
    sql: Option<Arc<SqlFilter>>,
}

impl Subscription {
    /// Tags separated by `||`; `None` for an expression that asks for all: empty, or `*`.
    /// Source: `FilterAPI.buildSubscriptionData`.
    #[must_use]
    pub fn parse(expression: &str) -> Option<Self> {
        if expression.is_empty() || expression == "*" {
            return None;
        }
        let mut subscription = Self::default();
        for tag in expression.split("||").map(str::trim).filter(|tag| !tag.is_empty()) {
            subscription.codes.insert(hash_code(tag.as_bytes()));
            subscription.tags.insert(tag.as_bytes().to_vec());
        }
        Some(subscription)
    }

    /// Messages that pass a filter.
    #[must_use]
    pub fn sql(filter: Arc<SqlFilter>) -> Self {
        Self { sql: Some(filter), ..Self::default() }
    }

    /// Whether the messages asked for are those that pass a filter.
    pub(super) const fn is_sql(&self) -> bool {
        self.sql.is_some()
    }

    /// Whether a tag's hash is one that is asked for. Source: `DefaultMessageFilter`.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // Java's `intValue`, on purpose
    pub fn matches_code(&self, tags_code: i64) -> bool {
        self.is_sql() || self.codes.contains(&(tags_code as i32))
    }

    /// Whether a message's properties are what is asked for: its tag, or that it passes the filter.
    #[must_use]
    pub fn matches_properties(&self, properties: &[u8]) -> bool {
        if let Some(sql) = &self.sql {
            return sql.matches(properties);
        }
        properties::find(properties, properties::TAGS).is_some_and(|tag| self.tags.contains(tag))
    }
}
