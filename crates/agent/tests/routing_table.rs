//! Tables of routes in a namespace of the test's own: set, looked up, forwarded by, and taken away.

mod common;

use common::Agent;
use common::traffic::{MILLISECOND_NS, books, losing, number, source, trial};
use serde_json::{Value, json};

/// A guest that routes between two links of the peer: `a0`-`a1` and `b0`-`b1`; its next hop is 10.2.0.1 behind `b1`.
fn router() -> (Agent, Agent) {
    let peer = Agent::in_namespace("peer");
    let mut guest = Agent::beside(&peer, "guest");
    for (name, place) in [("a", 1), ("b", 2)] {
        peer.ip(&format!(
            "link add {name}0 address 02:00:00:00:0{place}:01 type veth peer name {name}1 \
             address 02:00:00:00:0{place}:02 netns {}",
            guest.pid()
        ));
        peer.ip(&format!("link set {name}0 up"));
    }
    let link = |place: u8| {
        json!({
            "mac": format!("02:00:00:00:0{place}:02"), "address": format!("10.{place}.0.2/24"),
            "neighbours": [{"address": format!("10.{place}.0.1"), "mac": format!("02:00:00:00:0{place}:01")}],
        })
    };
    guest.call("network", json!({"interfaces": [link(1), link(2)], "ip_forward": true}));
    (guest, peer)
}

fn table(guest: &mut Agent, routes: u32) -> Value {
    let parameters = json!({"routes": routes, "seed": 5, "via": "10.2.0.1"});
    guest.call("run", json!({"job": "routing-table", "parameters": parameters}))
}

fn ip_output(guest: &Agent, arguments: &str) -> String {
    let output = guest.inside("ip").args(arguments.split(' ')).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_table_is_set_and_leaves_nothing_behind() {
    let (mut guest, _peer) = router();
    // IPv6's are not looked at: the kernel makes them when it has made sure of an address, which takes a while.
    let before = ip_output(&guest, "-4 route show table all");
    for routes in [20_000, 1_000] {
        let answer = table(&mut guest, routes);
        assert_eq!(answer["check"], routes.to_string());
        assert_eq!(answer["result"]["changed_routes"], routes);
        assert!(number(&answer["result"]["memory_after"]["kernel"]["MemTotal"]) > 0, "{answer}");
        let listed = ip_output(&guest, "route show");
        assert_eq!(listed.lines().count(), routes as usize + 2);
        assert_eq!(listed.matches("via 10.2.0.1 dev b1 proto 214").count(), routes as usize);
    }
    let taken = table(&mut guest, 0);
    assert_eq!((&taken["check"], &taken["result"]["changed_routes"]), (&json!("0"), &json!(1_000)));
    assert_eq!(ip_output(&guest, "-4 route show table all"), before);
    // Again there is nothing to take.
    assert_eq!(table(&mut guest, 0)["result"]["changed_routes"], 0);
}

#[test]
fn frames_to_destinations_all_over_the_table_are_forwarded_and_without_it_none() {
    let (mut guest, mut peer) = router();
    let mut across = source(0, Some(5_000.0));
    across["interface"] = json!("a0");
    across["source_mac"] = json!("02:00:00:00:01:01");
    across["destination_mac"] = json!("02:00:00:00:01:02");
    across["source_address"] = json!("10.1.0.1");
    across["destinations"] = json!({"count": 512, "routes": 3_000, "seed": 5});
    let mut request = trial(1, 64, 120, &[across], &["b0"]);
    request["backend"] = json!("af-packet");
    table(&mut guest, 3_000);
    let answer = peer.call("traffic", request.clone());
    // Each destination once at least.
    assert_eq!(books(&answer), [(600, 600, 600)], "{answer}");
    table(&mut guest, 0);
    request["trial"] = json!(2);
    request["duration_ns"] = json!(50 * MILLISECOND_NS);
    assert_eq!(books(&peer.call("traffic", losing(request))), [(250, 250, 0)]);
}

#[test]
fn a_router_with_a_way_out_of_its_own_keeps_it() {
    let (mut guest, _peer) = router();
    guest.call("network", json!({"routes": [{"destination": "0.0.0.0/0", "via": "10.1.0.1"}]}));
    let parameters = json!({"routes": 10, "seed": 5, "via": "10.2.0.1"});
    let wanted = json!({"job": "routing-table", "parameters": parameters});
    let (kind, message) = guest.refused("run", wanted);
    assert_eq!(kind, "unsupported");
    assert!(message.contains("0.0.0.0/0"), "{message}");
    assert_eq!(ip_output(&guest, "route show").lines().count(), 3);
}

#[test]
fn a_gateway_that_cannot_be_reached_leaves_no_route() {
    let (mut guest, _peer) = router();
    let parameters = json!({"routes": 1_000, "seed": 5, "via": "172.30.0.1"});
    let wanted = json!({"job": "routing-table", "parameters": parameters});
    let (kind, message) = guest.refused("run", wanted);
    assert_eq!(kind, "system");
    assert!(message.contains("172.30.0.1"), "{message}");
    assert_eq!(ip_output(&guest, "route show").lines().count(), 2);
}
