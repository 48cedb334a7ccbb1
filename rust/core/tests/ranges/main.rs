//! Files that are read by byte ranges: what is asked for, what is kept, what is refused.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test stops at what is wrong

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqstore_core::fs::{FileHandle, FileSystem, OpenMode};
use mqstore_core::ranges::{BlockCache, Listed, RangeFileSystem, Source, SourceFile};
use mqstore_core::sync::Mutex;

const BLOCK: u64 = 16 << 10;
const MIB: u64 = 1 << 20;
const ROOT: &str = "s3://bucket/store";

/// Offset and bytes of the ranges that were asked for.
type Ranges = Arc<Mutex<Vec<(u64, u64)>>>;

/// Files in memory.
#[derive(Debug, Default)]
struct Memory {
    files: BTreeMap<String, Arc<Vec<u8>>>,
    listings: Mutex<Option<Vec<Listed>>>,
    asked: Ranges,
    lists: Mutex<Vec<(String, bool)>>,
    /// How many bytes more or fewer a read gives than it should.
    lie: Mutex<i64>,
    /// How many bytes of each file are there, where they grow; the listings do not say it.
    grown_to: Mutex<Option<usize>>,
}

#[derive(Debug)]
struct MemoryFile {
    bytes: Arc<Vec<u8>>,
    asked: Ranges,
    lie: i64,
}

impl SourceFile for MemoryFile {
    fn size(&self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.asked.lock().push((offset, buffer.len() as u64));
        let from = usize::try_from(offset).unwrap().min(self.bytes.len());
        let count = buffer.len().min(self.bytes.len() - from);
        buffer[..count].copy_from_slice(&self.bytes[from..from + count]);
        Ok(usize::try_from(i64::try_from(count).unwrap() + self.lie).unwrap())
    }
}

fn listed(path: &str, is_dir: bool, len: Option<u64>) -> Listed {
    Listed { path: path.into(), is_dir, len, modified_ms: 7 }
}

impl Source for Memory {
    fn list(&self, folder: &str, recursive: bool) -> Result<Option<Vec<Listed>>> {
        self.lists.lock().push((folder.into(), recursive));
        if let Some(lies) = &*self.listings.lock() {
            return Ok(Some(lies.clone()));
        }
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut found = BTreeMap::new();
        for (path, bytes) in &self.files {
            let Some(rest) = path.strip_prefix(&prefix) else { continue };
            let len = self.grown_to.lock().is_none().then_some(bytes.len() as u64);
            match rest.split_once('/').filter(|_| !recursive) {
                None => found.insert(rest.to_owned(), listed(rest, false, len)),
                Some((name, _)) => found.insert(name.to_owned(), listed(name, true, None)),
            };
        }
        Ok((!found.is_empty()).then(|| found.into_values().collect()))
    }

    fn open(&self, path: &str) -> Result<Arc<dyn SourceFile>> {
        let bytes = self.files.get(path).ok_or_else(|| Error::new(ErrorKind::NotFound, "it has gone"))?;
        let grown_to = self.grown_to.lock().unwrap_or(bytes.len());
        let (bytes, asked) = (Arc::new(bytes[..grown_to].to_vec()), Arc::clone(&self.asked));
        Ok(Arc::new(MemoryFile { bytes, asked, lie: *self.lie.lock() }))
    }
}

fn content(len: u64) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at ^ (at >> 8) ^ (at >> 16)) % 251).unwrap()).collect()
}

fn memory(files: &[(&str, u64)]) -> Arc<Memory> {
    let files = files.iter().map(|(path, len)| ((*path).to_owned(), Arc::new(content(*len)))).collect();
    Arc::new(Memory { files, ..Memory::default() })
}

fn over(source: &Arc<Memory>, cache_size: usize) -> RangeFileSystem {
    let source: Arc<dyn Source> = Arc::<Memory>::clone(source);
    RangeFileSystem::new(source, ROOT.into(), Arc::new(BlockCache::new(cache_size)))
}

fn at(path: &str) -> PathBuf {
    Path::new(ROOT).join(path)
}

fn open(fs: &RangeFileSystem, path: &str) -> Arc<dyn FileHandle> {
    fs.open(&at(path), OpenMode::Read).unwrap()
}

fn read(file: &Arc<dyn FileHandle>, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    let count = file.read_at(&mut bytes, offset).unwrap();
    bytes.truncate(count);
    bytes
}

fn take(source: &Memory) -> Vec<(u64, u64)> {
    std::mem::take(&mut source.asked.lock())
}

