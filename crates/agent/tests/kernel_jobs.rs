//! The jobs that measure the kernel and the memory: what each did is counted, and what it took adds up.

mod common;

use common::Agent;
use serde_json::{Value, json};

fn run(agent: &mut Agent, job: &str, parameters: &Value) -> Value {
    agent.call("run", json!({"job": job, "parameters": parameters, "marks": null}))
}

const CHANNELS: [&str; 4] = ["pipe", "unix-stream", "tcp-loopback", "shared-memory"];

fn sent(channel: &str, size_bytes: u64, chunk_bytes: u64) -> Value {
    json!({"channel": channel, "size_bytes": size_bytes, "chunk_bytes": chunk_bytes})
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Counts, sum, quantiles and histogram of a series agree with each other.
fn assert_adds_up(series: &Value, count: u64) {
    assert_eq!(number(&series["count"]), count, "{series}");
    let quantiles = ["minimum_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "maximum_ns"]
        .map(|name| number(&series[name]));
    assert!(quantiles.is_sorted(), "{quantiles:?}");
    let sum = number(&series["sum_ns"]);
    assert!(count * quantiles[0] <= sum && sum <= count * quantiles[5], "{series}");
    let buckets = series["histogram_ns"].as_array().unwrap();
    let ends: Vec<u64> = buckets.iter().map(|bucket| number(&bucket[0])).collect();
    assert!(ends.is_sorted(), "{ends:?}");
    assert_eq!(ends.last(), Some(&quantiles[5]));
    assert_eq!(buckets.iter().map(|bucket| number(&bucket[1])).sum::<u64>(), count);
}

#[test]
fn every_operation_of_the_kernel_was_done_as_often_as_asked_for() {
    let mut agent = Agent::start("guest");
    for operation in [
        "null-call",
        "read",
        "write",
        "stat",
        "fstat",
        "open-close",
        "signal-install",
        "signal-handle",
        "pipe",
        "fork-exit",
        "fork-exec",
        "fork-sh",
    ] {
        // 23 of them, a prime number, one by one; and in batches.
        let slow = operation.starts_with("fork");
        for (operations, batch) in [(23, 1), if slow { (4, 2) } else { (4600, 200) }] {
            let parameters = json!({"operation": operation, "operations": operations, "batch_operations": batch});
            let answer = run(&mut agent, "kernel", &parameters);
            assert_eq!(answer["check"], operations.to_string(), "{operation}");
            let result = &answer["result"];
            assert_eq!(number(&result["operations"]), operations);
            assert_eq!(number(&result["batch_operations"]), batch);
            assert_adds_up(&result["batches"], operations / batch);
            let guest = &answer["guest"];
            let whole = number(&guest["end_monotonic_ns"]) - number(&guest["start_monotonic_ns"]);
            assert!(number(&result["batches"]["sum_ns"]) <= whole, "{operation}");
            assert!(number(&result["clock"]["batches"]["sum_ns"]) > 0);
            let sending = &result["sending"];
            assert_eq!(sending.is_null(), operation != "signal-handle", "{operation}");
            if !sending.is_null() {
                assert_eq!(number(&sending["sent"]), operations);
                assert_adds_up(&sending["batches"], operations / batch);
            }
        }
    }
}

#[test]
fn every_worker_does_all_operations() {
    let mut agent = Agent::start("guest");
    for operation in ["stat", "open-close", "signal-handle", "pipe", "fork-exec"] {
        let parameters =
            json!({"operation": operation, "operations": 46, "batch_operations": 2, "workers": 3});
        let fields =
            json!({"job": "kernel", "parameters": parameters, "marks": null, "repeats": 2});
        let answer = agent.call("run", fields);
        assert_eq!(answer["check"], "138", "{operation}");
        assert_adds_up(&answer["result"]["batches"], 23);
    }
    assert_eq!(files_of(agent.pid()), Vec::<String>::new());
    for workers in [0, 257] {
        let parameters = json!({"operation": "stat", "operations": 2, "batch_operations": 1, "workers": workers});
        let fields = json!({"job": "kernel", "parameters": parameters, "marks": null});
        let (kind, said) = agent.refused("run", fields);
        assert_eq!(
            (kind.as_str(), said.as_str()),
            ("bad-request", "kernel: workers must be 1 to 256")
        );
    }
}

#[test]
fn as_many_workers_as_there_may_be_need_no_more_files_than_a_process_usually_may_have() {
    let mut agent = Agent::with_files("guest", 1024);
    let parameters =
        json!({"operation": "pipe", "operations": 2, "batch_operations": 1, "workers": 256});
    assert_eq!(run(&mut agent, "kernel", &parameters)["check"], "512");
    assert_eq!(files_of(agent.pid()), Vec::<String>::new());
}

/// What the job made in the folder for temporary files.
fn files_of(pid: u32) -> Vec<String> {
    let names = std::fs::read_dir("/tmp").unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("virtoll-kernel-{pid}-"))).collect()
}

