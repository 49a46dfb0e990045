//! The XDP generator writes the same bytes as the plain writer, for every layout, size and flow.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use virtoll_wire::frame::{FrameShape, Key, TestFrameRepr};
use virtoll_wire::routes::Table;
use virtoll_wire::{MacAddress, SourcePlan, written_frames};

const KEY: Key = Key::new(*b"sixteen bytes of");

fn plan(
    addresses: (IpAddr, IpAddr),
    vlan: Option<u16>,
    sizes: Vec<usize>,
    flows: u16,
) -> SourcePlan {
    SourcePlan {
        interface: "lo".to_owned(),
        shape: FrameShape {
            repr: TestFrameRepr {
                source_mac: MacAddress([2, 3, 4, 5, 6, 7]),
                destination_mac: MacAddress([2, 13, 14, 15, 16, 17]),
                vlan,
                source_address: addresses.0,
                destination_address: addresses.1,
                source_port: 65_000,
                destination_port: 9,
                trial: 0xabcd,
                source: 11,
                sequence: 0,
                sent_monotonic_ns: 0,
                timed: true,
                frame_bytes: 0,
            },
            sizes,
            flows,
            destinations: Arc::new([]),
            key: KEY,
        },
        frames_per_second: None,
        duration_ns: 1,
        limit_frames: 1,
        cpu: None,
        batch_frames: None,
        catch_up_ns: 0,
        wake_ns: None,
        bursts: None,
        stop: None,
    }
}

fn check(plan: &SourcePlan, count: u64) {
    let FrameShape { repr, sizes, flows, destinations, .. } = &plan.shape;
    let frames = written_frames(plan, count).unwrap();
    for (sequence, frame) in (0..count).zip(&frames) {
        let read = TestFrameRepr::parse(frame, &KEY).unwrap();
        let wanted = TestFrameRepr {
            sequence,
            sent_monotonic_ns: read.sent_monotonic_ns,
            source_port: 65_000 + (sequence % u64::from(*flows)) as u16,
            destination_address: match destinations.len() as u64 {
                0 => repr.destination_address,
                count => destinations[(sequence % count) as usize].into(),
            },
            frame_bytes: sizes[(sequence % sizes.len() as u64) as usize],
            ..*repr
        };
        assert_eq!(read, wanted);
        let mut bytes = vec![0; wanted.frame_bytes];
        wanted.emit(&mut bytes, &KEY).unwrap();
        assert_eq!(*frame, bytes, "frame {sequence} of {} bytes", wanted.frame_bytes);
    }
    let times: Vec<u64> = frames
        .iter()
        .map(|frame| TestFrameRepr::parse(frame, &KEY).unwrap().sent_monotonic_ns)
        .collect();
    assert!(times[0] > 0 && times.is_sorted(), "{times:?}");
}

#[test]
fn the_program_writes_what_the_plain_writer_writes() {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        println!("NOT TESTED: XDP programs need root; run this test as root");
        return;
    }
    let v4 = (Ipv4Addr::new(10, 1, 2, 3).into(), Ipv4Addr::new(192, 168, 255, 1).into());
    let v6 =
        (Ipv6Addr::from_bits(0xfd00 << 112 | 0x4d).into(), Ipv6Addr::from_bits(u128::MAX).into());
    for (addresses, vlan, least) in
        [(v4, None, 60), (v4, Some(4094), 64), (v6, None, 80), (v6, Some(1), 84)]
    {
        for size in (least..=1514).step_by(97).chain([least + 1, 1513, 1514]) {
            check(&plan(addresses, vlan, vec![size], 1), 5);
        }
        let mixed = vec![least, 1514, least, 590, 127, least, 1000];
        check(&plan(addresses, vlan, mixed, 5), 60);
        let spread: Vec<Ipv4Addr> = Table::new(1_000, 7).unwrap().destinations(37);
        let mut several = plan(addresses, vlan, vec![least, 1514, 600], 3);
        several.shape.destinations = spread.into();
        if several.shape.layout().ipv6 {
            assert!(written_frames(&several, 1).is_err());
        } else {
            check(&several, 120);
        }
    }
}