#[test]
fn a_small_read_is_a_block_and_is_kept() {
    let source = memory(&[("log/0", 10 * MIB)]);
    let fs = over(&source, 1 << 20);
    let file = open(&fs, "log/0");
    assert_eq!(take(&source), [], "opening reads nothing");
    let bytes = content(10 * MIB);
    assert_eq!(read(&file, 5 * MIB + 3, 20), bytes[5 * (1 << 20) + 3..][..20]);
    assert_eq!(read(&file, 5 * MIB + 100, 20), bytes[5 * (1 << 20) + 100..][..20]);
    assert_eq!(
        read(&open(&fs, "log/0"), 5 * MIB, 1),
        bytes[5 * (1 << 20)..][..1],
        "opened again it is kept too"
    );
    assert_eq!(take(&source), [(5 * MIB, BLOCK)]);
}

#[test]
fn a_read_over_blocks_is_one_request() {
    let source = memory(&[("log/0", MIB)]);
    let fs = over(&source, 1 << 20);
    let file = open(&fs, "log/0");
    let from = BLOCK - 10;
    assert_eq!(read(&file, from, 2 * BLOCK), content(MIB)[usize::try_from(from).unwrap()..][..2 * 16_384]);
    assert_eq!(take(&source), [(0, 3 * BLOCK)]);
    assert_eq!(read(&file, MIB - 5, 100), content(MIB)[(1 << 20) - 5..], "the file's end");
    assert_eq!(take(&source), [(MIB - BLOCK, BLOCK)]);
    assert_eq!(read(&file, MIB, 100), []);
    assert_eq!(read(&file, u64::MAX - 5, 100), []);
    assert_eq!(take(&source), []);
}

#[test]
fn small_reads_that_follow_each_other_are_read_ahead_of() {
    let source = memory(&[("log/0", 40 * MIB)]);
    let fs = over(&source, 64 << 20);
    let file = open(&fs, "log/0");
    for offset in (0..40 * MIB).step_by(1000) {
        read(&file, offset, 1000.min(40 * MIB - offset));
    }
    let asked = take(&source);
    assert_eq!(asked.iter().map(|(_, len)| len).sum::<u64>(), 40 * MIB, "each byte comes once");
    assert!(asked.len() < 16, "{asked:?}");
    assert!(asked.iter().all(|(_, len)| *len <= 8 * MIB), "{asked:?}");
    assert_eq!(asked[..3], [(0, BLOCK), (BLOCK, 2 * BLOCK), (3 * BLOCK, 4 * BLOCK)]);
    // What does not follow is no walk.
    for offset in [9, 3, 7, 1] {
        let file = open(&over(&source, 1 << 20), "log/0");
        read(&file, offset * MIB, 10);
    }
    assert!(take(&source).iter().all(|(_, len)| *len == BLOCK));
}

#[test]
fn a_large_read_is_made_as_it_is() {
    let source = memory(&[("log/0", 20 * MIB)]);
    let fs = over(&source, 64 << 20);
    let file = open(&fs, "log/0");
    assert_eq!(read(&file, 1001, 10 * MIB), content(20 * MIB)[1001..][..10 << 20]);
    assert_eq!(
        take(&source),
        [(1001, 8 * MIB), (1001 + 8 * MIB, 2 * MIB)],
        "no request is too large for memory"
    );
}

#[test]
fn the_cache_is_bounded_and_keeps_what_is_used() {
    let source = memory(&[("log/0", 10 * MIB)]);
    let fs = over(&source, 4 * 16_384);
    let file = open(&fs, "log/0");
    for block in [0, 10, 20, 30] {
        read(&file, block * BLOCK, 1);
    }
    read(&file, 0, 1);
    read(&file, 40 * BLOCK, 1);
    take(&source);
    read(&file, 0, 1);
    assert_eq!(take(&source), [], "used last");
    read(&file, 10 * BLOCK, 1);
    assert_eq!(take(&source), [(10 * BLOCK, BLOCK)], "used first");
}

