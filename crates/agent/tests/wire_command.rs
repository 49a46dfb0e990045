//! `virtoll-agent wire` as a person calls it.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use common::traffic::pair;
use common::{Agent, BINARY};
use serde_json::Value;

fn wire(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_virtoll-agent"))
        .arg("wire")
        .args(arguments.split_whitespace())
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn help_is_given_and_mistakes_are_named() {
    for (command, wanted) in [
        ("", "calibrate"),
        ("send --help", "--rate-mbit"),
        ("receive --help", "--duration"),
        ("calibrate --help", "--sizes"),
    ] {
        let output = wire(command);
        assert!(output.status.success() && text(&output).contains(wanted), "{command}");
    }
    for (command, wanted, code) in [
        ("dance", "dance", 2),
        ("send", "--interface", 2),
        ("send --colour red", "--colour", 2),
        ("send --size many", "--size cannot be \"many\"", 2),
        ("send --flows", "--flows", 2),
        ("calibrate --json=yes", "--json", 2),
        ("receive", "--interface", 2),
        ("receive --interface nowhere-0", "nowhere-0", 1),
    ] {
        let output = wire(command);
        let sentence = String::from_utf8_lossy(&output.stderr);
        assert!(sentence.contains(wanted), "{command}: {sentence}");
        assert_eq!(sentence.lines().count(), 1, "{command}: {sentence}");
        assert_eq!(output.status.code(), Some(code), "{command}");
    }
}

#[test]
fn calibration_needs_nothing_but_the_right_to_make_namespaces() {
    let output = wire("calibrate --json --sizes 64,500 --rates 10 --duration 0.1 --backend af-xdp");
    let lines: Vec<Value> =
        text(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 4, "{}", String::from_utf8_lossy(&output.stderr));
    for line in lines {
        assert_eq!(line["backend"], "af-xdp");
        assert!(line["sources"][0]["offered_frames"].as_u64().unwrap() > 0, "{line}");
    }
}

#[test]
fn a_sink_says_when_it_counts() {
    let receive =
        |more: &str| wire(&format!("receive --interface lo --sink tpacket --duration 0.05 {more}"));
    let output = receive("--json");
    if !output.status.success() {
        println!("NOT TESTED: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let lines: Vec<Value> =
        text(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["event"], &lines[0]["interface"]), (&"open".into(), &"lo".into()));
    assert_eq!(lines[0]["backend"], lines[1]["backend"]);
    let said = String::from_utf8_lossy(&receive("").stderr).into_owned();
    assert!(said.starts_with("open: receiving on lo by tpacket"), "{said}");
}

#[test]
fn frames_of_the_smallest_and_the_largest_size_are_counted() {
    let peer = Agent::in_namespace("peer");
    pair(&peer, 0);
    let own = |words: &str| {
        let mut command = peer.inside(BINARY);
        command.arg("wire").args(words.split_whitespace());
        command
    };
    // The sink does not know what comes: it counts for longer than the sender can take.
    let mut receiver = own("receive --interface s0 --sink tpacket --duration 5 --json")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the agent in its namespace");
    let mut lines = BufReader::new(receiver.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("\"open\""));
    let sent = own(
        "send --interface g0 --destination-mac 02:00:00:00:02:00 --source 10.1.0.1 --destination 10.2.0.1 \
         --backend af-packet --rate-frames 1000 --duration 0.1 --mix 64:1,1518:1 --json",
    )
    .output()
    .unwrap();
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
    let counted: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert!(receiver.wait().unwrap().success());
    // A generator that is off its CPU skips frames, and says how many.
    let (offered, unsent) =
        (&sent["sources"][0]["offered_frames"], &sent["sources"][0]["unsent_frames"]);
    let offered = offered.as_u64().unwrap();
    assert_eq!(offered + unsent.as_u64().unwrap(), 100);
    assert_eq!(
        (&counted["source"]["forwarded_frames"], &counted["foreign_frames"]),
        (&offered.into(), &0.into())
    );
    // Of both sizes there is one number of each that makes this sum; an interface counts no FCS.
    let beyond_smallest = sent["interface"]["tx_bytes"].as_u64().unwrap() - offered * 60;
    assert_eq!(beyond_smallest % (1514 - 60), 0);
    let largest = beyond_smallest / (1514 - 60);
    assert!(largest.abs_diff(offered - largest) <= 100 - offered, "{largest} of {offered}");
}
