//! From the first frame to the last nothing is allocated or freed: until the last one is sent on any thread of the
//! process, and until the last one arrives on the sink's. Every back end and every sink, paced and flat out, under an
//! allocator that writes down when it was asked, and by whom.
//!
//! The trial runs in a process of its own, in a network namespace, since a test's other threads would be seen as well.
#![allow(unsafe_code)] // an allocator cannot be had without

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use virtoll_clock::monotonic_ns;
use virtoll_wire::backend::Quiet;
use virtoll_wire::backend_selection::{Generator, Sink};
use virtoll_wire::frame::{FrameShape, Key, TestFrameRepr};
use virtoll_wire::routes::Table;
use virtoll_wire::trial::{self, MINIMUM_QUIET_NS, TrialPlan, limit_frames};
use virtoll_wire::{SourcePlan, interface_mac};

/// More than a trial makes; what comes beyond is seen by the count.
const REMEMBERED: usize = 1 << 16;
static ASKED: AtomicUsize = AtomicUsize::new(0);
static ASKED_AT_NS: [AtomicU64; REMEMBERED] = [const { AtomicU64::new(0) }; REMEMBERED];
static ASKED_BY_SINK: [AtomicBool; REMEMBERED] = [const { AtomicBool::new(false) }; REMEMBERED];

struct Watched;

fn note() {
    let place = ASKED.fetch_add(1, Ordering::Relaxed);
    if let (Some(at), Some(by_sink)) = (ASKED_AT_NS.get(place), ASKED_BY_SINK.get(place)) {
        by_sink.store(is_sink(), Ordering::Relaxed);
        at.store(monotonic_ns(), Ordering::Relaxed);
    }
}

/// Whether the calling thread is the sink's, by the name that it has in the kernel.
fn is_sink() -> bool {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes at most 16 bytes, and nothing is allocated for it.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name.starts_with(b"sink\0")
}

