//! The agent as an ordinary process: every operation that needs no network.

mod common;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use common::{Agent, BINARY, LONG_NS, wait};
use serde_json::{Value, json};
use virtoll_proto::PROTOCOL;

fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap()).unwrap()
}

fn exec(agent: &mut Agent, script: &str) -> Value {
    let argv = ["sh", "-c", script];
    agent.call("exec", json!({"argv": argv, "timeout_ns": LONG_NS, "limit_bytes": 2 << 20}))
}

#[test]
fn it_says_what_it_is() {
    let mut agent = Agent::start("host");
    assert_eq!(agent.ready["event"], "ready");
    assert_eq!(agent.ready["protocol"], PROTOCOL);
    assert_eq!(agent.ready["build"].as_str().unwrap().len(), 12);
    let hello = agent.call("hello", json!({"protocol": PROTOCOL}));
    for field in ["protocol", "version", "build", "role", "pid"] {
        assert_eq!(hello[field], agent.ready[field]);
    }
    assert!(hello["target"].is_string());
    let clock = |field: &str| agent.ready[field].as_u64().unwrap();
    assert!(0 < clock("started_monotonic_ns"));
    assert!(clock("started_monotonic_ns") <= clock("ready_monotonic_ns"));
    assert!(clock("started_monotonic_ns") <= clock("started_boottime_ns") + 1_000_000_000);
    assert_eq!(hello["ready_monotonic_ns"], agent.ready["ready_monotonic_ns"]);
    assert_eq!(agent.close(), Some(0));
}

#[test]
fn another_version_is_one_clear_sentence() {
    let mut agent = Agent::start("guest");
    let (kind, message) = agent.refused("hello", json!({"protocol": PROTOCOL + 1}));
    assert_eq!(kind, "protocol-mismatch");
    for number in [PROTOCOL, PROTOCOL + 1] {
        assert!(message.contains(&format!("protocol {number}")), "{message}");
    }
    assert!(message.contains("make agent"), "{message}");
}

#[test]
fn bad_lines_are_answered_and_do_not_end_the_session() {
    let mut agent = Agent::start("guest");
    let endless = vec![b'x'; (8 << 20) + 1];
    let lines: [&[u8]; 5] = [b"login: ", b"{\"id\":1}", b"[]", &[0xff, 0xfe, 0], &endless];
    for line in lines {
        agent.send_raw(&[line, b"\n"].concat());
        let answer = agent.line().unwrap();
        assert!(answer["error"]["kind"].is_string(), "{answer}");
    }
    agent.send_raw(b"\n\r\n");
    assert_eq!(agent.refused("clocks", json!({"colour": 1})).0, "bad-request");
    assert_eq!(agent.refused("dance", json!({})).0, "bad-request");
    assert_eq!(
        agent
            .refused(
                "marks",
                json!({"interface": "lo", "identifier": 1, "wait_for": 1, "timeout_ns": 1})
            )
            .0,
        "unsupported"
    );
    agent.call("clocks", json!({}));
}

#[test]
fn facts_are_complete() {
    let facts = Agent::start("guest").call("facts", json!({}));
    for field in [
        "kernel_release",
        "machine",
        "cpus_online",
        "memory_total_bytes",
        "agent_sha256",
        "scheduler_tick_hz",
        "boot_id",
        "root_filesystem",
    ] {
        assert!(!facts[field].is_null(), "{field}");
    }
    assert!([100, 250, 300, 1000].contains(&facts["scheduler_tick_hz"].as_u64().unwrap()));
    for field in [
        "memory_limit_bytes",
        "hypervisor",
        "cmdline",
        "clock_source",
        "clock_sources",
        "data_schedulers",
        "cpu_quota",
        "files_sha256",
        "modules_sha256",
        "memory_installed_bytes",
        "scheduler_tickless",
    ] {
        assert!(facts.get(field).is_some(), "{field}");
    }
    let interfaces = facts["interfaces"].as_array().unwrap();
    assert!(interfaces.iter().any(|interface| interface["name"] == "lo"));
}

