//! Units of queues and extensions, checkpoint, positions, removed queues, what a closed store had, names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mqstore_core::format::checkpoint::CheckpointTimes;
use mqstore_core::format::closed::{self, ClosedFile};
use mqstore_core::format::cq_ext_unit::CqExtUnit;
use mqstore_core::format::cq_unit::CqUnit;
use mqstore_core::format::file_name::{from_offset, to_offset};
use mqstore_core::format::message_id::MessageId;
use mqstore_core::format::positions::DurablePositions;
use mqstore_core::format::removed_queues;

fuzz_target!(|bytes: &[u8]| {
    if let Some(unit) = CqUnit::read(bytes) {
        assert!(bytes.starts_with(&unit.to_bytes()));
        let end = unit.end();
        assert!(unit.place().is_none_or(|(offset, _)| end == i64::MAX || end.unsigned_abs() > offset));
    }
    if let Some(unit) = CqExtUnit::read(bytes) {
        assert!(bytes.starts_with(&unit.to_bytes().unwrap_or_default()));
    }
    if let Some(times) = CheckpointTimes::read(bytes) {
        assert!(bytes.starts_with(&times.to_bytes()) && times.min_timestamp() >= 0);
    }
    if let Some(positions) = DurablePositions::read(bytes) {
        assert!(bytes.starts_with(&positions.to_bytes()));
    }
    if let Some(queues) = removed_queues::read(bytes) {
        assert_eq!(removed_queues::to_bytes(&queues), bytes);
    }
    if let Some(file) = ClosedFile::read(bytes.to_vec()) {
        assert_eq!(closed::to_bytes(file.header(), file.queues()), bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert!(to_offset(text).is_none_or(|offset| from_offset(offset) == text));
        assert!(MessageId::from_hex(text).map_or(true, |id| id.to_hex() == text.to_uppercase()));
    }
});