#[test]
fn a_folder_is_listed_once_with_all_below_it() {
    let source =
        memory(&[("commitlog/0", 5), ("consumequeue/T/0/0", 20), ("consumequeue/T/1/0", 20), ("abort", 0)]);
    let fs = over(&source, 1 << 20);
    assert_eq!(fs.metadata(&at("abort")).unwrap().unwrap().len, 0);
    assert_eq!(fs.metadata(&at("checkpoint")).unwrap(), None);
    assert!(fs.metadata(Path::new(ROOT)).unwrap().unwrap().is_dir);
    assert_eq!(*source.lists.lock(), [(String::new(), false)]);
    let names = |path: &str| {
        let mut names: Vec<_> = fs.read_dir(&at(path)).unwrap().into_iter().map(|entry| entry.name).collect();
        names.sort();
        names
    };
    assert_eq!(names("consumequeue"), ["T"]);
    assert_eq!(names("consumequeue/T"), ["0", "1"]);
    assert_eq!(names("consumequeue/T/1"), ["0"]);
    let found = fs.metadata(&at("consumequeue/T/1/0")).unwrap().unwrap();
    assert_eq!((found.len, found.modified_ms, found.is_dir), (20, 7, false));
    assert_eq!(fs.metadata(&at("consumequeue/U/1")).unwrap(), None);
    assert_eq!(source.lists.lock().len(), 2);
    assert_eq!(fs.read_dir(&at("index")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_listing_is_not_trusted() {
    let bad = [
        vec![listed("../../etc/passwd", false, Some(1))],
        vec![listed("/etc/passwd", false, Some(1))],
        vec![listed("a//b", false, Some(1))],
        vec![listed("", false, Some(1))],
        vec![listed(".", true, None)],
        vec![listed("a\0b", false, Some(1))],
        vec![listed("a", false, Some(1)), listed("a", false, Some(2))],
        vec![listed("a", false, Some(1)), listed("a/b", false, Some(2))],
        vec![listed("a/b", false, Some(2)), listed("a", false, Some(1))],
    ];
    for lies in bad {
        let source = memory(&[("commitlog/0", 5)]);
        *source.listings.lock() = Some(lies.clone());
        let error = over(&source, 1 << 20).read_dir(&at("commitlog")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{lies:?}");
    }
    let source = memory(&[("commitlog/0", 5)]);
    *source.listings.lock() = Some(vec![listed("0", false, Some(u64::MAX))]);
    let error = over(&source, 1 << 20).metadata(&at("commitlog/0")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

#[test]
fn what_a_read_gives_is_not_trusted() {
    for (lie, len) in [(-1, 100), (1, 100), (-1, 2 * MIB), (1, 2 * MIB)] {
        let source = memory(&[("commitlog/0", 4 * MIB)]);
        *source.lie.lock() = lie;
        let file = open(&over(&source, 1 << 20), "commitlog/0");
        let error = file.read_at(&mut vec![0; usize::try_from(len).unwrap()], MIB).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
        assert!(error.to_string().starts_with(&format!("bytes {MIB} to ")), "{error}");
    }
    let source = memory(&[("commitlog/1", 5)]);
    *source.listings.lock() = Some(vec![listed("0", false, Some(10 * MIB))]);
    let error = open(&over(&source, 1 << 20), "commitlog/0").read_at(&mut [0; 9], 77).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::NotFound, "bytes 0 to 16384: it has gone".into())
    );
}

#[test]
fn a_length_that_is_not_listed_is_asked_for() {
    let source = memory(&[("commitlog/0", 50)]);
    *source.listings.lock() = Some(vec![listed("0", false, None)]);
    let fs = over(&source, 1 << 20);
    assert_eq!(fs.metadata(&at("commitlog/0")).unwrap().unwrap().len, 50);
    assert_eq!(read(&open(&fs, "commitlog/0"), 40, 100), content(50)[40..]);
}

#[test]
fn nothing_is_written_and_nothing_outside_is_read() {
    let source = memory(&[("commitlog/0", 5)]);
    let fs = over(&source, 1 << 20);
    for mode in [OpenMode::Write, OpenMode::Create, OpenMode::CreateNew] {
        assert_eq!(fs.open(&at("commitlog/0"), mode).unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    }
    assert_eq!(fs.remove_file(&at("commitlog/0")).unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    assert_eq!(fs.rename(&at("a"), &at("b")).unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    let file = open(&fs, "commitlog/0");
    assert_eq!(file.write_at(b"x", 0).unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    assert_eq!(file.set_len(0).unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    assert!(file.map(1, false).is_err() && !file.can_map());
    for outside in ["/etc/passwd", "s3://bucket/other/commitlog/0", "s3://bucket/store/../other"] {
        assert_eq!(fs.metadata(Path::new(outside)).unwrap_err().kind(), ErrorKind::InvalidInput, "{outside}");
    }
    let folder = fs.open(&at("commitlog"), OpenMode::Read).unwrap_err();
    assert_eq!(folder.kind(), ErrorKind::IsADirectory);
}

#[test]
fn a_file_that_is_listed_without_its_length_stays_as_long_as_it_was() {
    let source = memory(&[("log/0", 3 * BLOCK)]);
    let fs = over(&source, 1 << 20);
    let read_all = || {
        let file = open(&fs, "log/0");
        let len = file.metadata().unwrap().len;
        assert_eq!(fs.metadata(&at("log/0")).unwrap().unwrap().len, len);
        (len, read(&file, 0, 3 * BLOCK))
    };
    for (grown_to, expected) in [(BLOCK + 100, BLOCK + 100), (2 * BLOCK + 100, BLOCK + 100)] {
        *source.grown_to.lock() = Some(usize::try_from(grown_to).unwrap());
        let (len, bytes) = read_all();
        assert_eq!(len, expected);
        assert!(bytes == content(3 * BLOCK)[..usize::try_from(expected).unwrap()]);
    }
}
