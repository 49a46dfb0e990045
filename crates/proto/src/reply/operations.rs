//! What operations return. Each type is the reply of the operation that it is named after in `docs/protocol.md`, which
//! specifies its fields.
#![allow(missing_docs)] // the fields are those of docs/protocol.md

use serde::{Deserialize, Serialize};

use super::{Ready, Word};

/// The reply of an operation without a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// `hello`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Hello {
    #[serde(flatten)]
    pub ready: Ready,
    /// The target triple that the agent was built for.
    pub target: Word,
}

/// `clocks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Clocks {
    pub realtime_ns: u64,
    pub monotonic_ns: u64,
    pub monotonic_raw_ns: u64,
    pub boottime_ns: u64,
}

/// `network`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Network {
    pub interfaces: Vec<InterfaceState>,
}

/// An interface once it is configured.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct InterfaceState {
    pub name: String,
    pub mac: Option<String>,
    pub mtu: u32,
    /// Operational state (RFC 2863) in the kernel's word.
    pub operstate: Word,
}

/// `exec`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Exec {
    pub status: Option<i32>,
    pub signal: Option<i32>,
    #[serde(with = "crate::base64_bytes")]
    pub stdout: Vec<u8>,
    #[serde(with = "crate::base64_bytes")]
    pub stderr: Vec<u8>,
    pub timed_out: bool,
    pub truncated: bool,
}

/// `spawn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Spawn {
    pub pid: u32,
}

/// `end`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct End {
    pub status: Option<i32>,
    pub signal: Option<i32>,
    pub by_itself: bool,
    pub killed: bool,
    #[serde(with = "crate::base64_bytes")]
    pub output: Vec<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Vec<Progress>>,
}

/// `progress`, and one of the readings of `end`: the CPU time of a program and of all in its process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Progress {
    pub monotonic_ns: u64,
    pub cpu_ns: u64,
    pub processes: u64,
}

/// `marks`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Marks {
    pub marks: Vec<Mark>,
    pub missing: usize,
}

/// A captured mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Mark {
    pub identifier: u16,
    pub sequence: u16,
    pub received_realtime_ns: u64,
    pub realtime_minus_monotonic_ns: i64,
}

/// `path-delay`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct PathDelay {
    pub round_trip_ns: Vec<u64>,
    pub lost: u32,
}

/// `hand-over`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct HandOver {
    pub readings: Vec<HandOverReading>,
}

/// One pair's reading, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct HandOverReading {
    pub cpus: [u32; 2],
    pub monotonic_ns: u64,
    pub batch_round_trips: u32,
    pub batches: u64,
    pub least_batch_ns: Option<u64>,
    pub median_batch_ns: Option<u64>,
    pub reason: Option<String>,
}

/// `data`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Data {
    pub file_system: String,
    pub source: String,
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub removed_entries: u64,
    pub files: u64,
    pub file_bytes: u64,
    pub resident_bytes: u64,
    pub trimmed_bytes: Option<u64>,
}

/// `serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Serve {
    pub port: u16,
}

/// A connection's counters, `TCP_INFO` of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct TcpInformation {
    pub retransmitted_segments: u32,
    pub round_trip_us: u32,
    pub sent_segment_bytes: u32,
    pub received_segment_bytes: u32,
}

