//! What the controller sends: a number, an operation, and that operation's fields, all checked.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::reply::Error;

pub use background::{End, Progress, Spawn};
pub use http::HttpLoad;
pub use network::{Interface, Neighbour, Network, Route, Vlan};
pub use run::{Job, Run};
pub use serve::{Exchange, Serve, ServeFinish, Side};
pub use traffic::{
    Backend, Bursts, Capture, Counters, Destinations, FrameKey, MixPart, Sink, SinkBackend,
    SinkFinish, Source, SourceTold, Traffic,
};

mod background;
mod http;
pub mod jobs;
mod network;
mod run;
mod serve;
mod traffic;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its number, unique in a session, at least 1.
    pub id: u64,
    /// What to do.
    pub operation: Operation,
}

/// A request that was refused before it was tried; `id` is there if it could be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The number to answer to.
    pub id: Option<u64>,
    /// Why.
    pub error: Error,
}

/// The operations and their fields, by the name in `op`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
#[allow(missing_docs)] // each is a section of docs/protocol.md
pub enum Operation {
    Hello(Hello),
    Clocks {},
    Facts {},
    Network(Network),
    Run(Run),
    Exec(Exec),
    Spawn(Spawn),
    Progress(Progress),
    End(End),
    Terminal(Terminal),
    TerminalInput(TerminalInput),
    TerminalResize(TerminalResize),
    TerminalClose {},
    Shutdown {},
    TimekeeperStart(TimekeeperStart),
    Marks(Marks),
    PathDelay(PathDelay),
    Traffic(Traffic),
    TrafficStart(Traffic),
    TrafficStop {},
    SinkOpen(Traffic),
    SinkFinish(SinkFinish),
    SinkClose {},
    Send(Traffic),
    Counters(Counters),
    HandOver(HandOver),
    Data(Data),
    HttpLoad(HttpLoad),
    Serve(Serve),
    ServeFinish(ServeFinish),
    ServeClose {},
}

/// `hello`: the controller's version.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The controller's protocol version.
    pub protocol: u32,
}

/// The link that carries the marks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MarkLink {
    /// The interface that they leave by.
    pub interface: String,
    /// The guest's address on it.
    pub source: Ipv4Addr,
    /// The timekeeper's address.
    pub target: Ipv4Addr,
    /// The timekeeper's link address.
    pub target_mac: String,
    /// ICMP identifier.
    pub identifier: u16,
    /// Sequence number of the start mark; the end mark has the next one.
    pub first_sequence: u16,
}

/// `exec`: a process with its output.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its whole environment; null for the agent's own.
    #[serde(default)]
    pub env: Option<BTreeMap<String, String>>,
    /// Its working directory.
    #[serde(default)]
    pub directory: Option<String>,
    /// Its standard input.
    #[serde(default, with = "crate::base64_bytes::optional")]
    pub stdin: Option<Vec<u8>>,
    /// After this time its process group is killed.
    pub timeout_ns: u64,
    /// The most that is kept of each of stdout and stderr.
    pub limit_bytes: u64,
}

/// `data`: the folder for files that workloads make.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Where it is mounted; never the root.
    pub path: String,
    /// Remove all that is in it.
    pub empty: bool,
    /// Write everything back and take its files out of the page cache.
    pub evict: bool,
    /// Tell the disk below which blocks are free; only for a disk that is the guest's own.
    pub trim: bool,
}

/// `hand-over`: how fast CPUs hand a cache line to each other.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HandOver {
    /// The CPUs of each reading, by their numbers in `/sys/devices/system/cpu`.
    pub pairs: Vec<[u32; 2]>,
}

/// `terminal`: a process on a pseudo terminal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Terminal {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Height in characters.
    pub rows: u16,
    /// Width in characters.
    pub columns: u16,
}

/// `terminal-input`: bytes for the terminal's process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalInput {
    /// The bytes.
    #[serde(with = "crate::base64_bytes")]
    pub data: Vec<u8>,
}

/// `terminal-resize`: a new size.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalResize {
    /// Height in characters.
    pub rows: u16,
    /// Width in characters.
    pub columns: u16,
}

/// `timekeeper-start`: capture marks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TimekeeperStart {
    /// The interface that the marks arrive on.
    pub interface: String,
}

/// `marks`: hand out captured marks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Marks {
    /// The interface that they arrived on.
    pub interface: String,
    /// ICMP identifier.
    pub identifier: u16,
    /// How many to wait for.
    pub wait_for: u32,
    /// How long at most.
    pub timeout_ns: u64,
}