#[test]
fn a_program_runs_between_its_marks_and_is_told_whole() {
    let mut agent = Agent::start("guest");
    let mut run = |argv: &[&str], stdin: Option<&str>, timeout_ns: u64| {
        let parameters = json!({
            "argv": argv, "env": null, "directory": "/", "stdin": stdin, "timeout_ns": timeout_ns, "limit_bytes": 100,
        });
        let id =
            agent.send("run", json!({"job": "program", "parameters": parameters, "marks": null}));
        let answer = agent.answer(id);
        let edges = [agent.event(), agent.event()].map(|event| event["edge"].clone());
        assert_eq!(edges, ["start", "end"], "{argv:?}");
        answer
    };
    let cat = run(&["cat"], Some("d29yZA=="), LONG_NS)["ok"].take();
    assert_eq!(cat["result"]["status"], 0);
    assert_eq!(cat["result"]["stdout"], "d29yZA==");
    assert_eq!(cat["check"], "98c1eb4ee93476743763878fcb96a25fbc9a175074d64004779ecb5242f645e6");
    let slept = run(&["sleep", "0.2"], None, LONG_NS)["ok"].take();
    let guest = &slept["guest"];
    let edge = |name: &str| guest[name].as_u64().unwrap();
    assert!(edge("end_monotonic_ns") - edge("start_monotonic_ns") >= 200_000_000);
    let failed = run(&["sh", "-c", "echo words >&2; exit 7"], None, LONG_NS)["ok"].take();
    assert_eq!(
        (&failed["result"]["status"], &failed["result"]["stderr"]),
        (&json!(7), &json!("d29yZHMK"))
    );
    let late = run(&["sleep", "60"], None, 50_000_000)["ok"].take();
    assert_eq!(
        (&late["result"]["timed_out"], &late["result"]["signal"]),
        (&json!(true), &json!(9))
    );
    assert_eq!(run(&["/no/such/program"], None, LONG_NS)["error"]["kind"], "system");
}

#[test]
fn workloads_have_marks_and_check_values() {
    let mut agent = Agent::start("guest");
    let jobs = [
        (
            "superpi",
            json!({"digits": 30}),
            "27f6ef06c05a66675cc7f80fca76488b57496bfa62c362128194da38905f2a76",
        ),
        ("masr", json!({"size_bytes": 80_000}), "6770158834656434176"),
        ("forkwait", json!({"processes": 23}), "23"),
        ("forkwait", json!({"processes": 23, "workers": 4}), "23"),
        ("idle", json!({"duration_ns": 2_000_000}), "idle"),
    ];
    for (job, parameters, check) in jobs {
        let id = agent.send("run", json!({"job": job, "parameters": parameters, "marks": null}));
        let answer = agent.answer(id)["ok"].take();
        if job == "masr" {
            let sum = 0x5654_6d61_7372_5654_u64.wrapping_mul(10_000);
            assert_eq!(answer["check"], json!(sum.to_string()));
        } else {
            assert_eq!(answer["check"], check, "{job}");
        }
        let edges: Vec<Value> =
            [agent.event(), agent.event()].map(|event| event["edge"].clone()).to_vec();
        assert_eq!(edges, ["start", "end"]);
        let guest = &answer["guest"];
        assert!(guest["end_monotonic_ns"].as_u64() > guest["start_monotonic_ns"].as_u64());
    }
    for (job, parameters) in [
        ("superpi", json!({"digits": 0})),
        ("superpi", json!({"digits": 5, "colour": 1})),
        ("masr", json!({"size_bytes": 7})),
        ("forkwait", json!({"processes": 3, "workers": 4})),
        ("forkwait", json!({"processes": 3, "workers": 0})),
        ("bonnie", json!({})),
    ] {
        let fields = json!({"job": job, "parameters": parameters, "marks": null});
        assert_eq!(agent.refused("run", fields).0, "bad-request", "{job}");
    }
    let no_program =
        json!({"job": "program", "parameters": {"argv": [], "timeout_ns": 1, "limit_bytes": 1}});
    assert_eq!(agent.refused("run", no_program).0, "bad-request");
    let too_much = json!({"job": "masr", "parameters": {"size_bytes": 1_u64 << 50}, "marks": null});
    assert_eq!(agent.refused("run", too_much).0, "limit");
}

