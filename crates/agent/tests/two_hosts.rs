//! The two halves of a trial by two agents in two network namespaces: books as whole as one agent's, and what is left
//! when one half fails.

mod common;

use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use common::traffic::{MILLISECOND_NS, books, number, offered_totals, pair, source, trial};
use common::{Agent, BINARY, LONG_NS, wait};
use serde_json::{Value, json};

/// A pair of agents with a wire between them, `g0` at the first and `s0` at the second, as far as this user may.
fn hosts() -> Vec<(Agent, Agent)> {
    let first = [Some(Agent::in_namespace("peer")), Agent::as_root("peer")];
    let hosts = first.into_iter().flatten().map(|generator| {
        let sink = Agent::beside(&generator, "peer");
        for host in [&generator, &sink] {
            let quiet =
                "for one in all default; do echo 1 > /proc/sys/net/ipv6/conf/$one/disable_ipv6; done";
            let status = host.inside("sh").args(["-c", quiet]).status();
            assert!(status.is_ok_and(|status| status.success()), "IPv6 stays on");
        }
        generator.ip(&format!(
            "link add g0 mtu 1600 address 02:00:00:00:01:00 type veth peer name s0 mtu 1600 address 02:00:00:00:02:00 netns {}",
            sink.pid()
        ));
        generator.ip("link set g0 up");
        sink.ip("link set s0 up");
        (generator, sink)
    });
    hosts.collect()
}

/// A trial over both, as one answer.
fn joined(generator: &mut Agent, sink: &mut Agent, request: &Value) -> Value {
    let opened = sink.call("sink-open", request.clone());
    let mut sent = generator.call("send", request.clone());
    let received = sink.call("sink-finish", offered_totals(&sent));
    assert_eq!(opened["backend"], received["sink"]["backend"]);
    sent["sink"] = received["sink"].clone();
    sent["received"] = received;
    sent
}

fn arrived(sink: &mut Agent) -> u64 {
    let reported = sink.call("counters", json!({"interfaces": ["s0"]}));
    number(&reported["interfaces"][0]["statistics"]["rx_packets"])
}

/// 200 frames: no more than a pair's ring takes, should the far end be kept from running.
fn whole(number: u16) -> Value {
    let mut request = trial(number, 200, 50, &[source(0, Some(4_000.0))], &["s0"]);
    request["batch_frames"] = json!(1);
    request
}

#[test]
fn the_halves_make_whole_books() {
    for (mut generator, mut sink) in hosts() {
        for (trial_number, size) in [(1, 64), (2, 1_518)] {
            // The batch that holds the rate is measured, which takes each agent two seconds.
            let mut request = whole(trial_number);
            request["batch_frames"] = json!(null);
            request["frame_size_bytes"] = json!(size);
            request["histograms"] = json!(true);
            let answer = joined(&mut generator, &mut sink, &request);
            let (_, _, forwarded) = books(&answer)[0];
            assert_eq!(books(&answer), [(200, 200, 200)], "{answer}");
            assert_eq!(answer["sink"]["drained"], true);
            assert_eq!(answer["sink"]["foreign_frames"], 0);
            // The clocks of two hosts are not one: no delay, and why.
            let arrived = &answer["sink"]["per_source"][0];
            for name in ["delay_ns", "packet_delay_variation_ns", "inter_packet_delay_variation_ns"]
            {
                assert_eq!(arrived[name], Value::Null, "{answer}");
            }
            assert!(answer["sink"]["delay_reason"].as_str().unwrap().contains("two hosts"));
            assert!(number(&answer["cpu"]["generator_cpu_ns"]) > 0);
            let received = &answer["received"];
            assert!(number(&received["cpu"]["sink_cpu_ns"]) > 0);
            assert_eq!(answer["interfaces"][0]["interface"], "g0");
            assert_eq!(received["interfaces"][0]["interface"], "s0");
            assert!(number(&received["interfaces"][0]["rx_packets"]) >= forwarded);
        }
    }
}

#[test]
fn a_sink_that_was_left_open_is_in_nobodys_way() {
    for (mut generator, mut sink) in hosts() {
        // Nothing comes: each is closed at the drain's limit.
        for number in [1, 2] {
            let mut request = whole(number);
            request["drain_limit_ns"] = json!(30 * MILLISECOND_NS);
            sink.call("sink-open", request);
        }
        sink.call("sink-close", json!({}));
        assert_eq!(sink.refused("sink-close", json!({})).0, "bad-request");
        let (_, sentence) = sink.refused("sink-finish", json!({"sources": []}));
        assert!(sentence.contains("no sink is open"), "{sentence}");
        let answer = joined(&mut generator, &mut sink, &whole(3));
        assert_eq!(books(&answer), [(200, 200, 200)], "{answer}");
        // The stream ends with the sink open: the agent leaves, and with it what it had attached.
        sink.call("sink-open", whole(4));
        assert_eq!(sink.close(), Some(0));
    }
}

