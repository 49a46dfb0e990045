//! The generator of HTTP requests against servers that behave in known ways.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use common::{Agent, LONG_NS};
use serde_json::{Value, json};

const MILLISECOND_NS: u64 = 1_000_000;

/// What a server does with its `n`th request, from 0 on; false ends the connection.
type Answer = dyn Fn(u64, &mut TcpStream) -> bool + Send + Sync;

/// A server that reads requests one by one; its address.
fn serve(answer: impl Fn(u64, &mut TcpStream) -> bool + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (answer, counted): (Arc<Answer>, _) = (Arc::new(answer), Arc::new(AtomicU64::new(0)));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (answer, counted) = (Arc::clone(&answer), Arc::clone(&counted));
            thread::spawn(move || converse(stream.unwrap(), &*answer, &counted));
        }
    });
    address
}

fn converse(mut stream: TcpStream, answer: &Answer, counted: &AtomicU64) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut line, mut closes) = (String::new(), false);
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            closes |= line == "Connection: close\r\n";
        }
        if !answer(counted.fetch_add(1, Ordering::SeqCst), &mut stream) || closes {
            return;
        }
    }
}

fn reply(stream: &mut TcpStream) -> bool {
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").is_ok()
}

fn load(target: SocketAddr, requests: u64, rate: f64, more: &Value) -> Value {
    let mut fields = json!({
        "target": target, "path": "/file", "requests": requests, "rate_requests_per_second": rate,
        "keep_alive": true, "connections": 16, "timeout_ns": LONG_NS,
    });
    for (name, value) in more.as_object().unwrap() {
        fields[name] = value.clone();
    }
    let reported = Agent::start("peer").call("http-load", fields);
    let failed: u64 = reported["failures"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum();
    let counted =
        reported["replies"].as_u64().unwrap() + reported["timeouts"].as_u64().unwrap() + failed;
    assert_eq!(counted, requests, "the books balance: {reported}");
    reported
}

/// How many values of a distribution are of at least so many ms.
fn at_least(reported: &Value, milliseconds: u64) -> u64 {
    let buckets = reported["histogram"].as_array().unwrap().iter();
    let slow =
        buckets.filter(|bucket| bucket[0].as_u64().unwrap() >= milliseconds * MILLISECOND_NS);
    slow.map(|bucket| bucket[1].as_u64().unwrap()).sum()
}

#[test]
fn every_request_becomes_a_reply() {
    let target = serve(|_, stream| reply(stream));
    for keep_alive in [true, false] {
        let reported = load(target, 100, 1000.0, &json!({"keep_alive": keep_alive}));
        assert_eq!(reported["statuses"], json!({"200": 100}));
        assert_eq!(reported["body_bytes"], 500);
        assert_eq!(reported["latency_ns"]["count"], 100);
        let opened = reported["connections_opened"].as_u64().unwrap();
        assert!(if keep_alive { opened <= 16 } else { opened == 100 }, "{opened}");
        // It takes as long as the schedule says: 99 intervals of a millisecond.
        let clock = |name: &str| reported[name].as_u64().unwrap();
        assert!(clock("end_monotonic_ns") - clock("start_monotonic_ns") >= 99 * MILLISECOND_NS);
    }
}

#[test]
fn what_a_stalled_server_owes_is_in_the_latencies() {
    let target = serve(|number, stream| {
        if number == 20 {
            thread::sleep(Duration::from_millis(300));
        }
        reply(stream)
    });
    let reported = load(target, 60, 100.0, &json!({"connections": 1}));
    assert_eq!(reported["replies"], 60);
    // The stall holds up all that were due meanwhile, one each 10 ms: the first by 300 ms, the 20th by 100 ms.
    assert!(at_least(&reported["latency_ns"], 100) >= 20, "{reported}");
    assert!(reported["late_ns"]["maximum"].as_u64().unwrap() >= 200 * MILLISECOND_NS);
}

#[test]
fn what_is_given_up_is_counted_with_the_time_that_it_took() {
    let target = serve(|_, _| true);
    let reported =
        load(target, 8, 1000.0, &json!({"connections": 3, "timeout_ns": 50 * MILLISECOND_NS}));
    assert_eq!(reported["timeouts"], 8);
    assert_eq!(reported["latency_ns"]["count"], 8);
    assert_eq!(reported["latency_ns"]["minimum"], 50 * MILLISECOND_NS);
    assert_eq!(reported["last_reply_monotonic_ns"], Value::Null);
}

#[test]
fn failures_are_told_by_their_kind() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(load(nobody, 5, 1000.0, &json!({}))["failures"], json!({"connect": 5}));
    let mute = serve(|_, _| false);
    assert_eq!(load(mute, 5, 1000.0, &json!({}))["failures"], json!({"closed": 5}));
    let other = serve(|_, stream| stream.write_all(b"220 mail\r\n").is_ok());
    assert_eq!(load(other, 5, 1000.0, &json!({}))["failures"], json!({"malformed": 5}));
    let missing = serve(|_, stream| {
        stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").is_ok()
    });
    assert_eq!(load(missing, 5, 1000.0, &json!({}))["statuses"], json!({"404": 5}));
}

#[test]
fn a_connection_that_the_server_ends_is_replaced() {
    let closing: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let target = serve(|_, stream| {
        let _ = stream.write_all(closing);
        false
    });
    let reported = load(target, 50, 1000.0, &json!({}));
    assert_eq!((&reported["replies"], &reported["connections_opened"]), (&json!(50), &json!(50)));
}

#[test]
fn bad_requests_are_refused() {
    let mut agent = Agent::start("peer");
    let good = json!({
        "target": "127.0.0.1:1", "path": "/", "requests": 1, "rate_requests_per_second": 1.0,
        "keep_alive": true, "connections": 1, "timeout_ns": 1,
    });
    for (name, value) in [
        ("target", json!("localhost")),
        ("path", json!("file")),
        ("path", json!("/a b")),
        ("requests", json!(0)),
        ("rate_requests_per_second", json!(0.0)),
        ("connections", json!(0)),
        ("timeout_ns", json!(0)),
    ] {
        let mut bad = good.clone();
        bad[name] = value;
        let (kind, message) = agent.refused("http-load", bad);
        assert_eq!(kind, "bad-request");
        assert!(name == "target" || message.contains(name), "{message}");
    }
    assert_eq!(Agent::start("guest").refused("http-load", good).0, "unsupported");
}
