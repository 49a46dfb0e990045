//! Real frames through veth pairs, in user and network namespaces of the test's own.

mod common;

use common::Agent;
use common::traffic::{
    Forwarder, MILLISECOND_NS, books, flat_out, losing, number, pair, source, trial,
};
use serde_json::json;

#[test]
fn paced_traffic_is_counted_exactly() {
    let mut peer = Agent::in_namespace("peer");
    pair(&peer, 0);
    // Fewer frames than the kernel's queue between the two ends takes, should the far end be kept from running.
    for (trial_number, size, rate, milliseconds, frames) in
        [(1, 64, 23_000.0, 40, 920), (2, 500, 5_000.0, 100, 500), (3, 1_518, 1_000.0, 100, 100)]
    {
        let sources = [source(0, Some(rate))];
        let answer =
            peer.call("traffic", trial(trial_number, size, milliseconds, &sources, &["s0"]));
        let (intended, offered, forwarded) = books(&answer)[0];
        assert_eq!((intended, offered, forwarded), (frames, frames, frames), "{answer}");
        let reported = &answer["sink"]["per_source"][0];
        assert_eq!(
            (number(&reported["duplicate_frames"]), number(&reported["reordered_frames"])),
            (0, 0)
        );
        assert_eq!(number(&reported["delay_ns"]["count"]), forwarded);
        assert_eq!(answer["sink"]["drained"], true);
        assert_eq!(number(&answer["sink"]["late_trial_frames"]), 0);
        // A user namespace has no right to XDP programs, and says so.
        assert_eq!(answer["backend"], "af-xdp");
        assert!(answer["backend_reason"].as_str().unwrap().contains("live-frames"), "{answer}");
        assert_eq!(answer["sink"]["backend"], "tpacket");
    }
}

#[test]
fn flat_out_traffic_balances() {
    let mut peer = Agent::in_namespace("peer");
    pair(&peer, 0);
    let (answer, _) = flat_out(&mut peer, 1, |request| request);
    let (_, offered, forwarded) = books(&answer)[0];
    assert!(0 < forwarded && forwarded <= offered, "{answer}");
    // What the ring had no room for, it says: part of what is lost.
    let lost = number(&answer["sink"]["per_source"][0]["lost_frames"]);
    assert!(number(&answer["sink"]["kernel_dropped_frames"]) <= lost, "{answer}");
}

#[test]
fn three_sources_into_three_and_into_one() {
    let mut peer = Agent::in_namespace("peer");
    (0..3).for_each(|number| pair(&peer, number));
    let sources = [0, 1, 2].map(|number| source(number, Some(2_000.0 + number as f64 * 500.0)));
    let answer = peer.call("traffic", trial(1, 64, 100, &sources, &["s0", "s1", "s2"]));
    let all = [200, 250, 300];
    assert_eq!(books(&answer), all.map(|frames| (frames, frames, frames)), "{answer}");
    // A sink on one interface alone sees one source; the others' frames are lost to it.
    let answer = peer.call("traffic", losing(trial(2, 64, 100, &sources, &["s1"])));
    assert_eq!(books(&answer), [(200, 200, 0), (250, 250, 250), (300, 300, 0)], "{answer}");
}

#[test]
fn a_path_that_breaks_in_the_middle_loses_and_balances() {
    let mut peer = Agent::in_namespace("peer");
    pair(&peer, 0);
    pair(&peer, 1);
    // g0 - s0 [forwarder] g1 - s1: g1 goes down after the 100th frame.
    let forwarder = Forwarder::start(&peer, "s0", "g1", &["cut", "100"]);
    let mut across = source(0, Some(3_000.0));
    across["destination_mac"] = json!("02:00:00:00:02:01");
    let (answer, account) =
        forwarder.carry(&mut peer, &losing(trial(1, 64, 100, &[across], &["s1"])));
    assert_eq!(books(&answer), [(300, 300, 100)], "{answer}");
    assert_eq!((number(&account["missed"]), number(&account["0"]["dropped"])), (0, 200));
    assert_eq!(answer["sink"]["drained"], true);
    peer.ip("link set g0 down");
    let (kind, message) =
        peer.refused("traffic", trial(2, 64, 100, &[source(0, Some(100.0))], &["s1"]));
    assert_eq!(kind, "system");
    assert!(message.contains("g0"), "{message}");
}

