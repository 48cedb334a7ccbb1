//! Which field of which structure a byte of a store belongs to.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use mqstore_core::format::cq_unit::CqUnit;
use mqstore_core::format::message::{self, Check, Decoded};
use mqstore_core::format::sys_flag::enters_consume_queue;

use crate::subject::Files;

/// What the format leaves uncovered: nothing but the checksum of a whole record tells of a change there.
const UNCOVERED: [&str; 9] = [
    "record: flag",
    "record: sys flag",
    "record: born time",
    "record: born host",
    "record: store time",
    "record: store host",
    "record: reconsume times",
    "record: prepared offset",
    "record: properties",
];
/// Records of which nothing says where they belong: those of no queue, and the last of a queue that has no
/// unit yet.
const ALONE: [(&str, &str); 3] = [
    ("record: queue id", "alone: queue id"),
    ("record: queue offset", "alone: queue offset"),
    ("record: topic", "alone: topic"),
];

/// Whether nothing has to tell of a change of a field.
pub(crate) fn is_uncovered(field: &str) -> bool {
    UNCOVERED.contains(&field) || field.starts_with("alone: ")
}

/// The fields of a record up to its body, and where they begin.
const HEAD: [(usize, &str); 15] = [
    (0, "record: total size"),
    (4, "record: magic code"),
    (8, "record: body CRC"),
    (12, "record: queue id"),
    (16, "record: flag"),
    (20, "record: queue offset"),
    (28, "record: physical offset"),
    (36, "record: sys flag"),
    (40, "record: born time"),
    (48, "record: born host"),
    (56, "record: store time"),
    (64, "record: store host"),
    (72, "record: reconsume times"),
    (76, "record: prepared offset"),
    (84, "record: body length"),
];
const BODY_AT: usize = 88;

/// The field of each byte of a store's log files, by the file.
#[derive(Debug)]
pub(crate) struct Fields(BTreeMap<PathBuf, Vec<&'static str>>);

impl Fields {
    /// Of a store that is whole.
    pub(crate) fn of(files: &Files) -> Self {
        let logs = files.iter().filter(|(path, _)| path.starts_with("commitlog"));
        let mut fields: BTreeMap<_, _> =
            logs.map(|(path, content)| (path.clone(), of_log(content))).collect();
        for (path, place) in alone(files) {
            let fields: &mut Vec<_> = fields.get_mut(&path).unwrap();
            for field in &mut fields[place] {
                let renamed = ALONE.iter().find(|(name, _)| name == field);
                *field = renamed.map_or(*field, |(_, alone)| alone);
            }
        }
        Self(fields)
    }

    /// The field of a byte.
    pub(crate) fn field(&self, path: &Path, at: usize) -> &'static str {
        if let Some(log) = self.0.get(path) {
            return log[at];
        }
        let is_in = |folder: &str| path.starts_with(folder);
        match path.to_str().unwrap() {
            _ if is_in("consumequeue") => ["unit: offset", "unit: size", "unit: tags code"]
                [[0..8, 8..12, 12..20].iter().position(|part| part.contains(&(at % 20))).unwrap()],
            _ if is_in("index") => of_index(at),
            "checkpoint" if at < 24 => "checkpoint: times",
            "checkpoint" => "checkpoint: zeros",
            "mqstore/positions" => "positions",
            _ => "other small files",
        }
    }
}

/// Where the records stand of which nothing says where they belong.
fn alone(files: &Files) -> Vec<(PathBuf, Range<usize>)> {
    let mut alone = Vec::new();
    let mut last = BTreeMap::new();
    for (path, content) in files.iter().filter(|(path, _)| path.starts_with("commitlog")) {
        let mut at = 0;
        while let Ok(Decoded::Message(record)) = message::decode(&content[at..], Check::BodyCrc) {
            let place = (path.clone(), at..at + record.total_size as usize);
            at = place.1.end;
            if enters_consume_queue(record.sys_flag) {
                let queue = (String::from_utf8(record.topic.to_vec()).unwrap(), record.queue_id);
                last.insert(queue, (place, record.physical_offset, record.queue_offset as usize));
            } else {
                alone.push(place);
            }
        }
    }
    for ((topic, queue_id), (place, physical_offset, queue_offset)) in last {
        let folder = PathBuf::from("consumequeue").join(topic).join(queue_id.to_string());
        let units: Vec<u8> = files
            .iter()
            .filter(|(path, _)| path.starts_with(&folder))
            .flat_map(|(_, content)| content.clone())
            .collect();
        let unit = units.get(queue_offset * 20..).and_then(CqUnit::read);
        if unit.is_none_or(|unit| unit.size == 0 || unit.physical_offset != physical_offset) {
            alone.push(place);
        }
    }
    alone
}

fn of_log(content: &[u8]) -> Vec<&'static str> {
    let mut fields = vec!["log: behind its end"; content.len()];
    let mut at = 0;
    while let Ok(decoded) = message::decode(&content[at..], Check::BodyCrc) {
        let Decoded::Message(record) = decoded else {
            fields[at..at + 8].fill("blank: head");
            fields[at + 8..].fill("blank: rest");
            break;
        };
        let end = at + record.total_size as usize;
        for (begin, name) in HEAD {
            fields[at + begin..end].fill(name);
        }
        let body_end = at + BODY_AT + record.body.len();
        fields[at + BODY_AT..body_end].fill("record: body");
        let topic_end = body_end + 1 + record.topic.len();
        fields[body_end..topic_end].fill("record: topic");
        fields[body_end] = "record: topic length";
        fields[topic_end..topic_end + 2].fill("record: properties length");
        fields[topic_end + 2..end].fill("record: properties");
        at = end;
    }
    fields
}

fn of_index(at: usize) -> &'static str {
    match at {
        0..8 => "index: begin time",
        8..16 => "index: end time",
        16..24 => "index: begin offset",
        24..32 => "index: end offset",
        32..36 => "index: slot count",
        36..40 => "index: entry count",
        40..60 => "index: slots",
        _ => match (at - 60) % 20 {
            0..4 => "index: key hash",
            4..12 => "index: entry's offset",
            12..16 => "index: time difference",
            _ => "index: previous entry",
        },
    }
}