/// `sink-open`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SinkOpen {
    pub backend: Word,
    pub backend_reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::figures::{
        Answered, ExchangeFigures, Figures, ForkWait, GuestTimes, Run, ServeFinish,
    };

    /// The text as the agent writes it: `Value` sorts the fields.
    fn text(reply: &impl Serialize) -> String {
        serde_json::to_value(reply).unwrap().to_string()
    }

    #[test]
    fn replies_of_a_session_have_the_protocols_fields() {
        assert_eq!(text(&Empty {}), "{}");
        let ready = Ready {
            protocol: 1,
            version: "0.1.0".to_owned(),
            build: "0123456789ab".to_owned(),
            role: "peer".to_owned(),
            pid: 7,
            started_monotonic_ns: 1,
            started_boottime_ns: 2,
            ready_monotonic_ns: 3,
        };
        assert_eq!(
            text(&Hello { ready, target: "x86_64-unknown-linux-gnu".into() }),
            r#"{"build":"0123456789ab","pid":7,"protocol":1,"ready_monotonic_ns":3,"role":"peer","started_boottime_ns":2,"started_monotonic_ns":1,"target":"x86_64-unknown-linux-gnu","version":"0.1.0"}"#
        );
        let clocks =
            Clocks { realtime_ns: 1, monotonic_ns: 2, monotonic_raw_ns: 3, boottime_ns: 4 };
        assert_eq!(
            text(&clocks),
            r#"{"boottime_ns":4,"monotonic_ns":2,"monotonic_raw_ns":3,"realtime_ns":1}"#
        );
        let mark = Mark {
            identifier: 5,
            sequence: 1,
            received_realtime_ns: 9,
            realtime_minus_monotonic_ns: -2,
        };
        assert_eq!(
            text(&Marks { marks: vec![mark], missing: 1 }),
            r#"{"marks":[{"identifier":5,"realtime_minus_monotonic_ns":-2,"received_realtime_ns":9,"sequence":1}],"missing":1}"#
        );
        let delay = PathDelay { round_trip_ns: vec![4, 5], lost: 1 };
        assert_eq!(text(&delay), r#"{"lost":1,"round_trip_ns":[4,5]}"#);
        let reading = HandOverReading {
            cpus: [1, 0],
            monotonic_ns: 2,
            batch_round_trips: 50,
            batches: 3,
            least_batch_ns: Some(4),
            median_batch_ns: Some(5),
            reason: None,
        };
        assert_eq!(
            text(&HandOver { readings: vec![reading] }),
            r#"{"readings":[{"batch_round_trips":50,"batches":3,"cpus":[1,0],"least_batch_ns":4,"median_batch_ns":5,"monotonic_ns":2,"reason":null}]}"#
        );
        let guest = GuestTimes {
            start_monotonic_ns: 1,
            end_monotonic_ns: 2,
            start_realtime_ns: 3,
            end_realtime_ns: 4,
            pause_ns: 7,
            user_cpu_ns: 5,
            system_cpu_ns: 6,
        };
        let run = Run {
            guest,
            result: Figures::ForkWait(ForkWait { processes: 2, reaped: 1 }),
            check: "ok".to_owned(),
        };
        assert_eq!(
            text(&run),
            r#"{"check":"ok","guest":{"end_monotonic_ns":2,"end_realtime_ns":4,"pause_ns":7,"start_monotonic_ns":1,"start_realtime_ns":3,"system_cpu_ns":6,"user_cpu_ns":5},"result":{"processes":2,"reaped":1}}"#
        );
    }

    #[test]
    fn replies_about_programs_and_files_have_the_protocols_fields() {
        let exec = Exec {
            status: None,
            signal: Some(9),
            stdout: b"out".to_vec(),
            stderr: Vec::new(),
            timed_out: true,
            truncated: false,
        };
        assert_eq!(
            text(&exec),
            r#"{"signal":9,"status":null,"stderr":"","stdout":"b3V0","timed_out":true,"truncated":false}"#
        );
        assert_eq!(text(&Spawn { pid: 12 }), r#"{"pid":12}"#);
        let end = End {
            status: Some(0),
            signal: None,
            by_itself: false,
            killed: true,
            output: b"end".to_vec(),
            samples: None,
        };
        assert_eq!(
            text(&end),
            r#"{"by_itself":false,"killed":true,"output":"ZW5k","signal":null,"status":0}"#
        );
        let data = Data {
            file_system: "ext4".to_owned(),
            source: "/dev/vdb".to_owned(),
            total_bytes: 8,
            free_bytes: 7,
            removed_entries: 6,
            files: 5,
            file_bytes: 4,
            resident_bytes: 3,
            trimmed_bytes: None,
        };
        assert_eq!(
            text(&data),
            r#"{"file_bytes":4,"file_system":"ext4","files":5,"free_bytes":7,"removed_entries":6,"resident_bytes":3,"source":"/dev/vdb","total_bytes":8,"trimmed_bytes":null}"#
        );
    }

    #[test]
    fn replies_about_the_network_have_the_protocols_fields() {
        let interface = InterfaceState {
            name: "in0".to_owned(),
            mac: Some("02:00:00:00:00:01".to_owned()),
            mtu: 1_500,
            operstate: "up".into(),
        };
        assert_eq!(
            text(&Network { interfaces: vec![interface] }),
            r#"{"interfaces":[{"mac":"02:00:00:00:00:01","mtu":1500,"name":"in0","operstate":"up"}]}"#
        );
        assert_eq!(text(&Serve { port: 80 }), r#"{"port":80}"#);
        let tcp = TcpInformation {
            retransmitted_segments: 1,
            round_trip_us: 2,
            sent_segment_bytes: 3,
            received_segment_bytes: 4,
        };
        let answered = Answered { transactions: 3, start_monotonic_ns: 1, end_monotonic_ns: 2 };
        let result = ExchangeFigures::Answered(answered);
        let finish = |tcp| ServeFinish {
            result: result.clone(),
            check: "ok".to_owned(),
            tcp,
            connections: Vec::new(),
        };
        assert_eq!(
            text(&finish(None)),
            r#"{"check":"ok","result":{"end_monotonic_ns":2,"start_monotonic_ns":1,"transactions":3},"tcp":null}"#
        );
        assert_eq!(
            text(&finish(Some(tcp))),
            r#"{"check":"ok","result":{"end_monotonic_ns":2,"start_monotonic_ns":1,"transactions":3},"tcp":{"received_segment_bytes":4,"retransmitted_segments":1,"round_trip_us":2,"sent_segment_bytes":3}}"#
        );
        let open = SinkOpen { backend: "xdp".into(), backend_reason: None };
        assert_eq!(text(&open), r#"{"backend":"xdp","backend_reason":null}"#);
    }
}