// SAFETY: every call goes to the system's allocator as it came; noting it touches nothing but atomics and the clock.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note();
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(place, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// Calls of the allocator between two times: all, and the sink's.
fn asked_between(first_ns: u64, last_ns: u64) -> (usize, usize) {
    let count = ASKED.load(Ordering::Relaxed);
    assert!(count <= REMEMBERED, "{count} calls are more than are remembered");
    let within =
        |place: &usize| (first_ns..=last_ns).contains(&ASKED_AT_NS[*place].load(Ordering::Relaxed));
    let by_sink = |place: &usize| ASKED_BY_SINK[*place].load(Ordering::Relaxed);
    let places = (0..count).filter(within);
    (places.clone().count(), places.filter(by_sink).count())
}

const INSIDE: &str = "in_a_namespace";

#[test]
fn from_the_first_frame_to_the_last_nothing_is_allocated() {
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut modes = vec![("user", &["--user", "--map-root-user", "--net"][..])];
    if root {
        modes.push(("root", &["--net"]));
    } else {
        println!("NOT TESTED: XDP programs need root; run this test as root");
    }
    for (mode, namespaces) in modes {
        // An ordinary user's PATH lacks the folder of ethtool.
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
        let output = Command::new("unshare")
            .env("PATH", path)
            .args(namespaces)
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", INSIDE, "--nocapture", "--test-threads=1"])
            .env("VIRTOLL_TEST_MODE", mode)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{mode}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(text.contains("1 passed"), "{text}");
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

fn plan(
    trial: u16,
    generator: Generator,
    sink: Sink,
    frames_per_second: Option<f64>,
    duration_ns: u64,
) -> TrialPlan {
    let source = SourcePlan {
        interface: "g0".to_owned(),
        shape: FrameShape {
            repr: TestFrameRepr {
                source_mac: interface_mac("g0").unwrap(),
                destination_mac: interface_mac("s0").unwrap(),
                vlan: None,
                source_address: Ipv4Addr::new(10, 1, 0, 1).into(),
                destination_address: Ipv4Addr::new(10, 2, 0, 1).into(),
                source_port: 1_000,
                destination_port: 9,
                trial,
                source: 0,
                sequence: 0,
                sent_monotonic_ns: 0,
                timed: true,
                frame_bytes: 0,
            },
            sizes: vec![64, 1500],
            flows: 3,
            destinations: Table::new(1_000, 7).unwrap().destinations(64).into(),
            key: Key::PUBLIC,
        },
        frames_per_second,
        duration_ns,
        limit_frames: limit_frames(frames_per_second, duration_ns),
        cpu: None,
        // To find the batch that holds a rate takes two seconds.
        batch_frames: frames_per_second.map(|_| 1),
        catch_up_ns: u64::MAX,
        wake_ns: None,
        bursts: None,
        stop: None,
    };
    TrialPlan {
        trial,
        generator,
        sources: vec![source],
        sink,
        sink_interfaces: vec!["s0".to_owned()],
        sink_cpu: None,
        quiet: Quiet {
            quiet_ns: MINIMUM_QUIET_NS,
            residual_ns: MINIMUM_QUIET_NS,
            limit_ns: 1_000_000_000,
        },
        capture_frames: 0,
    }
}

#[test]
#[ignore = "run by the other test, in a namespace"]
fn in_a_namespace() {
    let Ok(mode) = std::env::var("VIRTOLL_TEST_MODE") else { return };
    ip("link add g0 type veth peer name s0");
    ip("link set g0 up");
    ip("link set s0 up");
    let status = Command::new("ethtool").args(["-K", "s0", "gro", "on"]).status().unwrap();
    assert!(status.success(), "ethtool switches GRO on");
    // The watch itself: what is allocated is seen.
    let before_ns = monotonic_ns();
    drop(std::hint::black_box(vec![1_u8; 100]));
    assert_eq!(asked_between(before_ns, monotonic_ns()), (2, 0));
    let before_ns = monotonic_ns();
    let sink = std::thread::Builder::new().name("sink".to_owned());
    let allocate = || drop(std::hint::black_box(vec![1_u8; 100]));
    sink.spawn(allocate).unwrap().join().unwrap();
    assert!(asked_between(before_ns, monotonic_ns()).1 >= 2);
    let mut trials = 1..;
    let (generators, sinks) = if mode == "root" {
        (
            &[Generator::LiveFrames, Generator::AfXdp, Generator::AfPacket][..],
            [Sink::Xdp, Sink::Tpacket],
        )
    } else {
        (&[Generator::AfXdp, Generator::AfPacket][..], [Sink::Tpacket; 2])
    };
    for (generator, sink, rate) in generators.iter().flat_map(|generator| {
        sinks
            .iter()
            .flat_map(move |sink| [Some(20_000.0), None].map(|rate| (*generator, *sink, rate)))
    }) {
        let what = format!("{generator:?} into {sink:?} at {rate:?}");
        // Flat out the time is over whether the sender ran or not, so it is given more until something was sent.
        let mut sent = [100_000_000, 10_000_000_000].into_iter().filter_map(|duration_ns| {
            ASKED.store(0, Ordering::Relaxed);
            let number = trials.next().unwrap();
            let counts = trial::run(&plan(number, generator, sink, rate, duration_ns)).unwrap();
            counts.sent.value[0].counts.sent_between_ns.map(|between| (counts, between))
        });
        let (counts, (first_ns, last_ns)) = sent.next().expect(&what);
        let arrivals = &counts.sink.sources[0].arrivals;
        assert!(arrivals.forwarded_frames > 0, "{what}: {arrivals:?}");
        let all = ASKED.load(Ordering::Relaxed);
        assert!(all > 100, "{what}: {all} calls in all, and the trial makes threads and books");
        assert_eq!(asked_between(first_ns, last_ns).0, 0, "{what}");
        let last_received_ns = arrivals.last_received_monotonic_ns.unwrap();
        assert_eq!(asked_between(first_ns, last_received_ns).1, 0, "{what}");
    }
}