#[test]
fn a_job_leaves_neither_files_nor_processes_nor_a_handler() {
    let mut agent = Agent::start("guest");
    let pid = agent.pid();
    let state = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        text.lines().find(|line| line.starts_with(name)).unwrap().to_owned()
    };
    let allowed = state("Cpus_allowed_list");
    for operation in ["pipe", "signal-handle", "fork-sh"] {
        let parameters =
            json!({"operation": operation, "operations": 2, "batch_operations": 1, "workers": 2});
        run(&mut agent, "kernel", &parameters);
    }
    let rings = json!({"processes": 5, "working_set_bytes": 8, "laps": 3, "workers": 3});
    run(&mut agent, "context-switch", &rings);
    let children = format!("/proc/{pid}/task/{pid}/children");
    assert_eq!(std::fs::read_to_string(children).unwrap(), "");
    assert_eq!(files_of(pid), Vec::<String>::new());
    let caught =
        u64::from_str_radix(state("SigCgt").split_whitespace().nth(1).unwrap(), 16).unwrap();
    assert_eq!(caught & (1 << 9), 0, "SIGUSR1 is still handled");
    assert_eq!(state("Cpus_allowed_list"), allowed);
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    run(&mut agent, "context-switch", &rings);
    for channel in CHANNELS {
        let mut parameters = sent(channel, 8192, 4096);
        parameters["workers"] = json!(2);
        run(&mut agent, "ipc-bandwidth", &parameters);
    }
    let children = format!("/proc/{pid}/task/{pid}/children");
    assert_eq!(std::fs::read_to_string(children).unwrap(), "");
    assert_eq!(std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(), open);
}

#[test]
fn a_token_is_counted_by_every_process_that_it_passes() {
    let mut agent = Agent::start("guest");
    for (processes, bytes, laps) in [(2, 0, 23), (3, 4096, 23), (16, 65_536, 5)] {
        let parameters = json!({"processes": processes, "working_set_bytes": bytes, "laps": laps});
        let answer = run(&mut agent, "context-switch", &parameters);
        assert_eq!(answer["check"], (processes * laps).to_string());
        let result = &answer["result"];
        assert_eq!(number(&result["processes"]), processes);
        assert_adds_up(&result["laps"], laps);
        assert_adds_up(&result["pipes"], laps);
        assert!(result.get("pinned_cpu").is_some());
    }
}

