//! What the lives of these tests are made up of, by chance.

use crate::delays::DELAYS_MS;
use crate::removals::Removal;
use crate::workload::{CONFIG_FILES, Put, QUEUES, TOPICS};

/// A step of a store's life.
#[derive(Debug)]
pub(crate) enum Step {
    /// Messages, in one call.
    Put(Vec<Put>),
    FlushLog,
    Dispatch,
    FlushQueues,
    FlushEverything,
    Commit,
    EndFile,
    /// Space ahead of the writer.
    Allocate,
    /// A file of the folder `config` is replaced.
    Config(&'static str, Vec<u8>),
    /// The log's first file goes, and what queues and index have of it.
    Retention,
    /// Queues go, though the log has their messages.
    Remove(Removal),
    /// What is due of a delay level is delivered, so many at most.
    Deliver(i32, usize),
    /// How far each level is delivered is written down.
    WriteDelays,
}

/// How often a life has each step, in so many of all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) put: u32,
    pub(crate) put_many: u32,
    pub(crate) flush_log: u32,
    pub(crate) dispatch: u32,
    pub(crate) flush_queues: u32,
    pub(crate) flush_everything: u32,
    pub(crate) commit: u32,
    pub(crate) end_file: u32,
    pub(crate) allocate: u32,
    pub(crate) config: u32,
    pub(crate) retention: u32,
    pub(crate) remove: u32,
    pub(crate) deliver: u32,
    pub(crate) write_delays: u32,
    /// Of a hundred messages so many wait for the delay of a level.
    pub(crate) delayed_percent: u32,
    /// Most keys of a message.
    pub(crate) most_keys: usize,
}

/// Everything at once.
pub(crate) const ALL: Mix = Mix {
    put: 92,
    put_many: 16,
    flush_log: 8,
    dispatch: 16,
    flush_queues: 8,
    flush_everything: 4,
    commit: 4,
    end_file: 2,
    allocate: 8,
    config: 4,
    retention: 1,
    remove: 0,
    deliver: 0,
    write_delays: 0,
    delayed_percent: 0,
    most_keys: 3,
};

/// Makes up the steps of a life.
struct Script<'a> {
    life: usize,
    mix: &'a Mix,
    put_count: usize,
    random: &'a mut fastrand::Rng,
}

/// Makes up a step at its place in the life.
type Make<'a> = fn(&mut Script<'a>, usize) -> Step;

/// The steps of a life, by chance.
pub(crate) fn steps(life: usize, count: usize, mix: &Mix, random: &mut fastrand::Rng) -> Vec<Step> {
    let mut script = Script { life, mix, put_count: 0, random };
    (0..count).map(|at| script.step(at)).collect()
}

impl<'a> Script<'a> {
    fn put(&mut self) -> Put {
        self.put_count += 1;
        let topic = TOPICS[self.random.usize(..TOPICS.len())];
        // Most have one key.
        let most = if self.random.bool() { self.mix.most_keys } else { 1 };
        let key_count = self.random.usize(1..=most);
        let name = format!("{}.{}", self.life, self.put_count);
        let queue_id = self.random.i32(0..QUEUES);
        let is_delayed = self.mix.delayed_percent > 0 && self.random.u32(..100) < self.mix.delayed_percent;
        let level = if is_delayed { self.random.i32(1..=DELAYS_MS.len() as i32) } else { 0 };
        Put { name, topic, queue_id, key_count, level }
    }

    fn step(&mut self, at: usize) -> Step {
        let mix = self.mix;
        let make: [(u32, Make<'a>); 14] = [
            (mix.put, |script, _| Step::Put(vec![script.put()])),
            (mix.put_many, |script, _| {
                let size = script.random.usize(2..9);
                Step::Put((0..size).map(|_| script.put()).collect())
            }),
            (mix.flush_log, |_, _| Step::FlushLog),
            (mix.dispatch, |_, _| Step::Dispatch),
            (mix.flush_queues, |_, _| Step::FlushQueues),
            (mix.flush_everything, |_, _| Step::FlushEverything),
            (mix.commit, |_, _| Step::Commit),
            (mix.end_file, |_, _| Step::EndFile),
            (mix.allocate, |_, _| Step::Allocate),
            (mix.config, Self::config),
            (mix.retention, |_, _| Step::Retention),
            (mix.remove, |script, _| Step::Remove(script.removal())),
            (mix.deliver, |script, _| {
                Step::Deliver(script.random.i32(1..=DELAYS_MS.len() as i32), script.random.usize(1..5))
            }),
            (mix.write_delays, |_, _| Step::WriteDelays),
        ];
        let mut turn = self.random.u32(..make.iter().map(|(weight, _)| weight).sum::<u32>());
        for (weight, make) in make {
            if turn < weight {
                return make(self, at);
            }
            turn -= weight;
        }
        unreachable!("a turn is less than all weights together")
    }

    /// Of one queue or a whole topic, mostly while others put.
    fn removal(&mut self) -> Removal {
        let topic = TOPICS[self.random.usize(..TOPICS.len())];
        let one = self.random.i32(0..QUEUES);
        let queue_ids = if self.random.bool() { vec![one] } else { (0..QUEUES).collect() };
        let mut meanwhile = |most: usize| {
            let count = self.random.usize(..=most);
            let puts = (0..count).map(|_| {
                let put = self.put();
                // What comes to the queue that goes is what matters.
                if self.random.bool() { Put { topic, queue_id: one, ..put } } else { put }
            });
            puts.collect::<Vec<_>>()
        };
        let (before, beside) = (meanwhile(1), meanwhile(3));
        Removal { topic, queue_ids, before, beside }
    }

    /// JSON as RocketMQ writes it, of some sectors or of one.
    fn config(&mut self, at: usize) -> Step {
        let offsets: Vec<_> =
            (1..=self.random.usize(..300)).map(|number| format!("\"{number}\":{at}")).collect();
        // How far levels are delivered is for who delivers.
        let name = CONFIG_FILES[1 + self.random.usize(..CONFIG_FILES.len() - 1)];
        let version = format!("{{\"counter\":{at},\"timestamp\":{}}}", self.life);
        let content = format!("{{\"dataVersion\":{version},\"offsetTable\":{{{}}}}}", offsets.join(","));
        Step::Config(name, content.into_bytes())
    }
}
