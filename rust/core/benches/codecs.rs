//! What every message costs in the codecs, without files: decoding, checking, encoding, hashing.

#![allow(missing_docs)] // criterion makes public functions of its own

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mqstore_core::format::host::Host;
use mqstore_core::format::index::key_hash;
use mqstore_core::format::message::{self, Check, Place, RecordFields};
use mqstore_core::format::properties::{ClientProperties, DispatchProperties};
use mqstore_core::store::Properties;

fn record(body: &[u8]) -> Vec<u8> {
    let host = Host { ip: [127, 0, 0, 1].into(), port: 10911 };
    let client = ClientProperties::of(Some(b"key1"), None, Some(b"TagA"), true);
    let properties = Properties::Client(client).encode();
    let fields = RecordFields {
        body_crc: message::body_crc(body),
        queue_id: 1,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        topic: b"bench",
        properties: &properties,
        append_crc: false,
    };
    let mut bytes = Vec::new();
    let place = Place { queue_offset: 7, physical_offset: 4096, store_timestamp: 2 };
    fields.write(place, |part| bytes.extend_from_slice(part));
    bytes
}

fn codecs(criterion: &mut Criterion) {
    let body = vec![7; 1024];
    let bytes = record(&body);
    let mut group = criterion.benchmark_group("record of 1 KiB");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("encode", |bencher| bencher.iter(|| record(black_box(&body))));
    group.bench_function("decode", |bencher| {
        bencher.iter(|| message::decode(black_box(&bytes), Check::Structure).is_ok());
    });
    group.bench_function("decode and check the body", |bencher| {
        bencher.iter(|| message::decode(black_box(&bytes), Check::BodyCrc).is_ok());
    });
    group.finish();
    let client = ClientProperties::of(Some(b"key1"), None, Some(b"TagA"), true);
    let properties = Properties::Client(client).encode();
    criterion.bench_function("properties for dispatch", |bencher| {
        bencher.iter(|| DispatchProperties::of(black_box(&properties)));
    });
    criterion.bench_function("hash of a key", |bencher| {
        bencher.iter(|| key_hash(black_box(b"bench"), black_box(b"key123456")));
    });
}

criterion_group!(benches, codecs);
criterion_main!(benches);
