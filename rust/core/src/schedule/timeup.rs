//! What a delayed message becomes when its time is up. Source: `ScheduleMessageService.messageTimeup`.
//!
//! The delivered record keeps `DELAY`, `REAL_TOPIC` and `REAL_QID` among its properties: 4.9.3 takes
//! the delay level away only after it has encoded them. A timed message, which 4.9.3 does not have, has
//! the properties that it was put with.

use crate::commit_log::scan::check_topic;
use crate::dispatch::{TRANS_HALF_TOPIC, holds_waiting, parse};
use crate::format::message::{MAX_TOPIC_LENGTH, Record};
use crate::format::properties;
use crate::store::{NewMessage, Properties};

/// The message that is put to the real topic, without those of its properties that are named; in the
/// other case why there is none.
pub(super) fn message_timeup<'a>(record: &Record<'a>, without: &[&[u8]]) -> Result<NewMessage<'a>, String> {
    let find = |name| properties::find(record.properties, name);
    let topic = find(properties::REAL_TOPIC).ok_or("it has no REAL_TOPIC")?;
    // Each of its own messages would come back to it for ever.
    if topic == TRANS_HALF_TOPIC || holds_waiting(topic) {
        return Err(format!("its REAL_TOPIC is {}", String::from_utf8_lossy(topic)));
    }
    if topic.len() > MAX_TOPIC_LENGTH || check_topic(topic).is_err() {
        return Err(format!("its REAL_TOPIC {:?} cannot be a topic", String::from_utf8_lossy(topic)));
    }
    let queue_id = find(properties::REAL_QID).ok_or("it has no REAL_QID")?;
    let queue_id: Option<i32> = parse(queue_id);
    let mut map = properties::to_map(record.properties);
    without.iter().for_each(|name| map.remove(name));
    Ok(NewMessage {
        topic,
        queue_id: queue_id.ok_or("its REAL_QID is no number of a queue")?,
        flag: record.flag,
        sys_flag: record.sys_flag,
        born_timestamp: record.born_timestamp,
        born_host: record.born_host,
        store_host: record.store_host,
        reconsume_times: record.reconsume_times,
        prepared_transaction_offset: 0,
        body: record.body,
        properties: Properties::Map(map),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::host::Host;

    fn record(properties: &[u8]) -> Record<'_> {
        let host = Host { ip: [127, 0, 0, 1].into(), port: 1 };
        Record {
            total_size: 0,
            magic_code: 0,
            body_crc: 0,
            queue_id: 2,
            flag: 7,
            queue_offset: 9,
            physical_offset: 11,
            sys_flag: 0,
            born_timestamp: 13,
            born_host: host,
            store_timestamp: 17,
            store_host: host,
            reconsume_times: 3,
            prepared_transaction_offset: 19,
            body: b"body",
            topic: b"SCHEDULE_TOPIC_XXXX",
            properties,
        }
    }

    #[test]
    fn it_goes_to_its_real_queue_with_all_properties() {
        let stored = record(b"REAL_QID\x015\x02DELAY\x013\x02REAL_TOPIC\x01orders");
        let found = message_timeup(&stored, &[]).map(|message| {
            let Properties::Map(map) = &message.properties else { return (message, Vec::new()) };
            let encoded = properties::encode(map);
            (message, encoded)
        });
        let Ok((message, encoded)) = found else { unreachable!("it can be delivered") };
        assert_eq!((message.topic, message.queue_id, message.flag), (&b"orders"[..], 5, 7));
        assert_eq!((message.reconsume_times, message.prepared_transaction_offset), (3, 0));
        assert_eq!(properties::find(&encoded, properties::DELAY), Some(&b"3"[..]));
        assert_eq!(properties::find(&encoded, properties::REAL_TOPIC), Some(&b"orders"[..]));
    }

    #[test]
    fn a_queue_that_can_be_put_to_can_be_delivered_to() {
        let record = record(b"REAL_TOPIC\x01orders\x02REAL_QID\x01-1");
        assert_eq!(message_timeup(&record, &[]).map(|message| message.queue_id), Ok(-1));
    }

    #[test]
    fn what_names_no_queue_is_told() {
        for properties in [
            &b""[..],
            b"REAL_QID\x015",
            b"REAL_TOPIC\x01orders",
            b"REAL_TOPIC\x01orders\x02REAL_QID\x01five",
            b"REAL_TOPIC\x01../orders\x02REAL_QID\x015",
            b"REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x015",
            b"REAL_TOPIC\x01MQSTORE_TIMED_TOPIC\x02REAL_QID\x015",
        ] {
            assert!(message_timeup(&record(properties), &[]).is_err(), "{properties:?}");
        }
    }
}
