//! Arrivals of any frames in any order, whole and damaged: the sink's books say what a set of numbers says.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use virtoll_wire::MacAddress;
use virtoll_wire::frame::{Key, TestFrameRepr};
use virtoll_wire::sequence_accounting::{Arrival, Books, Expectation, Ports};

const TRIAL: u16 = 7;
const SOURCES: u8 = 3;
const CAPACITY: u64 = 3_000;
const FRAME_BYTES: usize = 60;
/// Where the numbers, the time and the tag are in an untagged IPv4 frame.
const STAMP: std::ops::Range<usize> = 42..60;

/// The simplest books.
#[derive(Default)]
struct Model {
    seen: HashSet<u64>,
    largest: Option<u64>,
    duplicates: u64,
    reordered: u64,
}

impl Model {
    fn enter(&mut self, sequence: u64) {
        if !self.seen.insert(sequence) {
            self.duplicates += 1;
            return;
        }
        self.reordered += u64::from(self.largest.is_some_and(|largest| sequence < largest));
        self.largest = self.largest.max(Some(sequence));
    }
}

fn frame(trial: u16, source: u8, sequence: u64, key: &Key) -> [u8; FRAME_BYTES] {
    let repr = TestFrameRepr {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        vlan: None,
        source_address: IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1)),
        destination_address: IpAddr::V4(Ipv4Addr::new(10, 2, 0, 1)),
        source_port: 1_000 + u16::from(source),
        destination_port: 2_000,
        trial,
        source,
        sequence,
        sent_monotonic_ns: 5,
        timed: !sequence.is_multiple_of(3),
        frame_bytes: FRAME_BYTES,
    };
    let mut bytes = [0; FRAME_BYTES];
    repr.emit(&mut bytes, key).expect("a size within the range");
    bytes
}

/// Panics where it does not hold for this input.
pub fn holds(input: &[u8]) {
    let keys: Vec<Key> = (0..SOURCES).map(|source| Key::new([source + 1; 16])).collect();
    let ports = |source| Ports { first_source: 1_000 + source, flows: 1, destination: 2_000 };
    let mut books = Books::new(Expectation {
        trial: TRIAL,
        keys: keys.clone(),
        ip_bytes: vec![FRAME_BYTES - 14],
        ports: (0..u16::from(SOURCES)).map(ports).collect(),
        capacities: vec![CAPACITY; usize::from(SOURCES)],
    });
    let mut models: [Model; SOURCES as usize] = Default::default();
    let (mut late, mut forged, mut foreign) = (0, 0, 0);
    for (time, record) in input.chunks_exact(4).enumerate() {
        let number = u64::from(u16::from_le_bytes([record[2], record[3]]));
        let source = record[1] % SOURCES;
        let key = &keys[usize::from(source)];
        let bytes = match record[0] % 8 {
            0 => frame(TRIAL + 1, source, number, key).to_vec(),
            1 => frame(TRIAL, source, number, &Key::PUBLIC).to_vec(),
            2 => input[..input.len().min(100)].to_vec(),
            3 => {
                let mut damaged = frame(TRIAL, source, number, key);
                let at = 12 + usize::from(record[2]) % (FRAME_BYTES - 12);
                damaged[at] ^= record[3].max(1);
                let arrival = books.enter(&damaged, FRAME_BYTES, time as u64);
                late += u64::from(arrival == Arrival::LateTrial);
                forged += u64::from(arrival == Arrival::Forged);
                foreign += u64::from(arrival == Arrival::Foreign);
                if arrival == Arrival::Test {
                    // Addresses, the time to live and checksums are not looked at.
                    assert!(!STAMP.contains(&at), "byte {at}");
                    models[usize::from(source)].enter(number);
                }
                continue;
            }
            _ => frame(TRIAL, source, number, key).to_vec(),
        };
        let arrival = books.enter(&bytes, bytes.len(), time as u64);
        late += u64::from(arrival == Arrival::LateTrial);
        forged += u64::from(arrival == Arrival::Forged);
        foreign += u64::from(arrival == Arrival::Foreign);
        match record[0] % 8 {
            0 => assert_eq!(arrival, Arrival::LateTrial),
            1 => assert_eq!(arrival, Arrival::Forged),
            2 => assert_ne!(arrival, Arrival::Test),
            _ if number >= CAPACITY => assert_eq!(arrival, Arrival::Foreign),
            _ => {
                assert_eq!(arrival, Arrival::Test);
                models[usize::from(source)].enter(number);
            }
        }
    }
    assert_eq!((books.late_trial_frames(), books.forged_frames()), (late, forged));
    assert_eq!(books.foreign_frames(), foreign);
    for (book, model) in books.sources().iter().zip(&models) {
        let counts = book.arrivals();
        assert_eq!(counts.forwarded_frames, model.seen.len() as u64);
        assert_eq!(counts.duplicate_frames, model.duplicates);
        assert_eq!(counts.reordered_frames, model.reordered);
        assert_eq!(book.largest(), model.largest);
        assert!(book.agrees());
        let half = CAPACITY / 2 + 1;
        let beyond = model.seen.iter().filter(|number| **number >= half).count();
        assert_eq!(book.arrived_from(half), beyond as u64);
    }
}
