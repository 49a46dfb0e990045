//! The books under a path that loses, duplicates and reorders frames, against a plain model of what it did.

use std::collections::HashSet;

use proptest::prelude::*;
use virtoll_wire::frame::{Key, TestFrameRepr};
use virtoll_wire::sequence_accounting::{
    Arrival, Books, Expectation, Ports, SourceArrivals, SourceBook,
};

use crate::frames;

const TRIAL: u16 = 9;
const FRAME_BYTES: usize = 64;
const KEY: Key = Key::new([7; 16]);

fn repr(trial: u16, source: u8, sequence: u64) -> TestFrameRepr {
    TestFrameRepr {
        source_port: 1_000 + u16::from(source),
        destination_port: 2_000,
        trial,
        source,
        sequence,
        sent_monotonic_ns: sequence * 10,
        ..frames::repr(FRAME_BYTES)
    }
}

fn frame(trial: u16, source: u8, sequence: u64) -> Vec<u8> {
    let mut bytes = vec![0; FRAME_BYTES];
    repr(trial, source, sequence).emit(&mut bytes, &KEY).unwrap();
    bytes
}

fn books(sources: u8, capacity: u64) -> Books {
    let ports = (0..sources).map(|source| Ports {
        first_source: 1_000 + u16::from(source),
        flows: 1,
        destination: 2_000,
    });
    Books::new(Expectation {
        trial: TRIAL,
        keys: vec![KEY; usize::from(sources)],
        ip_bytes: vec![FRAME_BYTES - 14],
        ports: ports.collect(),
        capacities: vec![capacity; usize::from(sources)],
    })
}

/// What the path does with each frame: how many copies come out, and how far each is put off.
fn path() -> impl Strategy<Value = Vec<(u8, Vec<u64>)>> {
    let fate = prop_oneof![
        1 => Just(vec![]),
        6 => Just(vec![0]),
        1 => (0_u64..20).prop_map(|delay| vec![delay]),
        1 => (0_u64..20, 0_u64..20).prop_map(|(first, second)| vec![first, second]),
    ];
    prop::collection::vec((0_u8..3, fate), 0..400)
}

proptest! {
    #[test]
    fn the_books_tell_what_the_path_did(fates in path()) {
        let mut next = [0_u64; 3];
        let mut arrivals = Vec::new();
        for (time, (source, copies)) in fates.iter().enumerate() {
            let sequence = next[usize::from(*source)];
            next[usize::from(*source)] += 1;
            arrivals.extend(copies.iter().map(|delay| (time as u64 + delay, *source, sequence)));
        }
        arrivals.sort_by_key(|(time, ..)| *time);
        let mut books = books(3, 400);
        for (time, source, sequence) in &arrivals {
            let arrival = books.enter(&frame(TRIAL, *source, *sequence), FRAME_BYTES, sequence * 10 + time);
            prop_assert_eq!(arrival, Arrival::Test);
        }
        for source in 0..3_u8 {
            let counts = books.sources()[usize::from(source)].arrivals();
            let ours: Vec<u64> = arrivals.iter().filter(|one| one.1 == source).map(|one| one.2).collect();
            let distinct: HashSet<u64> = ours.iter().copied().collect();
            let mut seen = HashSet::new();
            let reordered = ours.iter().filter(|sequence| {
                let late = seen.iter().any(|earlier| earlier > *sequence);
                seen.insert(**sequence) && late
            }).count();
            prop_assert_eq!(counts.forwarded_frames, distinct.len() as u64);
            prop_assert_eq!(counts.duplicate_frames, (ours.len() - distinct.len()) as u64);
            prop_assert_eq!(counts.reordered_frames, reordered as u64);
            prop_assert_eq!(counts.delay_ns.as_ref().map_or(0, |reported| reported.count), distinct.len() as u64);
            let numbers: Vec<u64> = ours.iter().fold(Vec::new(), |mut first, number| {
                if !first.contains(number) {
                    first.push(*number);
                }
                first
            });
            let neighbours = numbers.windows(2).filter(|two| two[0] + 1 == two[1]).count() as u64;
            prop_assert_eq!(counts.delay_variation_ns.map_or(0, |reported| reported.count), neighbours);
            prop_assert!(books.sources()[usize::from(source)].agrees());
            prop_assert!(counts.forwarded_frames <= next[usize::from(source)]);
            prop_assert_eq!(books.sources()[usize::from(source)].arrived_from(next[usize::from(source)]), 0);
        }
        prop_assert_eq!((books.foreign_frames(), books.late_trial_frames()), (0, 0));
    }
}

