//! What came of damage, by what was hit.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Add;

use crate::fields::is_uncovered;
use crate::trial::Outcome;

/// Counts of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Row {
    pub(crate) tried: u64,
    /// Verification says so.
    pub(crate) found: u64,
    /// It does not, and every answer is that of the whole store.
    pub(crate) harmless: u64,
    /// It does not, and what differs is what the format leaves uncovered.
    pub(crate) uncovered: u64,
    /// It does not, and a message is missing.
    pub(crate) missed: u64,
    /// A writer does not open the store.
    pub(crate) refused: u64,
}

impl Add for Row {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            tried: self.tried + other.tried,
            found: self.found + other.found,
            harmless: self.harmless + other.harmless,
            uncovered: self.uncovered + other.uncovered,
            missed: self.missed + other.missed,
            refused: self.refused + other.refused,
        }
    }
}

/// Counts by kind, and what must not be.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: BTreeMap<String, Row>,
    pub(crate) wrong: Vec<String>,
}

impl Table {
    /// Counts an outcome.
    pub(crate) fn add(&mut self, kind: &str, what: impl FnOnce() -> String, outcome: &Outcome) {
        let row = self.rows.entry(kind.to_owned()).or_default();
        row.tried += 1;
        row.refused += u64::from(outcome.written.is_none());
        let is_uncovered = outcome.is_uncovered() || is_uncovered(kind);
        // Its records stand where they say, in queues of the same names: keys and bodies tell.
        let may_be_served = is_uncovered || (kind.ends_with("of another store") && outcome.is_found);
        *match outcome {
            Outcome { is_found: true, .. } => &mut row.found,
            _ if outcome.is_harmless() => &mut row.harmless,
            _ if is_uncovered => &mut row.uncovered,
            _ => &mut row.missed,
        } += 1;
        if let Some(wrong) = outcome.wrong.as_ref().filter(|_| !may_be_served) {
            self.wrong.push(format!("{kind}: {}: {wrong}", what()));
        } else if !outcome.is_found && !is_uncovered {
            self.wrong.push(format!("{kind}: {}: not found, and not harmless: {outcome:?}", what()));
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (kind, row) in other.rows {
            let mine = self.rows.entry(kind).or_default();
            *mine = *mine + row;
        }
        self.wrong.extend(other.wrong);
    }

    /// Counts of the fields of records.
    pub(crate) fn of_records(&self) -> Row {
        self.total("record: ") + self.total("alone: ")
    }

    /// Counts of the kinds that begin so.
    pub(crate) fn total(&self, begins: &str) -> Row {
        let kinds = self.rows.iter().filter(|(kind, _)| kind.starts_with(begins));
        kinds.fold(Row::default(), |total, (_, row)| total + *row)
    }

    /// The rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&String, &Row)> {
        self.rows.iter()
    }

    /// Nothing that must not be.
    pub(crate) fn assert_sound(&self) {
        let first: Vec<_> = self.wrong.iter().take(30).collect();
        assert!(first.is_empty(), "{} of them: {first:#?}", self.wrong.len());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:32} {:>8} {:>8} {:>8} {:>10} {:>8} {:>8}",
            "what was hit", "tried", "found", "harmless", "uncovered", "missed", "refused"
        )?;
        let all = self.total("");
        for (kind, row) in self.rows().map(|(kind, row)| (kind.as_str(), row)).chain([("all", &all)]) {
            let Row { tried, found, harmless, uncovered, missed, refused } = row;
            writeln!(f, "{kind:32} {tried:8} {found:8} {harmless:8} {uncovered:10} {missed:8} {refused:8}")?;
        }
        Ok(())
    }
}
