//! Streams and transactions between two agents: over a real link, both directions, and what is left when it fails.

mod common;

use common::{Agent, LONG_NS, wait};
use serde_json::{Value, json};

const SECOND_NS: u64 = 1_000_000_000;

/// A guest joined to the peer by one link, the peer with an address as for a trial.
fn guest_and_peer() -> (Agent, Agent) {
    let mut peer = Agent::in_namespace("peer");
    let mut guest = Agent::beside(&peer, "guest");
    peer.ip(&format!(
        "link add t0 address 02:00:00:00:00:01 type veth peer name tx address 02:00:00:00:00:02 netns {}",
        guest.pid()
    ));
    let end = |mac: &str, address: &str, other: &str, other_mac: &str| {
        json!({"interfaces": [{
            "mac": mac, "address": format!("{address}/24"), "neighbours": [{"address": other, "mac": other_mac}],
        }]})
    };
    let (one, other) = (("10.99.0.1", "02:00:00:00:00:01"), ("10.99.0.2", "02:00:00:00:00:02"));
    peer.ip("link set t0 up"); // each end waits for a carrier
    guest.call("network", end(other.1, other.0, one.0, one.1));
    peer.call("network", end(one.1, one.0, other.0, other.1));
    (guest, peer)
}

fn stream(active: &str, bytes: u64) -> Value {
    json!({"kind": "stream", "active": active, "bytes": bytes, "message_bytes": 16_384})
}

fn serve(exchange: &Value) -> Value {
    json!({"address": "10.99.0.1", "exchange": exchange, "timeout_ns": LONG_NS})
}

/// Segments that the kernel sent again in the agent's namespace.
fn sent_again(agent: &Agent) -> u64 {
    let reported = agent.inside("cat").arg("/proc/net/snmp").output().unwrap();
    let reported = String::from_utf8(reported.stdout).unwrap();
    let mut lines = reported.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, numbers) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split(' ').position(|name| name == "RetransSegs").unwrap();
    numbers.split(' ').nth(place).unwrap().parse().unwrap()
}

fn run(port: &Value, exchange: &Value) -> Value {
    let parameters = json!({
        "address": "10.99.0.1", "port": port, "exchange": exchange, "timeout_ns": LONG_NS,
    });
    json!({"job": "tcp", "parameters": parameters, "marks": null})
}

#[test]
fn bytes_and_transactions_cross_a_link_in_both_directions() {
    let (mut guest, mut peer) = guest_and_peer();
    let transactions = |active: &str| {
        json!({
            "kind": "request-response", "active": active, "transactions": 200, "request_bytes": 1, "response_bytes": 1,
        })
    };
    for active in ["opener", "listener"] {
        for (exchange, check) in
            [(stream(active, 3_000_001), "3000001"), (transactions(active), "200")]
        {
            let before = sent_again(&peer);
            let port = peer.call("serve", serve(&exchange))["port"].take();
            let ran = guest.call("run", run(&port, &exchange));
            let reported = peer.call("serve-finish", json!({"timeout_ns": LONG_NS}));
            assert_eq!(
                (ran["check"].as_str(), reported["check"].as_str()),
                (Some(check), Some(check))
            );
            // A busy machine may be late with an answer, and its kernel then sends again: as often as it says itself.
            let again = reported["tcp"]["retransmitted_segments"].as_u64().unwrap();
            assert!(again <= sent_again(&peer) - before, "{reported}");
            assert!(ran["result"]["tcp"]["sent_segment_bytes"].as_u64() > Some(500), "{ran}");
        }
    }
}