#[test]
fn other_frames_are_told_apart() {
    let mut books = books(1, 100);
    let mut enter = |bytes: &[u8]| books.enter(bytes, bytes.len(), 1);
    for sequence in [99, 98, 0, 1, 2] {
        assert_eq!(enter(&frame(TRIAL, 0, sequence)), Arrival::Test);
    }
    for trial in [TRIAL + 1, TRIAL - 1] {
        assert_eq!(enter(&frame(trial, 0, 1)), Arrival::LateTrial);
    }
    assert_eq!(enter(&frame(TRIAL, 0, 100)), Arrival::Foreign, "a number that nobody sends");
    assert_eq!(enter(&frame(TRIAL, 1, 1)), Arrival::Foreign, "a source that is not there");
    let mut unmarked = frame(TRIAL, 0, 1);
    unmarked[44] = 0;
    assert_eq!(enter(&unmarked), Arrival::Foreign);
    for number in [2, 3, 4] {
        let mut renumbered = frame(TRIAL, 0, 1);
        renumbered[53] = number;
        assert_eq!(enter(&renumbered), Arrival::Forged);
    }
    assert_eq!(enter(&[0; 60]), Arrival::Foreign);
    let mut probe = [0; 60];
    probe[12..14].copy_from_slice(&[0x88, 0xb5]);
    assert_eq!(enter(&probe), Arrival::Probe, "counted nowhere");
    assert_eq!((books.foreign_frames(), books.late_trial_frames()), (4, 2));
    assert_eq!((books.forged_frames(), books.sources()[0].forwarded_frames()), (3, 5));
}

#[test]
fn a_frame_of_other_ports_or_another_length_is_not_the_trials() {
    let ports = Ports { first_source: 1_000, flows: 2, destination: 2_000 };
    let mut books = Books::new(Expectation {
        trial: TRIAL,
        ip_bytes: vec![FRAME_BYTES - 14],
        ports: vec![ports],
        keys: vec![KEY],
        capacities: vec![100],
    });
    let mut enter = |change: &dyn Fn(&mut TestFrameRepr)| {
        let mut repr = repr(TRIAL, 0, 1);
        change(&mut repr);
        let mut bytes = vec![0; repr.frame_bytes];
        repr.emit(&mut bytes, &KEY).unwrap();
        books.enter(&bytes, bytes.len(), 1)
    };
    for (source_port, arrival) in [
        (999, Arrival::Foreign),
        (1_000, Arrival::Test),
        (1_001, Arrival::Test),
        (1_002, Arrival::Foreign),
    ] {
        assert_eq!(enter(&|repr| repr.source_port = source_port), arrival, "{source_port}");
    }
    assert_eq!(enter(&|repr| repr.destination_port = 2_001), Arrival::Foreign);
    assert_eq!(enter(&|repr| repr.frame_bytes = FRAME_BYTES + 1), Arrival::Foreign);
    assert_eq!(enter(&|repr| repr.vlan = Some(5)), Arrival::Foreign, "4 bytes less of IP");
    let tagged = |repr: &mut TestFrameRepr| {
        repr.vlan = Some(5);
        repr.frame_bytes = FRAME_BYTES + 4;
    };
    assert_eq!(enter(&tagged), Arrival::Test, "a tag that was put on changes no packet");
}

#[test]
fn the_largest_number_that_arrived_is_known() {
    let mut book = SourceBook::new(1_000);
    assert_eq!(book.largest(), None);
    for (sequence, largest) in [(0, 0), (63, 63), (62, 63), (64, 64), (999, 999), (998, 999)] {
        assert!(book.record(sequence, None, 1));
        assert_eq!(book.largest(), Some(largest));
    }
}

#[test]
fn books_whose_bits_and_count_differ_do_not_agree() {
    for (counted, agrees) in [(2, false), (3, true), (4, false)] {
        let counts = SourceArrivals { forwarded_frames: counted, ..SourceArrivals::default() };
        let book = SourceBook::counted(vec![0b11, 0b1], counts.clone(), 128);
        assert_eq!((book.agrees(), book.forwarded_frames()), (agrees, counted));
        assert_eq!(book.arrivals(), counts, "what was counted elsewhere is handed on");
    }
}

#[test]
fn frames_that_were_never_sent_are_found() {
    let mut books = books(1, 1_000);
    for sequence in [0, 63, 64, 65, 127, 128, 999] {
        books.enter(&frame(TRIAL, 0, sequence), FRAME_BYTES, 0);
    }
    let book = &books.sources()[0];
    let found: Vec<u64> = [0, 64, 65, 66, 129, 1_000].map(|from| book.arrived_from(from)).to_vec();
    assert_eq!(found, [7, 5, 4, 3, 1, 0]);
}
