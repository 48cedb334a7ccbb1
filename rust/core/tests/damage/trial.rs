//! One damaged copy: opened to read, verified, opened to write.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use mqstore_core::clock::ManualClock;
use mqstore_core::error::Result;
use mqstore_core::format::cq_unit::CQ_STORE_UNIT_SIZE;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::log_view::LogView;
use mqstore_core::store::Mode;
use mqstore_core::verify::{check_index_file, check_log, check_queue};

use crate::answers::{Answers, Compared, Known, ask, compare};
use crate::stores::try_open;
use crate::subject::{Files, config, write};

/// What became of one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// Whether verification found it.
    pub(crate) is_found: bool,
    /// What a reader was told; `None` where it could not open the store or got an error.
    pub(crate) read: Option<Compared>,
    /// What a writer was told.
    pub(crate) written: Option<Compared>,
    /// What must not be.
    pub(crate) wrong: Option<String>,
}

impl Outcome {
    /// Whether both were told what the whole store tells.
    pub(crate) fn is_harmless(&self) -> bool {
        self.all(|compared| compared.is_same)
    }

    /// Whether all messages are there, with nothing changed but what the format leaves uncovered.
    pub(crate) fn is_uncovered(&self) -> bool {
        self.all(|compared| compared.is_same_but_uncovered)
    }

    fn all(&self, holds: impl Fn(&Compared) -> bool) -> bool {
        [&self.read, &self.written].into_iter().all(|compared| compared.as_ref().is_some_and(&holds))
    }
}

/// A whole store, and what it answers.
pub(crate) struct Whole {
    pub(crate) files: Files,
    /// What verification finds in it: of a store that was killed, what is not dispatched yet.
    findings: Vec<String>,
    known: Known,
    answers: Answers,
}

impl Whole {
    pub(crate) fn new(files: Files) -> Self {
        let folder = crate::scratch();
        write(&files, folder.path());
        let findings = findings(folder.path()).unwrap();
        let is_missing =
            |finding: &&String| finding.contains("UnitMissing") || finding.contains("KeyMissing");
        assert_eq!(findings.iter().filter(is_missing).count(), findings.len(), "{findings:#?}");
        let store = try_open(config(folder.path()), Mode::Read).unwrap();
        let known = Known::of(&store);
        let answers = ask(&store, &known).unwrap();
        assert!(answers.len() > 100);
        Self { files, findings, known, answers }
    }

    /// Tries a damaged copy of it.
    pub(crate) fn attempt(&self, files: &Files) -> Outcome {
        let folder = crate::scratch();
        write(files, folder.path());
        catch_unwind(AssertUnwindSafe(|| self.look_at(folder.path()))).unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().cloned();
            Outcome { wrong: Some(format!("panicked: {said:?}")), ..Outcome::default() }
        })
    }

    fn look_at(&self, root: &Path) -> Outcome {
        let is_found = findings(root).map_or(true, |found| found != self.findings);
        let read = self.ask(root, Mode::Read);
        let written = self.ask(root, Mode::ReadWrite);
        let wrong = [&read, &written].into_iter().flatten().find_map(|compared| compared.wrong.clone());
        Outcome { is_found, read, written, wrong }
    }

    fn ask(&self, root: &Path, mode: Mode) -> Option<Compared> {
        let opened = try_open(config(root), mode).ok()?;
        let answers = ask(&opened.store, &self.known).ok()?;
        opened.close().ok()?;
        Some(compare(&self.answers, &answers))
    }
}

/// What verification finds, as `mqstore verify` asks for it, wherever the store lies.
fn findings(root: &Path) -> Result<Vec<String>> {
    let root_text = root.to_str().unwrap();
    Ok(verify(root)?.into_iter().map(|finding| finding.replace(root_text, "")).collect())
}

fn verify(root: &Path) -> Result<Vec<String>> {
    const UNIT: u64 = CQ_STORE_UNIT_SIZE as u64;
    let clock = Arc::new(ManualClock::at(1_000_000));
    let view = LogView::open(config(root), Arc::new(OsFileSystem), clock, None)?;
    let mut found: Vec<String> = view.strays()?.into_iter().map(|stray| format!("{stray:?}")).collect();
    let queues = view.queues()?;
    let log = check_log(&view, &queues, view.min_offset(), view.end())?;
    let mut all = vec![log.findings];
    for queue in queues.all() {
        for file in queue.files().iter() {
            let (from, to) = (file.file_from_offset() / UNIT, file.end_offset() / UNIT);
            all.push(check_queue(&view, &queue, from, to)?.findings);
        }
    }
    if let Some((index, strays)) = view.index()? {
        found.extend(strays.into_iter().map(|stray| format!("{stray:?}")));
        let files = index.files();
        if files.is_empty() && log.key_count > 0 {
            found.push(format!("none of {} keys", log.key_count));
        }
        for number in 0..files.len() {
            all.push(check_index_file(&view, &files, number)?.findings);
        }
    }
    found.extend(all.into_iter().flat_map(|findings| findings.first).map(|finding| format!("{finding:?}")));
    Ok(found)
}