#[test]
fn every_ring_passes_its_own_token() {
    let mut agent = Agent::start("guest");
    let rings = |processes: u64, bytes: u64, laps: u64, workers: u64| json!({"processes": processes, "working_set_bytes": bytes, "laps": laps, "workers": workers});
    for (processes, bytes, laps, workers) in [(2, 0, 23, 3), (3, 4096, 23, 2), (5, 64, 7, 9)] {
        let fields = json!({
            "job": "context-switch", "parameters": rings(processes, bytes, laps, workers), "marks": null, "repeats": 2,
        });
        let answer = agent.call("run", fields);
        assert_eq!(answer["check"], (processes * laps * workers).to_string());
        assert_adds_up(&answer["result"]["laps"], laps);
        assert_adds_up(&answer["result"]["pipes"], laps);
    }
    for (parameters, kind, says) in [
        (rings(2, 0, 1, 0), "bad-request", "workers must be 1 to 256"),
        (rings(2, 0, 1, 257), "bad-request", "workers must be 1 to 256"),
        (rings(256, 0, 1, 17), "bad-request", "at most 4096 processes in all"),
        (rings(2, 0, 1 << 21, 3), "limit", "laps of all workers"),
        (rings(256, 1 << 48, 1, 16), "limit", "bytes wanted"),
    ] {
        let fields = json!({"job": "context-switch", "parameters": parameters, "marks": null});
        let (refused, said) = agent.refused("run", fields);
        assert_eq!(refused, kind, "{said}");
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn bytes_that_are_sent_to_another_process_all_come() {
    let mut agent = Agent::start("guest");
    for channel in CHANNELS {
        let answer = run(&mut agent, "ipc-bandwidth", &sent(channel, 3 * 65_536, 65_536));
        // Chunks 0, 1, 2: each its number, and 8191 words of the pattern.
        let patterns = 0x5654_6970_6362_7754_u64.wrapping_mul(3 * 8191);
        assert_eq!(answer["check"], patterns.wrapping_add(3).to_string(), "{channel}");
        let result = &answer["result"];
        assert_eq!(number(&result["chunk_bytes"]), 65_536);
        assert_eq!(number(&result["received_bytes"]), 3 * 65_536);
    }
}

#[test]
fn pairs_of_processes_that_send_at_once_are_summed() {
    let mut agent = Agent::start("guest");
    for channel in CHANNELS {
        let mut parameters = sent(channel, 3 * 65_536, 65_536);
        parameters["workers"] = json!(4);
        let answer = run(&mut agent, "ipc-bandwidth", &parameters);
        let patterns = 0x5654_6970_6362_7754_u64.wrapping_mul(3 * 8191);
        let one = patterns.wrapping_add(3);
        assert_eq!(answer["check"], one.wrapping_mul(4).to_string(), "{channel}");
        assert_eq!(number(&answer["result"]["received_bytes"]), 4 * 3 * 65_536);
        for workers in [0, 257] {
            parameters["workers"] = json!(workers);
            let fields = json!({"job": "ipc-bandwidth", "parameters": parameters, "marks": null});
            assert_eq!(agent.refused("run", fields).0, "bad-request");
        }
    }
}

#[test]
fn a_repeat_finds_what_the_first_run_found() {
    let mut agent = Agent::start("guest");
    let mut repeated = |job: &str, parameters: Value| {
        let fields = json!({"job": job, "parameters": parameters, "marks": null, "repeats": 3});
        agent.call("run", fields)
    };
    for operation in ["stat", "signal-handle", "pipe", "fork-exec"] {
        let parameters = json!({"operation": operation, "operations": 46, "batch_operations": 2});
        let answer = repeated("kernel", parameters);
        assert_eq!(answer["check"], "46", "{operation}");
        assert_adds_up(&answer["result"]["batches"], 23);
    }
    for channel in CHANNELS {
        let answer = repeated("ipc-bandwidth", sent(channel, 5 * 4096, 4096));
        let patterns = 0x5654_6970_6362_7754_u64.wrapping_mul(5 * 511);
        assert_eq!(answer["check"], patterns.wrapping_add(10).to_string(), "{channel}");
    }
    let answer =
        repeated("context-switch", json!({"processes": 3, "working_set_bytes": 64, "laps": 23}));
    assert_eq!(answer["check"], "69");
    assert_adds_up(&answer["result"]["laps"], 23);
    assert_adds_up(&answer["result"]["pipes"], 23);
}

#[test]
fn streams_arrays_hold_what_they_must() {
    let mut agent = Agent::start("guest");
    for threads in [1, 3] {
        let parameters = json!({"elements": 10_000, "rounds": 4, "threads": threads});
        let answer = run(&mut agent, "stream", &parameters);
        // 2 * 15^4, 3 * 2 * 15^3, 4 * 2 * 15^3 as the bits of f64
        assert_eq!(answer["check"], "40f8b82000000000 40d3c68000000000 40da5e0000000000");
        for (name, bytes) in [("copy", 16), ("scale", 16), ("add", 24), ("triad", 24)] {
            let kernel = &answer["result"]["kernels"][name];
            assert_eq!(number(&kernel["bytes"]), bytes * 10_000);
            assert_eq!(kernel["round_ns"].as_array().unwrap().len(), 4);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_done() {
    let mut agent = Agent::start("guest");
    let kernel = |operation: &str, operations: u64, batch: u64| json!({"operation": operation, "operations": operations, "batch_operations": batch});
    let ring = |processes: u64, bytes: u64, laps: u64| json!({"processes": processes, "working_set_bytes": bytes, "laps": laps});
    let stream = |elements: u64, rounds: u64, threads: u64| json!({"elements": elements, "rounds": rounds, "threads": threads});
    let cases = [
        ("kernel", kernel("dance", 1, 1), "bad-request"),
        ("kernel", kernel("null-call", 0, 1), "bad-request"),
        ("kernel", kernel("null-call", 1, 0), "bad-request"),
        ("kernel", kernel("null-call", 10, 3), "bad-request"),
        ("kernel", kernel("null-call", 1 << 40, 1), "limit"),
        ("context-switch", ring(1, 0, 1), "bad-request"),
        ("context-switch", ring(2, 7, 1), "bad-request"),
        ("context-switch", ring(2, 0, 0), "bad-request"),
        ("context-switch", ring(256, 1 << 52, 1), "limit"),
        ("ipc-bandwidth", sent("letter", 8, 8), "bad-request"),
        ("ipc-bandwidth", sent("pipe", 0, 8), "bad-request"),
        ("ipc-bandwidth", sent("pipe", 8, 0), "bad-request"),
        ("ipc-bandwidth", sent("pipe", 4096, 8192), "bad-request"),
        ("ipc-bandwidth", sent("pipe", 1 << 50, 1 << 50), "limit"),
        ("stream", stream(10, 1, 1), "bad-request"),
        ("stream", stream(10, 2, 11), "bad-request"),
        ("stream", stream(1 << 50, 2, 1), "limit"),
    ];
    for (job, parameters, kind) in cases {
        let reported = parameters.to_string();
        let request = json!({"job": job, "parameters": parameters, "marks": null});
        let (refused, message) = agent.refused("run", request);
        assert_eq!(refused, kind, "{job} {reported}: {message}");
        assert!(agent.events.is_empty(), "a mark was reported");
    }
}
