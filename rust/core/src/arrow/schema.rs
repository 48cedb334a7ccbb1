//! The columns that messages have as Arrow.
//!
//! | column | type | |
//! |--------|------|-|
//! | `topic` | string | |
//! | `queue_id` | int32 | |
//! | `queue_offset` | int64 | |
//! | `commit_log_offset` | int64 | |
//! | `store_size` | int32 | bytes of the record |
//! | `body_crc` | int32 | |
//! | `flag` | int32 | |
//! | `sys_flag` | int32 | |
//! | `born_timestamp` | timestamp\[ms, UTC\] | |
//! | `born_host` | string | |
//! | `store_timestamp` | timestamp\[ms, UTC\] | |
//! | `store_host` | string | |
//! | `reconsume_times` | int32 | |
//! | `prepared_transaction_offset` | int64 | |
//! | `msg_id` | string | |
//! | `unique_key` | string, null where there is none | |
//! | `tags` | string, null where there are none | |
//! | `keys` | list of string | |
//! | `properties` | map of string to string | |
//! | `raw_properties` | binary | as they are stored: as texts different bytes that are no UTF-8 can be the same |
//! | `body` | binary or binary view | inflated where a client compressed it |
//! | `raw_body` | binary or binary view | as it is stored |
//!
//! For Spark every column and every element can be null, times are in microseconds and the elements of
//! a list have another name: Spark takes a batch only where its schema is the very one it expects.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};

use crate::commit_log::Bodies;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the module's table has them
pub enum Column {
    Topic,
    QueueId,
    QueueOffset,
    CommitLogOffset,
    StoreSize,
    BodyCrc,
    Flag,
    SysFlag,
    BornTimestamp,
    BornHost,
    StoreTimestamp,
    StoreHost,
    ReconsumeTimes,
    PreparedTransactionOffset,
    MsgId,
    UniqueKey,
    Tags,
    Keys,
    Properties,
    RawProperties,
    Body,
    RawBody,
}

impl Column {
    /// All columns, in the order of the table.
    pub const ALL: [Self; 22] = [
        Self::Topic,
        Self::QueueId,
        Self::QueueOffset,
        Self::CommitLogOffset,
        Self::StoreSize,
        Self::BodyCrc,
        Self::Flag,
        Self::SysFlag,
        Self::BornTimestamp,
        Self::BornHost,
        Self::StoreTimestamp,
        Self::StoreHost,
        Self::ReconsumeTimes,
        Self::PreparedTransactionOffset,
        Self::MsgId,
        Self::UniqueKey,
        Self::Tags,
        Self::Keys,
        Self::Properties,
        Self::RawProperties,
        Self::Body,
        Self::RawBody,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::QueueId => "queue_id",
            Self::QueueOffset => "queue_offset",
            Self::CommitLogOffset => "commit_log_offset",
            Self::StoreSize => "store_size",
            Self::BodyCrc => "body_crc",
            Self::Flag => "flag",
            Self::SysFlag => "sys_flag",
            Self::BornTimestamp => "born_timestamp",
            Self::BornHost => "born_host",
            Self::StoreTimestamp => "store_timestamp",
            Self::StoreHost => "store_host",
            Self::ReconsumeTimes => "reconsume_times",
            Self::PreparedTransactionOffset => "prepared_transaction_offset",
            Self::MsgId => "msg_id",
            Self::UniqueKey => "unique_key",
            Self::Tags => "tags",
            Self::Keys => "keys",
            Self::Properties => "properties",
            Self::RawProperties => "raw_properties",
            Self::Body => "body",
            Self::RawBody => "raw_body",
        }
    }

    /// Whether another column has it in the form that is mostly wanted.
    #[must_use]
    pub const fn is_raw(self) -> bool {
        matches!(self, Self::RawProperties | Self::RawBody)
    }

    /// Whether it is made of properties, for which a message's property string is taken apart.
    pub(super) const fn is_of_properties(self) -> bool {
        matches!(self, Self::UniqueKey | Self::Tags | Self::Keys | Self::Properties)
    }

    fn data_type(self, body: BodyType, dialect: Dialect) -> DataType {
        match self {
            Self::Topic | Self::BornHost | Self::StoreHost | Self::MsgId | Self::UniqueKey | Self::Tags => {
                DataType::Utf8
            }
            Self::QueueId
            | Self::StoreSize
            | Self::BodyCrc
            | Self::Flag
            | Self::SysFlag
            | Self::ReconsumeTimes => DataType::Int32,
            Self::QueueOffset | Self::CommitLogOffset | Self::PreparedTransactionOffset => DataType::Int64,
            Self::BornTimestamp | Self::StoreTimestamp => timestamp_type(dialect),
            Self::Keys => DataType::List(key_field(dialect)),
            Self::Properties => DataType::Map(properties_field(dialect), false),
            Self::RawProperties => DataType::Binary,
            Self::Body | Self::RawBody => match body {
                BodyType::Binary => DataType::Binary,
                BodyType::BinaryView => DataType::BinaryView,
            },
        }
    }

    fn is_nullable(self, dialect: Dialect) -> bool {
        dialect == Dialect::Spark || matches!(self, Self::UniqueKey | Self::Tags)
    }
}