#[test]
fn traffic_that_cannot_be_is_refused() {
    let mut peer = Agent::in_namespace("peer");
    pair(&peer, 0);
    let one = [source(0, Some(10.0))];
    for wrong in [
        trial(1, 63, 10, &one, &["s0"]),
        trial(1, 1_519, 10, &one, &["s0"]),
        trial(1, 64, 10, &[], &["s0"]),
        trial(1, 64, 10, &one, &[]),
        trial(1, 64, 10, &[source(0, Some(-1.0))], &["s0"]),
    ] {
        assert_eq!(peer.refused("traffic", wrong).0, "bad-request");
    }
    assert_eq!(peer.refused("traffic", trial(1, 64, 10, &one, &["nowhere"])).0, "system");
    peer.ip("link set g0 mtu 1496");
    let (_, message) = peer.refused("traffic", trial(1, 1_518, 10, &one, &["s0"]));
    assert!(message.contains("MTU of 1500"), "{message}");
}

/// A guest on its own network, joined to the peer by the timekeeper's link.
fn guest_and_peer() -> (Agent, Agent) {
    let peer = Agent::in_namespace("peer");
    let mut guest = Agent::beside(&peer, "guest");
    peer.ip(&format!(
        "link add t0 address 02:00:00:00:00:01 type veth peer name tx address 02:00:00:00:00:02 netns {}",
        guest.pid()
    ));
    peer.ip("addr add 10.99.0.1/24 dev t0");
    peer.ip("link set t0 up");
    peer.ip("neigh add 10.99.0.2 lladdr 02:00:00:00:00:02 dev t0 nud permanent");
    let wanted = json!({
        "interfaces": [{
            "mac": "02:00:00:00:00:02", "name": "mark0", "mtu": 1400, "address": "10.99.0.2/24",
            "neighbours": [{"address": "10.99.0.1", "mac": "02:00:00:00:00:01"}],
        }],
        "routes": [{"destination": "10.9.0.0/16", "via": "10.99.0.1"}],
        "ip_forward": true,
    });
    for _ in 0..2 {
        let answer = guest.call("network", wanted.clone());
        let reported = &answer["interfaces"][0];
        assert_eq!((&reported["name"], &reported["mtu"]), (&json!("mark0"), &json!(1_400)));
        assert!(reported["operstate"] == "up" || reported["operstate"] == "unknown", "{reported}");
    }
    peer.await_up("t0");
    (guest, peer)
}

#[test]
fn marks_reach_the_timekeeper_with_the_kernels_stamps() {
    let (mut guest, mut peer) = guest_and_peer();
    assert_eq!(guest.call("facts", json!({}))["sysctls"]["net.ipv4.ip_forward"], "1");
    let wanted = json!({"interface": "t0", "identifier": 77, "wait_for": 2, "timeout_ns": 60_000 * MILLISECOND_NS});
    assert_eq!(peer.refused("marks", wanted.clone()).0, "bad-request");
    peer.call("timekeeper-start", json!({"interface": "t0"}));
    let link = json!({
        "interface": "mark0", "source": "10.99.0.2", "target": "10.99.0.1",
        "target_mac": "02:00:00:00:00:01", "identifier": 77, "first_sequence": 65_535,
    });
    let run =
        json!({"job": "idle", "parameters": {"duration_ns": 50 * MILLISECOND_NS}, "marks": link});
    let guest_times = guest.call("run", run)["guest"].take();
    let reported = peer.call("marks", wanted.clone());
    let marks = reported["marks"].as_array().unwrap();
    assert_eq!((marks.len(), number(&reported["missing"])), (2, 0), "{reported}");
    assert_eq!((&marks[0]["sequence"], &marks[1]["sequence"]), (&json!(65_535), &json!(0)));
    // All on one clock: each edge is read, then its mark leaves, then the mark is stamped, then this test goes on.
    let stamps = [0, 1].map(|mark| number(&marks[mark]["received_realtime_ns"]));
    let read = |name: &str| number(&guest_times[name]);
    let now = number(&peer.call("clocks", json!({}))["realtime_ns"]);
    let edges = [read("start_realtime_ns"), read("end_realtime_ns")];
    assert!(edges[0] <= stamps[0] && edges[1] <= stamps[1], "{edges:?} {stamps:?}");
    assert!(stamps[0] <= stamps[1] && stamps[1] <= now, "{stamps:?} {now}");
    let inside = read("end_monotonic_ns") - read("start_monotonic_ns");
    assert!(inside >= 50 * MILLISECOND_NS, "{inside}");
    // They were handed out; none is left, and the wait ends by its time.
    let wanted = json!({"interface": "t0", "identifier": 77, "wait_for": 1, "timeout_ns": 10 * MILLISECOND_NS});
    assert_eq!(peer.call("marks", wanted), json!({"marks": [], "missing": 1}));
}