/// `path-delay`: round trips to the guest's kernel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PathDelay {
    /// The interface to send on.
    pub interface: String,
    /// The peer's address.
    pub source: Ipv4Addr,
    /// The guest's address.
    pub target: Ipv4Addr,
    /// The guest's link address.
    pub target_mac: String,
    /// How many echo requests.
    pub count: u32,
    /// How long to wait for each reply.
    pub timeout_ns: u64,
}

impl Request {
    /// Reads one line.
    ///
    /// # Errors
    /// A [`Refusal`] of kind `bad-request` that names what is wrong.
    pub fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let refuse = |id, message: String| Refusal { id, error: Error::bad_request(message) };
        let mut fields: Map<String, Value> = serde_json::from_slice(line)
            .map_err(|cause| refuse(None, format!("not a JSON object: {cause}")))?;
        let id = match fields.remove("id") {
            Some(id) => id.as_u64().filter(|id| *id >= 1),
            None => None,
        };
        let id =
            id.ok_or_else(|| refuse(None, "id must be an integer of at least 1".to_owned()))?;
        let Some(Value::String(name)) = fields.get("op").cloned() else {
            return Err(refuse(Some(id), "op must be a text".to_owned()));
        };
        let operation =
            read(fields).map_err(|cause| refuse(Some(id), format!("{name}: {cause}")))?;
        Ok(Self { id, operation })
    }
}

