//! Readers as a whole: forms recognised, damage told, hostile files survived.

use io::rng::Rng;
use proptest::prelude::*;

use super::forms::Form;
use super::reader::{Reader, Reading, Seen, TraceError};
use super::record::{Op, Record};

fn read(text: impl Into<Vec<u8>>) -> Result<(Vec<Record>, Seen, Form), TraceError> {
    read_as(text, &Reading::default())
}

fn read_as(
    text: impl Into<Vec<u8>>,
    reading: &Reading,
) -> Result<(Vec<Record>, Seen, Form), TraceError> {
    let mut reader = Reader::of_bytes(text.into(), reading)?;
    let records = reader.by_ref().collect::<Result<Vec<Record>, TraceError>>()?;
    Ok((records, reader.seen(), reader.form()))
}

/// The same two requests, 1.5 s apart, a write of 8 KiB at 1 MiB and a read of 512 bytes at 0.
const FORMS: [(Form, &str); 9] = [
    (
        Form::Msr,
        "128166372003061629,hm,1,Write,1048576,8192,413\n128166372018061629,hm,1,Read,0,512,12\n",
    ),
    (Form::Spc, "0,2048,8192,w,0.250000\n0,0,512,r,1.750000\n"),
    (
        Form::Blkparse,
        "  8,0    3        1     0.000000000   697  G   W 2048 + 16 [x]\n\
         \x20 8,0    3        2     0.100000000   697  Q  WS 2048 + 16 [x]\n\
         \x20 8,0    1        3     1.600000000   697  Q  RA 0 + 1 [x]\n\
         CPU0 (8,0):\n Reads Queued:    1, 0KiB\n",
    ),
    (
        Form::Fio,
        "fio version 3 iolog\n1 sda add\n5 sda write 1048576 8192\n1500005 sda read 0 512\n",
    ),
    (
        Form::Fio,
        "fio version 2 iolog\nx add\nx write 1048576 8192\nx wait 1500000 0\nx read 0 512\n",
    ),
    (Form::Alibaba, "419,W,1048576,8192,1577808000000104\n419,R,0,512,1577808001500104\n"),
    (Form::Plain, "timestamp_us,op,offset_bytes,size_bytes\n0,W,1048576,8192\n1500000,R,0,512\n"),
    (Form::Seconds, "# made by hand\n0,W,1048576,8192\n\n1.5,R,0,512\n"),
    (Form::Seconds, "0.25,W,1048576,8192\n1.75,R,0,512\n"),
];

#[test]
fn every_form_is_recognised_and_says_the_same() {
    for (form, text) in FORMS {
        let (records, seen, recognised) = read(text).unwrap_or_else(|e| panic!("{form}: {e}"));
        assert_eq!(recognised, form, "{text}");
        let told = records.iter().map(|r| (r.at.0, r.device, r.op, r.offset, r.len));
        let wanted = [(0, 0, Op::Write, 1 << 20, 8192), (1_500_000_000, 0, Op::Read, 0, 512)];
        assert_eq!(told.collect::<Vec<_>>(), wanted, "{form}");
        assert_eq!((seen.bad, seen.empty, seen.backward), (0, 0, 0), "{form}");
    }
    // Its clock has whole seconds only.
    let (records, _, form) = read("1538323200,2048,16,1,7\n1538323201,0,1,0,8\n").unwrap();
    assert_eq!((form, records.len(), records[1].device), (Form::Tencent, 2, 1));
    assert_eq!(records[1].at.0, 1_000_000_000);
}

#[test]
fn damage_is_counted_with_its_lines_up_to_a_limit() {
    let text = "0,W,0,512\nnothing\n10,W,0,0\n20,W,18446744073709551615,512\n5,R,512,512\n30,R,0";
    let plain = Reading { form: Some(Form::Plain), ..Reading::default() };
    let (records, seen, _) = read_as(text, &plain).unwrap();
    assert_eq!(records.iter().map(|record| record.at.0).collect::<Vec<_>>(), [0, 5_000]);
    assert_eq!((seen.lines, seen.requests, seen.bad, seen.empty), (6, 2, 3, 1));
    let lines: Vec<u64> = seen.examples.iter().map(|&(line, _)| line).collect();
    assert_eq!(lines, [2, 4, 6]);
    let strict = Reading { bad_lines: 1, ..plain };
    let error = read_as(text, &strict).expect_err("two are more than one");
    assert!(error.to_string().starts_with("line 4 is no request: "), "{error}");
    // After the error nothing comes.
    let mut reader = Reader::of_bytes(text.into(), &strict).unwrap();
    assert!(reader.next().unwrap().is_err() && reader.next().is_none());
}

#[test]
fn what_is_no_trace_is_an_error() {
    assert!(matches!(read(""), Err(TraceError::Unknown)));
    assert!(matches!(read("Dear reader,\nthis is a letter.\n"), Err(TraceError::Unknown)));
    let only = "8,0 1 1 0.5 7 D W 0 + 8 [x]\n8,0 1 2 0.6 7 C W 0 + 8 [0]\n";
    assert!(matches!(read(only), Err(TraceError::Empty(2))));
    let many: String = (0..70_000).map(|at| format!("{at},W,0,512,{at}\n")).collect();
    assert!(matches!(read(many), Err(TraceError::Devices)));
    let huge = format!("0,W,0,512\n1,W,0,{}\n", 1u64 << 40);
    assert_eq!(read(huge).unwrap().1.bad, 1);
    let discard = format!("0,W,0,512\n1,D,0,{}\n", 1u64 << 40);
    assert_eq!(read(discard).unwrap().0.len(), 2);
}

/// A valid file with some bytes changed.
fn damaged(at: usize, seed: u64, changes: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut bytes = FORMS[at].1.repeat(3).into_bytes();
    for _ in 0..changes {
        let place = rng.index(bytes.len());
        match rng.below(3) {
            0 => bytes[place] = rng.below(256) as u8,
            1 => bytes[place] = b"0123456789,.+ \n-"[rng.index(16)],
            _ => drop(bytes.remove(place)),
        }
    }
    bytes
}

fn survives(bytes: Vec<u8>, form: Option<Form>) {
    let reading = Reading { form, bad_lines: u64::MAX, ..Reading::default() };
    let Ok(mut reader) = Reader::of_bytes(bytes, &reading) else { return };
    let mut meter = super::figures::Meter::default();
    let mut last = 0;
    for record in reader.by_ref() {
        let Ok(record) = record else { return };
        assert!(record.at.0 >= last && record.len > 0);
        assert!(record.offset.checked_add(record.len).is_some());
        last = record.at.0;
        meter.add(&record);
    }
    assert_eq!(reader.seen().requests, meter.requests());
    meter.finish();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_traces_never_stop_the_program(
        at in 0..FORMS.len(), seed in any::<u64>(), changes in 1..20usize, forced in any::<bool>(),
    ) {
        survives(damaged(at, seed, changes), forced.then_some(FORMS[at].0));
    }

    #[test]
    fn neither_do_bytes_that_mean_nothing(
        bytes in proptest::collection::vec(any::<u8>(), 0..400), form in 0..9usize,
    ) {
        use clap::ValueEnum;
        survives(bytes.clone(), Form::value_variants().get(form).copied());
        // Behind the magic bytes of each compression.
        for magic in [&[0x1f, 0x8b, 8, 0][..], &[0x28, 0xb5, 0x2f, 0xfd], b"\xfd7zXZ\0"] {
            survives([magic, &bytes].concat(), Some(Form::Plain));
        }
    }
}