#[test]
fn a_job_is_repeated_between_its_marks() {
    let mut agent = Agent::start("guest");
    let once_ns = 3_000_000;
    let fields =
        json!({"job": "idle", "parameters": {"duration_ns": once_ns}, "marks": null, "repeats": 4});
    let id = agent.send("run", fields);
    let guest = agent.answer(id)["ok"]["guest"].take();
    let edges = [agent.event(), agent.event()].map(|event| event["edge"].clone());
    assert_eq!(edges, ["start", "end"]);
    let [start, end] = ["start_monotonic_ns", "end_monotonic_ns"].map(|key| guest[key].as_u64());
    assert!(end >= start.map(|ns| ns + 4 * once_ns));
    let fields = json!({"job": "forkwait", "parameters": {"processes": 5}, "repeats": 3});
    let id = agent.send("run", fields);
    assert_eq!(agent.answer(id)["ok"]["check"], "5");
}

#[test]
fn what_begins_otherwise_a_second_time_is_not_repeated() {
    let mut agent = Agent::start("guest");
    let stream = json!({"elements": 1000, "rounds": 2, "threads": 1});
    for (job, parameters, repeats) in
        [("stream", stream, 2), ("idle", json!({"duration_ns": 1}), 0)]
    {
        let fields = json!({"job": job, "parameters": parameters, "repeats": repeats});
        assert_eq!(agent.refused("run", fields).0, "bad-request", "{job}");
    }
}