#[test]
fn several_connections_carry_their_parts_at_once() {
    let (mut guest, mut peer) = guest_and_peer();
    for active in ["opener", "listener"] {
        let mut bytes = stream(active, 3_000_001);
        bytes["connections"] = json!(4);
        let transactions = json!({
            "kind": "request-response", "active": active, "transactions": 203, "request_bytes": 1, "response_bytes": 1,
            "connections": 3,
        });
        for (exchange, amount, parts) in [
            (bytes, "bytes", vec![750_001, 750_000, 750_000, 750_000]),
            (transactions, "transactions", vec![68, 68, 67]),
        ] {
            let port = peer.call("serve", serve(&exchange))["port"].take();
            let ran = guest.call("run", run(&port, &exchange));
            let reported = peer.call("serve-finish", json!({"timeout_ns": LONG_NS}));
            let whole: u64 = parts.iter().sum();
            assert_eq!(ran["check"], whole.to_string());
            assert_eq!(reported["check"], whole.to_string());
            for (end, connections) in [
                (&ran["result"], &ran["result"]["connections"]),
                (&reported["result"], &reported["connections"]),
            ] {
                assert_eq!(end[amount], whole);
                let connections = connections.as_array().unwrap();
                let did: Vec<u64> =
                    connections.iter().map(|one| one[amount].as_u64().unwrap()).collect();
                assert_eq!(did, parts);
                let edges =
                    |name: &'static str| connections.iter().map(move |one| one[name].as_u64());
                assert_eq!(
                    end["start_monotonic_ns"].as_u64(),
                    edges("start_monotonic_ns").min().unwrap()
                );
                assert_eq!(
                    end["end_monotonic_ns"].as_u64(),
                    edges("end_monotonic_ns").max().unwrap()
                );
                assert!(connections.iter().all(|one| one["tcp"]["sent_segment_bytes"].is_u64()));
            }
            assert!(ran["result"]["tcp"].is_null() && reported["tcp"].is_null());
            if amount == "transactions" {
                let asker = if active == "opener" { &ran["result"] } else { &reported["result"] };
                assert_eq!(asker["transaction_ns"]["count"], whole);
            }
        }
    }
}

#[test]
fn connections_that_cannot_be_are_refused() {
    let (mut guest, mut peer) = guest_and_peer();
    for (connections, bytes, says) in [
        (0, 100, "must be 1 to 256"),
        (257, 1000, "must be 1 to 256"),
        (8, 7, "by each connection"),
    ] {
        let mut exchange = stream("opener", bytes);
        exchange["connections"] = json!(connections);
        for (kind, said) in [
            peer.refused("serve", serve(&exchange)),
            guest.refused("run", run(&json!(9), &exchange)),
        ] {
            assert_eq!(kind, "bad-request");
            assert!(said.contains(says), "{said}");
        }
    }
}

#[test]
fn the_peer_is_without_an_address_again() {
    let (mut guest, mut peer) = guest_and_peer();
    let exchange = stream("opener", 10);
    let addresses = |peer: &Agent| {
        let reported = peer.inside("ip").args(["-4", "-o", "addr", "show", "t0"]).output().unwrap();
        String::from_utf8(reported.stdout).unwrap()
    };
    assert!(addresses(&peer).contains("10.99.0.1/24"));
    peer.call(
        "network",
        json!({"interfaces": [{"mac": "02:00:00:00:00:01", "without_address": true}]}),
    );
    assert_eq!(addresses(&peer), "");
    assert_eq!(peer.refused("serve", serve(&exchange)).0, "system", "no such address to listen at");
    let mut nobody = run(&json!(9), &exchange);
    nobody["parameters"]["timeout_ns"] = json!(SECOND_NS / 10);
    assert_eq!(guest.refused("run", nobody).0, "system");
}

#[test]
fn a_server_that_is_not_needed_any_more_gives_its_port_back() {
    let (mut guest, mut peer) = guest_and_peer();
    let mut exchange = stream("listener", 1 << 40);
    exchange["connections"] = json!(3);
    let mut wanted = serve(&exchange);
    wanted["port"] = json!(7_000);
    // Whoever serves may be in any state: nobody came, or somebody came and does not read.
    for _ in 0..2 {
        peer.call("serve", wanted.clone());
    }
    let id = guest.send("run", run(&json!(7_000), &exchange));
    // In the middle of it: 7000 is 1B58, and state 1 an open connection.
    wait(|| {
        let reported = peer.inside("cat").arg("/proc/net/tcp").output().unwrap();
        let reported = String::from_utf8(reported.stdout).unwrap();
        reported.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[1].ends_with(":1B58") && words[3] == "01"
        })
    });
    peer.call("serve-close", json!({}));
    assert_eq!(guest.answer(id)["error"]["kind"], "system");
    peer.call("serve", wanted);
    peer.call("serve-close", json!({}));
    assert_eq!(peer.refused("serve-finish", json!({"timeout_ns": 1})).0, "bad-request");
}
