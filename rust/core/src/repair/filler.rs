//! The records that stand where a log had none.

use std::net::{IpAddr, Ipv4Addr};

use crate::format::host::Host;
use crate::format::message::{self, FIXED_SIZE, Place, Record, RecordFields};
use crate::format::sys_flag;
use crate::num;

/// Their topic: as short as one can be, since a hole can be as small as a record.
const HOLE_TOPIC: &[u8] = b"-";
/// Smallest one.
pub(super) const MIN_FILLER_SIZE: u64 = (FIXED_SIZE + HOLE_TOPIC.len()) as u64;

/// Whether a record fills a hole.
pub(crate) fn is_filler(record: &Record<'_>) -> bool {
    record.topic == HOLE_TOPIC && record.sys_flag == sys_flag::TRANSACTION_ROLLBACK_TYPE
}

/// A record of a size, its body zeros; `None` where no record is that small.
pub(super) fn filler(offset: u64, size: u64, store_timestamp: i64) -> Option<Vec<u8>> {
    let body = vec![0; num::index(size.checked_sub(MIN_FILLER_SIZE)?)];
    let nobody = Host { ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED), port: 0 };
    let fields = RecordFields {
        body_crc: message::body_crc(&body),
        queue_id: 0,
        flag: 0,
        sys_flag: sys_flag::TRANSACTION_ROLLBACK_TYPE,
        born_timestamp: store_timestamp,
        born_host: nobody,
        store_host: nobody,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: &body,
        topic: HOLE_TOPIC,
        properties: &[],
        append_crc: false,
    };
    let mut bytes = Vec::with_capacity(num::index(size));
    let place = Place { queue_offset: 0, physical_offset: offset, store_timestamp };
    fields.write(place, |part| bytes.extend_from_slice(part));
    Some(bytes)
}
