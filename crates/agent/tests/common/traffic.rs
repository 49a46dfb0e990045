//! Requests of `traffic` over veth pairs, and what their answers must hold.

use std::io::{BufReader, Read, Write};
use std::process::{Child, ChildStdout};

use serde_json::{Value, json};

use super::Agent;

pub const MILLISECOND_NS: u64 = 1_000_000;

/// A pair `gN`-`sN`: frames that leave by `gN` arrive at `sN`.
pub fn pair(agent: &Agent, number: usize) {
    // The kernel's own IPv6 messages would be foreign frames.
    let quiet =
        "for one in all default; do echo 1 > /proc/sys/net/ipv6/conf/$one/disable_ipv6; done";
    let status = agent.inside("sh").args(["-c", quiet]).status();
    assert!(status.is_ok_and(|status| status.success()), "IPv6 stays on");
    agent.ip(&format!(
        "link add g{number} mtu 1600 address 02:00:00:00:01:0{number} type veth peer name s{number} mtu 1600 address 02:00:00:00:02:0{number}"
    ));
    let ends = ["g", "s"].map(|end| format!("{end}{number}"));
    for end in &ends {
        agent.ip(&format!("link set {end} up"));
    }
    for end in &ends {
        agent.await_up(end);
    }
}

pub fn source(number: usize, rate: Option<f64>) -> Value {
    json!({
        "interface": format!("g{number}"),
        "key": format!("00112233445566778899aabbccddee{number:02x}"),
        "source_mac": format!("02:00:00:00:01:0{number}"),
        "destination_mac": format!("02:00:00:00:02:0{number}"),
        "source_address": format!("10.1.{number}.1"),
        "destination_address": "10.2.0.1",
        "source_port": 5_000 + number,
        "destination_port": 6_000,
        "rate_frames_per_second": rate,
        "cpu": null,
    })
}

/// A trial that has all the time it needs: frames that are late leave all the same, and the sink waits for those that are
/// missing. Where all of them arrive it ends at once; where they are to be lost, see [`losing`].
pub fn trial(
    number: u16,
    size: u32,
    milliseconds: u64,
    sources: &[Value],
    sinks: &[&str],
) -> Value {
    json!({
        "trial": number,
        "frame_size_bytes": size,
        "duration_ns": milliseconds * MILLISECOND_NS,
        "backend": "auto",
        "sources": sources,
        "sink": {"interfaces": sinks, "cpu": null},
        "catch_up_ns": u64::MAX,
        "quiet_ns": 20 * MILLISECOND_NS,
        "residual_ns": 60_000 * MILLISECOND_NS,
        "drain_limit_ns": 120_000 * MILLISECOND_NS,
    })
}

/// The same where frames are lost for good: nobody waits long for them.
pub fn losing(mut request: Value) -> Value {
    request["residual_ns"] = json!(300 * MILLISECOND_NS);
    request["drain_limit_ns"] = json!(1_000 * MILLISECOND_NS);
    request
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Checks the books of every source; intended, offered and forwarded frames of each.
pub fn books(answer: &Value) -> Vec<(u64, u64, u64)> {
    let sent = answer["sources"].as_array().unwrap();
    let arrived = answer["sink"]["per_source"].as_array().unwrap();
    sent.iter()
        .zip(arrived)
        .map(|(sent, arrived)| {
            let (intended, offered) =
                (number(&sent["intended_frames"]), number(&sent["offered_frames"]));
            let forwarded = number(&arrived["forwarded_frames"]);
            assert_eq!(offered + number(&sent["unsent_frames"]), intended);
            assert_eq!(forwarded + number(&arrived["lost_frames"]), offered);
            (intended, offered, forwarded)
        })
        .collect()
}

/// What a counter of an interface of the agent's says.
pub fn counter(agent: &mut Agent, interface: &str, name: &str) -> u64 {
    let reported = agent.call("counters", json!({"interfaces": [interface]}));
    number(&reported["interfaces"][0]["statistics"][name])
}

/// A trial flat out from `g0` into `s0`, as `with` changes it, and what `s0` had received before. Its time is over
/// whether the sender ran or not, so it is given more until something was sent.
pub fn flat_out(
    agent: &mut Agent,
    first_number: u16,
    with: impl Fn(Value) -> Value,
) -> (Value, u64) {
    let mut answers = [100, 1_000, 10_000].into_iter().zip(first_number..).map(|(time, number)| {
        let request = losing(trial(number, 64, time, &[source(0, None)], &["s0"]));
        let before = counter(agent, "s0", "rx_packets");
        let answer = agent.call("traffic", with(request));
        let offered = books(&answer)[0].1;
        println!("flat out, 64 bytes: {} frames/s offered", offered * 1_000 / time);
        (offered > 0).then_some((answer, before))
    });
    answers.find_map(|answer| answer).expect("something is sent in ten seconds")
}

/// What `send` answered, as `sink-finish` receives it.
pub fn offered_totals(sent: &Value) -> Value {
    let kept = ["intended_frames", "offered_frames", "unsent_frames"];
    let one = |source: &Value| -> Value {
        kept.iter().map(|name| ((*name).to_owned(), source[name].clone())).collect()
    };
    json!({"sources": sent["sources"].as_array().unwrap().iter().map(one).collect::<Vec<_>>()})
}

/// A path in user space that does known harm: `forwarder.py`.
pub struct Forwarder {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Forwarder {
    /// Stands ready between two interfaces of the agent's namespace.
    pub fn start(agent: &Agent, from: &str, to: &str, harm: &[&str]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/forwarder.py");
        let (process, output) = agent.python(&[&[script, from, to], harm].concat());
        Self { process, output }
    }

    /// What became of so many offered frames, once it has seen them all.
    pub fn account(mut self, offered_frames: u64) -> Value {
        let mut input = self.process.stdin.take().unwrap();
        writeln!(input, "{offered_frames}").unwrap();
        let mut reported = String::new();
        self.output.read_to_string(&mut reported).unwrap();
        serde_json::from_str(&reported).unwrap_or_else(|_| panic!("{reported:?}"))
    }

    /// Runs a trial of one source over it. The sink is reported that all frames have left when the forwarder has let go of
    /// the last one, however long that took; its answer, and what the forwarder did.
    pub fn carry(self, agent: &mut Agent, request: &Value) -> (Value, Value) {
        agent.call("sink-open", request.clone());
        let mut answer = agent.call("send", request.clone());
        let account = self.account(number(&answer["sources"][0]["offered_frames"]));
        answer["sink"] = agent.call("sink-finish", offered_totals(&answer))["sink"].take();
        (answer, account)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