#[test]
fn what_is_told_must_balance_with_what_arrived() {
    for (mut generator, mut sink) in hosts() {
        sink.call("sink-open", whole(1));
        let sent = generator.call("send", whole(1));
        let mut wrong = offered_totals(&sent);
        wrong["sources"][0]["intended_frames"] = json!(1);
        wrong["sources"][0]["offered_frames"] = json!(1);
        let (kind, sentence) = sink.refused("sink-finish", wrong);
        assert_eq!(kind, "system");
        assert!(sentence.contains("do not balance"), "{sentence}");

        // Nothing comes of this one, until the drain's limit.
        let mut request = whole(2);
        request["drain_limit_ns"] = json!(30 * MILLISECOND_NS);
        sink.call("sink-open", request);
        let (_, sentence) = sink.refused("sink-finish", json!({"sources": []}));
        assert!(sentence.contains("1 sources") && sentence.contains("told of 0"), "{sentence}");
        let answer = joined(&mut generator, &mut sink, &whole(3));
        assert_eq!(books(&answer), [(200, 200, 200)], "{answer}");
    }
}

#[test]
fn a_stream_that_outlasts_the_drain_is_told() {
    for (mut generator, mut sink) in hosts() {
        // No quiet is long enough, so that the drain's limit ends the wait once a frame has come.
        let mut request = trial(1, 200, 300, &[source(0, Some(20_000.0))], &["s0"]);
        for name in ["quiet_ns", "residual_ns"] {
            request[name] = json!(LONG_NS);
        }
        request["drain_limit_ns"] = json!(30 * MILLISECOND_NS);
        request["batch_frames"] = json!(8);
        sink.call("sink-open", request.clone());
        let sending = generator.send("send", request);
        // More than the kernel's queue (1000) and a block of the ring (1424) take, so that the sink has some to read.
        wait(|| arrived(&mut sink) > 3_000);
        let all = json!({"intended_frames": 6_000, "offered_frames": 6_000, "unsent_frames": 0});
        let received = sink.call("sink-finish", json!({"sources": [all]}));
        assert_eq!(received["sink"]["drained"], false, "{received}");
        generator.answer(sending);
    }
}

#[test]
fn a_guest_may_send_and_only_the_peer_counts() {
    let mut guest = Agent::start("guest");
    assert_eq!(guest.refused("sink-open", whole(1)).0, "unsupported");
    // It is tried, and there is no such interface.
    assert_eq!(guest.refused("send", whole(1)).0, "system");
}

#[test]
fn sources_of_several_agents_are_told_apart_by_their_numbers() {
    let mut sink = Agent::in_namespace("peer");
    let mut guests = Vec::new();
    for number in [0, 1] {
        pair(&sink, number);
        let guest = Agent::beside(&sink, "guest");
        sink.ip(&format!("link set g{number} netns {}", guest.pid()));
        let status = guest.inside("ip").args(["link", "set", &format!("g{number}"), "up"]).status();
        assert!(status.is_ok_and(|status| status.success()));
        guests.push(guest);
    }
    let sources = [0, 1].map(|number| source(number, Some(1_000.0 * (number + 1) as f64)));
    let mut request = trial(1, 64, 100, &sources, &["s0", "s1"]);
    request["backend"] = json!("af-packet");
    sink.call("sink-open", request.clone());
    let mut reported = Vec::new();
    for (number, guest) in guests.iter_mut().enumerate() {
        let mut own = request.clone();
        own["sources"] = json!([sources[number]]);
        own["sources"][0]["number"] = json!(number);
        let sent = guest.call("send", own)["sources"][0].take();
        let counts = ["intended_frames", "offered_frames", "unsent_frames"];
        reported.push(counts.map(|name| (name.to_owned(), sent[name].clone())));
    }
    let reported: Vec<Value> =
        reported.into_iter().map(|counts| counts.into_iter().collect()).collect();
    let received = sink.call("sink-finish", json!({"sources": reported}));
    for (number, one) in reported.iter().enumerate() {
        let arrived = &received["sink"]["per_source"][number];
        assert_eq!(one["offered_frames"], 100 * (number + 1), "{reported:?}");
        assert_eq!(arrived["forwarded_frames"], one["offered_frames"], "{received}");
    }
}

#[test]
fn a_copy_leaves_no_file_and_can_call_itself_back_to_back() {
    let copy = std::env::temp_dir().join(format!("virtoll-agent-copy-{}", std::process::id()));
    // By another program: a process that another test forks here meanwhile would hold the copy open for writing, and
    // what is held so cannot be executed ("Text file busy").
    let copied = Command::new("cp").arg(BINARY).arg(&copy).status().unwrap();
    assert!(copied.success());
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user"]).arg(&copy).args([
        "--role",
        "peer",
        "--unlink-self",
    ]);
    let mut agent = Agent::spawn(command);
    assert!(!copy.exists());

    let mut request = trial(1, 200, 50, &[source(0, Some(4_000.0))], &["pair0in"]);
    request["sources"][0]["interface"] = json!("pair0out");
    request["sources"][0]["destination_mac"] = json!("02:76:74:03:01:00");
    request["id"] = json!(1);
    request["op"] = json!("traffic");
    let wanted = json!({
        "argv": ["/proc/self/exe", "--role", "peer", "--pairs", "1"],
        "stdin": STANDARD.encode(format!("{request}\n")),
        "timeout_ns": LONG_NS,
        "limit_bytes": 1 << 20,
    });
    let ended = agent.call("exec", wanted);
    let output =
        String::from_utf8(STANDARD.decode(ended["stdout"].as_str().unwrap()).unwrap()).unwrap();
    let lines: Vec<Value> =
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["event"], "ready");
    assert_eq!(books(&lines[1]["ok"]), [(200, 200, 200)], "{lines:?}");
}