/// A guest that pauses once more sends its start mark once more.
#[test]
fn a_mark_that_arrives_twice_is_one_of_those_awaited() {
    let (mut guest, mut peer) = guest_and_peer();
    peer.call("timekeeper-start", json!({"interface": "t0"}));
    for _ in 0..2 {
        let link = json!({
            "interface": "mark0", "source": "10.99.0.2", "target": "10.99.0.1",
            "target_mac": "02:00:00:00:00:01", "identifier": 77, "first_sequence": 4,
        });
        guest.call("run", json!({"job": "idle", "parameters": {"duration_ns": 1}, "marks": link}));
    }
    let wanted = json!({"interface": "t0", "identifier": 77, "wait_for": 3, "timeout_ns": 100 * MILLISECOND_NS});
    let reported = peer.call("marks", wanted);
    assert_eq!(reported["marks"].as_array().unwrap().len(), 4, "{reported}");
    assert_eq!(reported["missing"], 1);
}

/// Who shares the timekeeper with a guest may send its marks' numbers, and as many as it likes: on its own link.
#[test]
fn marks_count_on_the_link_on_which_they_arrive() {
    let (mut guest, mut peer) = guest_and_peer();
    let mut neighbour = Agent::beside(&peer, "guest");
    peer.ip(&format!("link add t1 type veth peer name mark1 netns {}", neighbour.pid()));
    peer.ip("link set t1 up");
    neighbour.ip("link set mark1 up");
    peer.await_up("t1");
    for interface in ["t0", "t1"] {
        peer.call("timekeeper-start", json!({"interface": interface}));
    }
    let marks_of = |agent: &mut Agent, interface: &str, target_mac: &str| {
        let link = json!({
            "interface": interface, "source": "10.99.0.2", "target": "10.99.0.1",
            "target_mac": target_mac, "identifier": 77, "first_sequence": 4,
        });
        agent.call("run", json!({"job": "idle", "parameters": {"duration_ns": 1}, "marks": link}));
    };
    marks_of(&mut guest, "mark0", "02:00:00:00:00:01");
    marks_of(&mut neighbour, "mark1", "ff:ff:ff:ff:ff:ff");
    let mut handed_out = |interface: &str| {
        let wanted = json!({
            "interface": interface, "identifier": 77, "wait_for": 2, "timeout_ns": 60_000 * MILLISECOND_NS,
        });
        let reported = peer.call("marks", wanted);
        reported["marks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|mark| number(&mark["sequence"]))
            .collect::<Vec<_>>()
    };
    // The neighbour's have arrived before the guest's are asked for.
    assert_eq!(handed_out("t1"), [4, 5]);
    assert_eq!(handed_out("t0"), [4, 5]);
}

#[test]
fn the_path_delay_is_measured() {
    let (_guest, mut peer) = guest_and_peer();
    let mut request = json!({
        "interface": "t0", "source": "10.99.0.1", "target": "10.99.0.2",
        "target_mac": "02:00:00:00:00:02", "count": 23, "timeout_ns": 60_000 * MILLISECOND_NS,
    });
    let answer = peer.call("path-delay", request.clone());
    assert_eq!(answer["lost"], 0, "{answer}");
    let round_trips = answer["round_trip_ns"].as_array().unwrap();
    assert_eq!(round_trips.len(), 23);
    assert!(round_trips.iter().all(|one| number(one) > 0 && number(one) < 60_000 * MILLISECOND_NS));
    request["target"] = json!("10.99.0.3");
    request["timeout_ns"] = json!(MILLISECOND_NS);
    request["count"] = json!(2);
    assert_eq!(peer.call("path-delay", request), json!({"round_trip_ns": [], "lost": 2}));
}

/// A guest between two links of the peer, `a0` and `b0`.
fn router_and_peer() -> (Agent, Agent) {
    let peer = Agent::in_namespace("peer");
    let guest = Agent::beside(&peer, "guest");
    for (name, place) in [("a", 1), ("b", 2)] {
        peer.ip(&format!(
            "link add {name}0 address 02:00:00:00:0{place}:01 type veth peer name {name}1 \
             address 02:00:00:00:0{place}:02 netns {}",
            guest.pid()
        ));
        peer.ip(&format!("link set {name}0 up"));
    }
    (guest, peer)
}

fn ipv6_link(place: u8) -> serde_json::Value {
    json!({
        "mac": format!("02:00:00:00:0{place}:02"), "ipv6_address": format!("2001:2:0:{place}::1/64"),
        "neighbours": [{"address": format!("2001:2:0:{place}::2"), "mac": format!("02:00:00:00:0{place}:01")}],
    })
}

fn ip_output(guest: &Agent, arguments: &str) -> String {
    let output = guest.inside("ip").args(arguments.split(' ')).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn ipv6_is_set_up_at_once_and_forwards() {
    let (mut guest, mut peer) = router_and_peer();
    let wanted = json!({"interfaces": [ipv6_link(1), ipv6_link(2)], "ipv6_forward": true});
    for _ in 0..2 {
        guest.call("network", wanted.clone());
        let addresses = ip_output(&guest, "-6 -oneline address show dev a1");
        assert_eq!(addresses.matches("inet6").count(), 1, "{addresses}");
        assert!(
            addresses.contains("2001:2:0:1::1/64") && addresses.contains("nodad"),
            "{addresses}"
        );
        assert!(!addresses.contains("tentative"), "{addresses}");
    }
    let neighbours = ip_output(&guest, "-6 neighbour show dev b1");
    assert!(
        neighbours.contains("2001:2:0:2::2") && neighbours.contains("PERMANENT"),
        "{neighbours}"
    );
    let mut across = source(0, Some(2_000.0));
    across["interface"] = json!("a0");
    across["destination_mac"] = json!("02:00:00:00:01:02");
    across["source_address"] = json!("2001:2:0:1::2");
    across["destination_address"] = json!("2001:2:0:2::2");
    let answer = peer.call("traffic", trial(1, 84, 100, &[across], &["b0"]));
    assert_eq!(books(&answer), [(200, 200, 200)], "{answer}");
    // Another address replaces the one that is there.
    let mut moved = ipv6_link(1);
    moved["ipv6_address"] = json!("2001:2:0:9::1/64");
    guest.call("network", json!({"interfaces": [moved]}));
    let addresses = ip_output(&guest, "-6 -oneline address show dev a1");
    assert!(
        addresses.contains("2001:2:0:9::1/64") && !addresses.contains("2001:2:0:1::1"),
        "{addresses}"
    );
    for (field, wrong) in [("ipv6_address", "10.1.0.1/24"), ("address", "2001:2::1/64")] {
        let mut link = json!({"mac": "02:00:00:00:01:02"});
        link[field] = json!(wrong);
        let (kind, message) = guest.refused("network", json!({"interfaces": [link]}));
        assert_eq!(kind, "bad-request");
        assert!(message.contains(wrong), "{message}");
    }
}

#[test]
fn vlans_are_made_and_removed_or_the_kernel_has_none_and_that_is_said() {
    let (mut guest, _peer) = router_and_peer();
    let with = |vlans: serde_json::Value| json!({"interfaces": [{"mac": "02:00:00:00:01:02", "vlans": vlans}]});
    assert_eq!(guest.refused("network", with(json!([{"vlan": 4095}]))).0, "bad-request");
    let one =
        with(json!([{"vlan": 5, "address": "10.1.128.1/24", "ipv6_address": "2001:2:0:81::1/64"}]));
    let id = guest.send("network", one.clone());
    let answer = guest.answer(id);
    if let Some(error) = answer.get("error") {
        println!("NOT TESTED: VLANs, since this kernel has none (8021q)");
        assert_eq!(error["kind"], "unsupported");
        assert!(error["message"].as_str().unwrap().contains("8021q"), "{error}");
    } else {
        // The interface itself is still the one that is found by the address that both have.
        assert_eq!(answer["ok"]["interfaces"].as_array().unwrap().len(), 1);
        assert_eq!(guest.call("network", one), answer["ok"]);
        assert!(ip_output(&guest, "-details link show dev a1.5").contains("802.1Q id 5"));
        assert!(ip_output(&guest, "address show dev a1.5").contains("10.1.128.1/24"));
        guest.call("network", with(json!([{"vlan": 6}])));
        assert_eq!(ip_output(&guest, "link show type vlan").matches("a1.").count(), 1);
    }
    guest.call("network", with(json!([])));
    assert_eq!(ip_output(&guest, "link show type vlan"), "");
}
