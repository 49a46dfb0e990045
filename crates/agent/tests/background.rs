//! Programs beside the requests: they end when they are told to, and with the agent at the latest.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use common::{Agent, LONG_NS, wait};
use serde_json::{Value, json};

const SECOND_NS: u64 = 1_000_000_000;

fn output(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("virtoll-background-{}-{name}", std::process::id()))
}

/// Starts a script under its file's name; its process's number.
fn spawn(agent: &mut Agent, name: &str, script: &str) -> u64 {
    let argv = ["sh", "-c", script];
    let answer = agent.call("spawn", json!({"name": name, "argv": argv, "output": output(name)}));
    answer["pid"].as_u64().unwrap()
}

fn end(agent: &mut Agent, name: &str, timeout_ns: u64) -> Value {
    let fields = json!({"name": name, "timeout_ns": timeout_ns, "limit_bytes": 12});
    let answer = agent.call("end", fields);
    std::fs::remove_file(output(name)).unwrap();
    answer
}

/// Waits until what a script announces is there.
fn await_output(name: &str, text: &str) {
    wait(|| std::fs::read_to_string(output(name)).is_ok_and(|found| found.contains(text)));
}

fn gone(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

#[test]
fn the_cpu_time_of_a_program_and_its_children_is_read_while_it_runs() {
    let mut agent = Agent::start("guest");
    // Two processes that work, and one that was waited for.
    let script = "sh -c 'exec >&-; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo begun; (while :; do :; done) & while :; do :; done";
    let fields = json!({"name": "busy", "argv": ["sh", "-c", script], "output": output("busy"), "sample_ns": SECOND_NS / 100});
    agent.call("spawn", fields);
    await_output("busy", "begun");
    let progress = |agent: &mut Agent| agent.call("progress", json!({"name": "busy"}));
    let first = progress(&mut agent);
    assert!(first["cpu_ns"].as_u64().unwrap() > 0, "of the child that was waited for: {first}");
    wait(|| progress(&mut agent)["cpu_ns"].as_u64() > first["cpu_ns"].as_u64());
    assert_eq!(progress(&mut agent)["processes"], 2);
    let ended = end(&mut agent, "busy", LONG_NS);
    let samples = ended["samples"].as_array().unwrap();
    let times: Vec<_> = samples.iter().map(|one| one["monotonic_ns"].as_u64().unwrap()).collect();
    let used: Vec<_> = samples.iter().map(|one| one["cpu_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted() && times.len() > 1);
    assert!(used.last() >= first["cpu_ns"].as_u64().as_ref(), "{used:?}");
    assert_eq!(agent.refused("progress", json!({"name": "busy"})).0, "bad-request");
}

#[test]
fn a_program_runs_until_it_is_ended() {
    let mut agent = Agent::start("guest");
    let pid = spawn(&mut agent, "sleeper", "echo some words; exec sleep 1000");
    await_output("sleeper", "words");
    let argv = ["test", "-d", &format!("/proc/{pid}")];
    let fields = json!({"argv": argv, "timeout_ns": LONG_NS, "limit_bytes": 10});
    assert_eq!(agent.call("exec", fields)["status"], 0);
    let again = json!({"name": "sleeper", "argv": ["true"], "output": "/dev/null"});
    assert_eq!(agent.refused("spawn", again).0, "bad-request");
    let ended = end(&mut agent, "sleeper", LONG_NS);
    assert_eq!(ended["signal"], 15);
    assert_eq!((&ended["by_itself"], &ended["killed"]), (&json!(false), &json!(false)));
    assert_eq!(STANDARD.decode(ended["output"].as_str().unwrap()).unwrap(), b"some words\n");
    assert!(gone(pid));
    let unknown = json!({"name": "sleeper", "timeout_ns": 1, "limit_bytes": 1});
    assert_eq!(agent.refused("end", unknown).0, "bad-request");
}

#[test]
fn one_that_does_not_listen_is_killed_with_what_it_started() {
    let mut agent = Agent::start("guest");
    let script = "trap '' TERM; sleep 1000 & echo $! ready; while :; do sleep 1; done";
    spawn(&mut agent, "stubborn", script);
    await_output("stubborn", "ready");
    let said = std::fs::read_to_string(output("stubborn")).unwrap();
    let child: u64 = said.split_whitespace().next().unwrap().parse().unwrap();
    let ended = end(&mut agent, "stubborn", SECOND_NS / 10);
    assert_eq!((&ended["signal"], &ended["killed"]), (&json!(9), &json!(true)));
    wait(|| gone(child));
}

#[test]
fn one_that_ended_by_itself_says_so() {
    let mut agent = Agent::start("guest");
    let pid = spawn(&mut agent, "failing", "echo no room >&2; exit 3");
    wait(|| gone(pid));
    let ended = end(&mut agent, "failing", LONG_NS);
    assert_eq!((&ended["status"], &ended["by_itself"]), (&json!(3), &json!(true)));
    assert_eq!(STANDARD.decode(ended["output"].as_str().unwrap()).unwrap(), b"no room\n");
}

#[test]
fn they_end_with_the_agent_however_it_ends() {
    for (name, killed) in [("leaving", false), ("dying", true)] {
        let mut agent = Agent::start("guest");
        let pid = spawn(&mut agent, name, "echo ready; exec sleep 1000");
        await_output(name, "ready");
        if killed {
            let status = Command::new("kill").args(["-KILL", &agent.pid().to_string()]).status();
            assert!(status.unwrap().success());
        } else {
            assert_eq!(agent.close(), Some(0));
        }
        wait(|| gone(pid));
        std::fs::remove_file(Path::new(&output(name))).unwrap();
    }
}

#[test]
fn what_cannot_be_started_is_told() {
    let mut agent = Agent::start("guest");
    let missing = json!({"name": "x", "argv": ["/no/such/program"], "output": output("x")});
    assert_eq!(agent.refused("spawn", missing).0, "system");
    std::fs::remove_file(output("x")).unwrap();
    let nowhere = json!({"name": "x", "argv": ["true"], "output": "/no/such/folder/x"});
    assert_eq!(agent.refused("spawn", nowhere).0, "system");
}