#[test]
fn exec_is_byte_exact_on_both_streams_at_once() {
    let mut agent = Agent::start("guest");
    let input: Vec<u8> =
        (0..1_000_000_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let fields = json!({
        "argv": ["sh", "-c", "tee /dev/stderr"],
        "stdin": STANDARD.encode(&input), "timeout_ns": LONG_NS, "limit_bytes": 2 << 20,
    });
    let answer = agent.call("exec", fields);
    assert_eq!(answer["status"], 0);
    assert_eq!(answer["truncated"], false);
    assert!(bytes(&answer["stdout"]) == input, "stdout differs");
    assert!(bytes(&answer["stderr"]) == input, "stderr differs");
}

#[test]
fn exec_tells_how_a_process_ended() {
    let mut agent = Agent::start("guest");
    assert_eq!(exec(&mut agent, "exit 7")["status"], 7);
    assert_eq!(exec(&mut agent, "kill -TERM $$")["signal"], 15);
    let background = exec(&mut agent, "sleep 30 & echo done");
    assert_eq!(bytes(&background["stdout"]), b"done\n");
    let fields = json!({"argv": ["/nowhere"], "timeout_ns": 1, "limit_bytes": 1});
    let (kind, message) = agent.refused("exec", fields);
    assert_eq!(kind, "system");
    assert!(message.contains("/nowhere"), "{message}");
    assert_eq!(
        agent.refused("exec", json!({"argv": [], "timeout_ns": 1, "limit_bytes": 1})).0,
        "bad-request"
    );
    let fields = json!({
        "argv": ["sh", "-c", "pwd; echo $A"], "env": {"A": "b", "PATH": "/bin:/usr/bin"},
        "directory": "/", "timeout_ns": LONG_NS, "limit_bytes": 100,
    });
    assert_eq!(bytes(&agent.call("exec", fields)["stdout"]), b"/\nb\n");
}

#[test]
fn exec_keeps_its_time_and_its_limit() {
    let mut agent = Agent::start("guest");
    // What it had said by then is reported; a busy machine may need more time to let it say anything.
    let said = (0..10).find_map(|doubled| {
        let fields = json!({
            "argv": ["sh", "-c", "echo begun; sleep 1000 & sleep 1000"],
            "timeout_ns": 100_000_000_u64 << doubled, "limit_bytes": 100,
        });
        let answer = agent.call("exec", fields);
        assert_eq!((&answer["timed_out"], &answer["signal"]), (&json!(true), &json!(9)));
        Some(bytes(&answer["stdout"])).filter(|said| !said.is_empty())
    });
    assert_eq!(said.as_deref(), Some(&b"begun\n"[..]));
    let fields = json!({
        "argv": ["sh", "-c", "head -c 500000 /dev/zero"], "timeout_ns": LONG_NS, "limit_bytes": 1_000,
    });
    let answer = agent.call("exec", fields);
    assert_eq!((&answer["status"], &answer["truncated"]), (&json!(0), &json!(true)));
    assert_eq!(bytes(&answer["stdout"]), vec![0; 1_000]);
    let fields = json!({
        "argv": ["head", "-c", "9000000", "/dev/zero"], "timeout_ns": LONG_NS, "limit_bytes": 1 << 30,
    });
    assert_eq!(agent.refused("exec", fields).0, "limit", "the answer does not fit a line");
}

#[test]
fn a_terminal_is_a_terminal() {
    let mut agent = Agent::start("guest");
    let script = "stty size; read word; echo got $word; exit 5";
    agent.call("terminal", json!({"argv": ["sh", "-c", script], "rows": 33, "columns": 99}));
    let mut text = String::new();
    while !text.contains("33 99") {
        text += &String::from_utf8(bytes(&agent.event()["data"])).unwrap();
    }
    assert_eq!(
        agent.refused("terminal", json!({"argv": ["sh"], "rows": 1, "columns": 1})).0,
        "bad-request"
    );
    agent.call("terminal-resize", json!({"rows": 10, "columns": 20}));
    agent.call("terminal-input", json!({"data": STANDARD.encode("hello\n")}));
    let exit = loop {
        let event = agent.event();
        if event["event"] == "terminal-exit" {
            break event;
        }
        text += &String::from_utf8(bytes(&event["data"])).unwrap();
    };
    assert!(text.contains("got hello"), "{text}");
    assert_eq!(exit["status"], 5);
    assert_eq!(agent.refused("terminal-close", json!({})).0, "bad-request");
}

#[test]
fn closing_a_terminal_ends_even_a_stubborn_process() {
    let mut agent = Agent::start("guest");
    let script = "trap '' HUP; echo up; while :; do sleep 1; done";
    agent.call("terminal", json!({"argv": ["sh", "-c", script], "rows": 24, "columns": 80}));
    assert_eq!(agent.event()["event"], "terminal");
    agent.call("terminal-close", json!({}));
    let exit = agent.events.last().unwrap();
    assert_eq!((&exit["event"], &exit["signal"]), (&json!("terminal-exit"), &json!(9)));
}

#[test]
fn orphans_are_reaped_and_own_children_are_not_stolen() {
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
    command.args([BINARY, "--role", "guest", "--channel", "stdio"]);
    let mut agent = Agent::spawn(command);
    assert_eq!(agent.ready["pid"], 1);
    // Orphans end while nothing is asked, and while the agent waits for children of its own.
    let orphans = "(sleep 0.1; exit 3) & (sh -c 'sleep 0.05 &') & exit 4";
    assert_eq!(exec(&mut agent, orphans)["status"], 4);
    let parameters = json!({"processes": 500});
    let ran = agent.call("run", json!({"job": "forkwait", "parameters": parameters}));
    assert_eq!(ran["check"], "500");
    let parameters = json!({"processes": 101, "workers": 3});
    let ran = agent.call("run", json!({"job": "forkwait", "parameters": parameters}));
    assert_eq!(ran["check"], "101");
    // Whatever is left besides the agent and the shell that looks: asleep, or a zombie that nobody takes.
    wait(|| {
        let look = "for one in /proc/[0-9]*; do read pid name state parent rest < $one/stat; \
                    [ $pid = 1 ] || [ $pid = $$ ] || echo $pid $state $parent; done";
        bytes(&exec(&mut agent, look)["stdout"]).is_empty()
    });
}