/// Reads the fields of an operation; the message names the field that is wrong.
///
/// # Errors
/// Serde's sentence about the first unknown, missing or ill-typed field.
pub fn read<T: DeserializeOwned>(fields: Map<String, Value>) -> serde_json::Result<T> {
    serde_json::from_value(Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::ErrorKind;
    use proptest::prelude::*;

    fn refusal(line: &str) -> Refusal {
        Request::parse(line.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_request_is_read() {
        let request = Request::parse(br#"{"id": 7, "op": "hello", "protocol": 4}"#).unwrap();
        assert_eq!(request, Request { id: 7, operation: Operation::Hello(Hello { protocol: 4 }) });
    }

    #[test]
    fn a_number_is_read_as_it_was_written() {
        let written = "90730383.22028689";
        let read: f64 = serde_json::from_str(written).unwrap();
        assert_eq!(
            read.to_bits(),
            written.parse::<f64>().unwrap().to_bits(),
            "and not its neighbour"
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(refusal("boot: hello").id, None);
        assert_eq!(refusal("[1]").id, None);
        assert_eq!(refusal(r#"{"op":"clocks"}"#).id, None);
        assert_eq!(refusal(r#"{"id":0,"op":"clocks"}"#).id, None);
        let unknown_field = refusal(r#"{"id":3,"op":"clocks","colour":1}"#);
        assert_eq!(unknown_field.id, Some(3));
        assert_eq!(unknown_field.error.kind, ErrorKind::BadRequest);
        assert!(unknown_field.error.message.contains("colour"));
        assert!(refusal(r#"{"id":3,"op":"hello"}"#).error.message.contains("protocol"));
        assert!(refusal(r#"{"id":3,"op":"dance"}"#).error.message.contains("dance"));
    }

    #[test]
    fn what_the_sources_tell_is_read_whole_or_refused() {
        let reported = r#"{"id":1,"op":"sink-finish","sources":[{"intended_frames":3,"offered_frames":2,"unsent_frames":1}]}"#;
        let one = SourceTold { intended_frames: 3, offered_frames: 2, unsent_frames: 1 };
        let operation = Operation::SinkFinish(SinkFinish { sources: vec![one] });
        assert_eq!(Request::parse(reported.as_bytes()).unwrap(), Request { id: 1, operation });
        assert!(refusal(&reported.replace(":2", ":-2")).error.message.contains("-2"));
        assert!(refusal(&reported.replace("unsent", "lost")).error.message.contains("lost_frames"));
        assert!(
            refusal(r#"{"id":1,"op":"sink-close","sources":[]}"#).error.message.contains("sources")
        );
    }

    fn run(job: &str, parameters: &str, besides: &str) -> Result<Run, String> {
        let line = format!(
            r#"{{"id":1,"op":"run","job":"{job}","parameters":{{{parameters}}}{besides}}}"#
        );
        match Request::parse(line.as_bytes()) {
            Ok(Request { operation: Operation::Run(run), .. }) => Ok(run),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal.error.message),
        }
    }

    #[test]
    fn what_a_job_is_not_told_is_once_and_at_once() {
        let told = run("idle", r#""duration_ns":5"#, "").unwrap();
        assert_eq!((told.repeats.get(), told.pause_ns, told.delay_ns), (1, 0, 0));
        let Job::ForkWait(job) = run("forkwait", r#""processes":3"#, "").unwrap().job else {
            panic!("another job")
        };
        assert_eq!(job, jobs::ForkWait { processes: 3, workers: 1 });
    }

    #[test]
    fn only_a_job_that_begins_anew_is_repeated() {
        let twice = r#","repeats":2"#;
        assert_eq!(run("masr", r#""size_bytes":8"#, twice).unwrap().repeats.get(), 2);
        let parameters = r#""elements":8,"rounds":1,"threads":1"#;
        assert_eq!(run("stream", parameters, r#","repeats":1"#).unwrap().repeats.get(), 1);
        let refused = run("stream", parameters, twice).unwrap_err();
        assert!(refused.contains("repeats: the job stream runs once"), "{refused}");
    }

    #[test]
    fn a_request_that_was_read_is_written_with_what_it_says_alone() {
        let written = |besides: &str| {
            let run = run("idle", r#""duration_ns":5"#, besides).unwrap();
            serde_json::to_value(run).unwrap().to_string()
        };
        let plain = r#"{"job":"idle","marks":null,"parameters":{"duration_ns":5}}"#;
        assert_eq!(written(""), plain);
        for (key, value) in [("repeats", 2), ("pause_ns", 7), ("delay_ns", 9)] {
            let besides = format!(r#","{key}":{value}"#);
            assert!(written(&besides).contains(&besides[1..]), "{key}");
        }
    }

    #[test]
    fn what_a_source_is_not_told_is_one_flow_flat_out() {
        let told = r#"{"interface":"in0","source_mac":"","destination_mac":"","source_address":"10.1.0.1",
            "destination_address":"10.2.0.1","source_port":1,"destination_port":2}"#;
        let source: Source = serde_json::from_str(told).unwrap();
        assert_eq!((source.flows, source.rate_frames_per_second), (1, None));
        assert_eq!((source.number, source.vlan, source.destinations), (None, None, None));
    }

    #[test]
    fn a_key_is_read_whole_or_refused_and_never_printed() {
        let digits = "00112233445566778899aabbccddeeff";
        let key: FrameKey = digits.parse().unwrap();
        assert_eq!((key.0[0], key.0[1], key.0[15]), (0, 0x11, 0xff));
        assert_eq!(
            (String::from(key), format!("{key:?}")),
            (digits.to_owned(), "FrameKey(..)".to_owned())
        );
        let signed = format!("+{}", &digits[1..]);
        for wrong in ["", &digits[1..], &format!("0{digits}"), &digits.replace('a', "g"), &signed] {
            assert!(wrong.parse::<FrameKey>().is_err(), "{wrong}");
            assert!(FrameKey::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn back_ends_are_called_as_in_the_protocol() {
        assert_eq!(Backend::LiveFrames.to_string(), "live-frames");
        assert_eq!(SinkBackend::Tpacket.to_string(), "tpacket");
    }

    #[test]
    fn an_exchange_says_how_much_is_done_over_how_many_connections() {
        let active = Side::Opener;
        let stream = Exchange::Stream { active, bytes: 9, message_bytes: 3, connections: 2 };
        assert_eq!((stream.amount(), stream.connections()), (9, 2));
        let (request_bytes, response_bytes) = (4, 6);
        let asked = Exchange::RequestResponse {
            active,
            transactions: 7,
            request_bytes,
            response_bytes,
            connections: 5,
        };
        assert_eq!((asked.amount(), asked.connections()), (7, 5));
    }

    #[test]
    fn what_is_served_is_read_whole_or_refused() {
        let reported = r#"{"id":1,"op":"serve","address":"10.0.0.2","timeout_ns":5,"exchange":
            {"kind":"stream","active":"listener","bytes":9,"message_bytes":3}}"#;
        let (active, bytes, message_bytes) = (Side::Listener, 9, 3);
        let exchange = Exchange::Stream { active, bytes, message_bytes, connections: 1 };
        let address = Ipv4Addr::new(10, 0, 0, 2);
        let serve = Serve { address, port: 0, cpu: None, exchange, timeout_ns: 5 };
        let operation = Operation::Serve(serve);
        assert_eq!(Request::parse(reported.as_bytes()).unwrap(), Request { id: 1, operation });
        for (word, other) in [("stream", "river"), ("listener", "nobody"), ("message_", "massage_")]
        {
            assert_eq!(refusal(&reported.replace(word, other)).error.kind, ErrorKind::BadRequest);
        }
        assert!(refusal(r#"{"id":1,"op":"serve-close","port":1}"#).error.message.contains("port"));
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Request::parse(&line);
        }
    }
}
