//! Everything that a store can be asked for, and what it answers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use mqstore_core::commit_log::scan::scan;
use mqstore_core::consume_queue::Boundary;
use mqstore_core::error::Result;
use mqstore_core::format::message::{Check, Record, decode_record};
use mqstore_core::format::properties::DispatchProperties;
use mqstore_core::index::KeyQuery;
use mqstore_core::selection::{QueueRange, Selection};
use mqstore_core::store::Store;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Question {
    /// The message at an offset of a queue.
    Get(String, i32, u64),
    /// The messages with a key.
    Key(String, String),
    /// The record at a place.
    Place(u64),
    /// The whole log.
    Log,
    /// The messages of a topic.
    Topic(String),
    /// The first offset of a queue at a time or behind.
    Time(String, i32, i64),
}

/// An answer: records, or an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Records(Vec<Vec<u8>>),
    Offset(u64),
}

/// All answers.
pub(crate) type Answers = BTreeMap<Question, Answer>;

/// What is asked of a whole store, and of each damaged copy beside what that has itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    queues: BTreeSet<(String, i32)>,
    keys: BTreeSet<(String, String)>,
    places: BTreeSet<u64>,
    times: BTreeSet<i64>,
}

impl Known {
    /// What a whole store has.
    pub(crate) fn of(store: &Store) -> Self {
        let mut known = Self::default();
        let log = store.log();
        scan(
            log.files(),
            store.first_offset(),
            store.max_phy_offset(),
            Check::BodyCrc,
            |offset, record, _| {
                let topic = String::from_utf8(record.topic.to_vec()).unwrap();
                let keys = DispatchProperties::of(record.properties).index_keys();
                known.keys.extend(keys.map(|key| (topic.clone(), String::from_utf8(key.to_vec()).unwrap())));
                known.queues.insert((topic, record.queue_id));
                known.places.insert(offset);
                known.times.insert(record.store_timestamp);
                Ok(ControlFlow::Continue(()))
            },
        )
        .unwrap();
        known
    }
}

/// Asks a store everything.
///
/// # Errors
/// Where it fails to answer.
pub(crate) fn ask(store: &Arc<Store>, known: &Known) -> Result<Answers> {
    let mut answers = Answers::new();
    let own = store.queues().all().into_iter().map(|queue| (queue.topic().to_owned(), queue.queue_id()));
    let queues: BTreeSet<_> = own.chain(known.queues.iter().cloned()).collect();
    for (topic, queue_id) in &queues {
        get_all(store, topic, *queue_id, &mut answers)?;
        for &time in &known.times {
            let offset = store.get_offset_in_queue_by_time(topic, *queue_id, time, Boundary::Lower)?;
            answers.insert(Question::Time(topic.clone(), *queue_id, time), Answer::Offset(offset));
        }
    }
    for (topic, key) in &known.keys {
        let query =
            KeyQuery { topic: topic.as_bytes(), key: key.as_bytes(), max_num: 100, begin: 0, end: i64::MAX };
        let found = store.query_message(&query)?;
        let records = found.iter().map(|bytes| bytes.to_vec()).collect();
        answers.insert(Question::Key(topic.clone(), key.clone()), Answer::Records(records));
    }
    for &place in &known.places {
        let found = store.record_at(place)?;
        let records = found.iter().map(|bytes| bytes.to_vec()).collect();
        answers.insert(Question::Place(place), Answer::Records(records));
    }
    answers.insert(Question::Log, select(store, &Selection::default())?);
    let topics: BTreeSet<_> = queues.into_iter().map(|(topic, _)| topic).collect();
    for topic in topics {
        let range = QueueRange { topic: topic.clone(), queue_id: None, from: None, to: None };
        let selection = Selection { queues: Some(vec![range]), ..Selection::default() };
        answers.insert(Question::Topic(topic), select(store, &selection)?);
    }
    Ok(answers)
}

fn get_all(store: &Store, topic: &str, queue_id: i32, answers: &mut Answers) -> Result<()> {
    let mut next = store.get_message(topic, queue_id, 0, 1, None)?.min_offset;
    loop {
        let got = store.get_message(topic, queue_id, next, 32, None)?;
        for message in got.messages.iter() {
            let question = Question::Get(topic.to_owned(), queue_id, message.queue_offset());
            answers.insert(question, Answer::Records(vec![message.bytes().to_vec()]));
        }
        if got.next_begin_offset <= next {
            return Ok(());
        }
        next = got.next_begin_offset;
    }
}