/// How bodies are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyType {
    /// Copied end to end.
    #[default]
    Binary,
    /// As views into the store's files, without a copy.
    BinaryView,
}

/// For whom the batches are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// Anybody who reads Arrow.
    #[default]
    Arrow,
    /// Spark's data sources.
    Spark,
}

/// A name that is no column's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no column {0:?}; the columns are {all}", all = Column::ALL.map(Column::name).join(", "))]
pub struct UnknownColumn(pub String);

/// Which columns, in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    pub(super) columns: Vec<Column>,
    pub(super) body: BodyType,
    pub(super) dialect: Dialect,
}

impl Columns {
    /// All columns but the raw ones, which others have in another form.
    #[must_use]
    pub fn all(body: BodyType) -> Self {
        let columns = Column::ALL.into_iter().filter(|column| !column.is_raw()).collect();
        Self { columns, body, dialect: Dialect::Arrow }
    }

    /// Columns by their names.
    ///
    /// # Errors
    /// The first name that is no column's.
    pub fn by_name<'a>(
        names: impl IntoIterator<Item = &'a str>,
        body: BodyType,
    ) -> Result<Self, UnknownColumn> {
        let column = |name: &str| {
            let found = Column::ALL.into_iter().find(|column| column.name() == name);
            found.ok_or_else(|| UnknownColumn(name.to_owned()))
        };
        let columns = names.into_iter().map(column).collect::<Result<_, _>>()?;
        Ok(Self { columns, body, dialect: Dialect::Arrow })
    }

    /// The same columns for somebody else.
    #[must_use]
    pub const fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Whether one of them is a body, and how it is taken.
    #[must_use]
    pub fn bodies(&self) -> Bodies {
        let is_body = |column: &Column| matches!(column, Column::Body | Column::RawBody);
        match self.body {
            _ if !self.columns.iter().any(is_body) => Bodies::Unwanted,
            BodyType::Binary => Bodies::Read,
            BodyType::BinaryView => Bodies::Wanted,
        }
    }

    /// As [`Columns::bodies`], where each body is held against its CRC also if none is a column.
    #[must_use]
    pub fn checked_bodies(&self) -> Bodies {
        match self.bodies() {
            Bodies::Unwanted => Bodies::Wanted,
            wanted => wanted,
        }
    }

    /// Their schema.
    #[must_use]
    pub fn schema(&self) -> Arc<Schema> {
        let field = |column: &Column| {
            let data_type = column.data_type(self.body, self.dialect);
            Field::new(column.name(), data_type, column.is_nullable(self.dialect))
        };
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Fields>()))
    }
}

pub(super) fn timestamp_type(dialect: Dialect) -> DataType {
    let unit = match dialect {
        Dialect::Arrow => TimeUnit::Millisecond,
        Dialect::Spark => TimeUnit::Microsecond,
    };
    DataType::Timestamp(unit, Some("UTC".into()))
}

pub(super) fn key_field(dialect: Dialect) -> Arc<Field> {
    Arc::new(match dialect {
        Dialect::Arrow => Field::new("item", DataType::Utf8, false),
        Dialect::Spark => Field::new("element", DataType::Utf8, true),
    })
}

pub(super) fn properties_field(dialect: Dialect) -> Arc<Field> {
    let is_nullable = dialect == Dialect::Spark;
    let pair = [Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, is_nullable)];
    Arc::new(Field::new("entries", DataType::Struct(Fields::from(pair.to_vec())), false))
}
