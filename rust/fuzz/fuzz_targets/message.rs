//! Records of the log: what decodes is inside the bytes, and is written again as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mqstore_core::format::message::{
    Check, Decoded, MAX_TOPIC_LENGTH, MESSAGE_MAGIC_CODE, Place, RecordFields, body_crc, decode,
};
use mqstore_core::format::message_id::MessageId;

fuzz_target!(|bytes: &[u8]| {
    let whole = decode(bytes, Check::BodyCrc);
    let Ok(Decoded::Message(record)) = decode(bytes, Check::Structure) else {
        assert!(!matches!(whole, Ok(Decoded::Message(_))));
        return;
    };
    assert_eq!(whole.is_ok(), record.body_crc == body_crc(record.body));
    assert!(record.total_size as usize <= bytes.len());
    let Ok(physical_offset) = u64::try_from(record.physical_offset) else { return };
    let id = MessageId { store_host: record.store_host, physical_offset };
    assert_eq!(MessageId::from_hex(&id.to_hex()), Ok(id));
    if record.magic_code != MESSAGE_MAGIC_CODE || record.topic.len() > MAX_TOPIC_LENGTH {
        return;
    }
    let fields = RecordFields {
        body_crc: record.body_crc,
        queue_id: record.queue_id,
        flag: record.flag,
        sys_flag: record.sys_flag,
        born_timestamp: record.born_timestamp,
        born_host: record.born_host,
        store_host: record.store_host,
        reconsume_times: record.reconsume_times,
        prepared_transaction_offset: record.prepared_transaction_offset,
        body: record.body,
        topic: record.topic,
        properties: record.properties,
        append_crc: false,
    };
    let place =
        Place { queue_offset: record.queue_offset, physical_offset, store_timestamp: record.store_timestamp };
    let mut again = Vec::new();
    fields.write(place, |part| again.extend_from_slice(part));
    // A negative length of the properties is read as none and written as 0.
    let end = again.len() - record.properties.len() - 2;
    assert_eq!(again[..end], bytes[..end]);
    assert_eq!(again[end + 2..], bytes[end + 2..again.len()]);
});