fn select(store: &Arc<Store>, selection: &Selection) -> Result<Answer> {
    let mut cursor = selection.cursor(Arc::clone(store))?;
    let mut found = Vec::new();
    loop {
        let messages = cursor.next_messages(100, 1 << 20)?;
        if messages.is_empty() {
            return Ok(Answer::Records(found));
        }
        found.extend(messages.iter().map(|message| message.bytes().to_vec()));
    }
}

/// How answers compare with those of the whole store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Whether every answer is the same.
    pub(crate) is_same: bool,
    /// Whether all that differs is what the format leaves uncovered, in messages that are all there.
    pub(crate) is_same_but_uncovered: bool,
    /// A message that was never stored like that.
    pub(crate) wrong: Option<String>,
}

/// Compares.
pub(crate) fn compare(whole: &Answers, found: &Answers) -> Compared {
    let mut compared = Compared { is_same: whole == found, is_same_but_uncovered: true, wrong: None };
    if compared.is_same {
        return compared;
    }
    let changed =
        Changed::between(records_of(whole.get(&Question::Log)), records_of(found.get(&Question::Log)));
    for (question, answer) in found {
        let expected = records_of(whole.get(question));
        for bytes in records_of(Some(answer)) {
            let is_expected = expected.iter().any(|expected| is_same_but_uncovered(expected, bytes));
            if !is_expected && !changed.has_other_keys(question, bytes) {
                compared.wrong = Some(format!("{question:?} gave {}", described(bytes)));
            }
        }
    }
    let questions: BTreeSet<_> = whole.keys().chain(found.keys()).collect();
    compared.is_same_but_uncovered = compared.wrong.is_none()
        && questions
            .into_iter()
            .all(|question| changed.explains(question, whole.get(question), found.get(question)));
    compared
}

/// What changed in records of which only uncovered fields did.
#[derive(Debug, Default)]
struct Changed {
    times: bool,
    /// Where those stand that have other properties, and may have other keys.
    properties: BTreeSet<i64>,
}

impl Changed {
    fn between(whole: &[Vec<u8>], found: &[Vec<u8>]) -> Self {
        let mut changed = Self::default();
        for (whole, found) in whole.iter().zip(found) {
            let (Some(whole), Some(found)) = (decode_record(whole), decode_record(found)) else { continue };
            changed.times |= whole.store_timestamp != found.store_timestamp;
            if whole.properties != found.properties {
                changed.properties.insert(whole.physical_offset);
            }
        }
        changed
    }

    /// Whether a message that was asked for by its key has other properties, and so another key, than it had.
    fn has_other_keys(&self, question: &Question, found: &[u8]) -> bool {
        let place = decode_record(found).map(|record| record.physical_offset);
        matches!(question, Question::Key(..)) && place.is_some_and(|place| self.properties.contains(&place))
    }

    /// Whether an answer differs from what it was by no more than that.
    fn explains(&self, question: &Question, whole: Option<&Answer>, found: Option<&Answer>) -> bool {
        if matches!(question, Question::Time(..)) {
            return self.times || whole == found;
        }
        let is_key = matches!(question, Question::Key(..));
        let places = |answer| {
            let places =
                records_of(answer).iter().filter_map(|bytes| Some(decode_record(bytes)?.physical_offset));
            places.filter(|place| !is_key || !self.properties.contains(place)).collect::<Vec<_>>()
        };
        places(whole) == places(found)
    }
}

fn described(bytes: &[u8]) -> String {
    let described = |record: Record<'_>| {
        let Record { topic, queue_id, queue_offset, physical_offset, .. } = record;
        let topic = String::from_utf8_lossy(topic);
        format!("offset {queue_offset} of {topic:?} {queue_id}, which stands at {physical_offset}")
    };
    decode_record(bytes).map_or_else(|| "no record".into(), described)
}

fn records_of(answer: Option<&Answer>) -> &[Vec<u8>] {
    match answer {
        Some(Answer::Records(records)) => records,
        _ => &[],
    }
}

/// Whether two records are the same, what nothing covers aside.
fn is_same_but_uncovered(expected: &[u8], found: &[u8]) -> bool {
    let covered = |record: &Record<'_>| {
        let Record { total_size, queue_id, queue_offset, physical_offset, .. } = *record;
        (total_size, queue_id, queue_offset, physical_offset, record.body.to_vec(), record.topic.to_vec())
    };
    match (decode_record(expected), decode_record(found)) {
        (Some(expected), Some(found)) => covered(&expected) == covered(&found),
        _ => false,
    }
}
