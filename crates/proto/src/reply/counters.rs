//! What `counters` returns.
#![allow(missing_docs)] // the fields are those of docs/protocol.md

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Word;
use super::traffic::ProcessorTimes;

/// Counters by the kernel's names.
pub type Named<T> = BTreeMap<String, T>;

/// `counters`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Counters {
    pub monotonic_ns: u64,
    pub interfaces: Vec<InterfaceCounters>,
    /// None where the kernel has no `softnet_stat`.
    pub softnet: Option<Vec<Softnet>>,
    /// By protocol; none where the kernel has no `snmp`.
    pub snmp: Option<BTreeMap<String, Named<i64>>>,
    /// None where the kernel has no `snmp6`.
    pub snmp6: Option<Named<u64>>,
    pub processors: Vec<ProcessorTimes>,
}

/// Counters of one interface.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct InterfaceCounters {
    pub name: String,
    pub index: u32,
    pub mac: Option<String>,
    pub statistics: BTreeMap<Word, u64>,
    pub queue_disciplines: Vec<QueueDiscipline>,
    /// None where the driver has none.
    pub driver_statistics: Option<Named<u64>>,
}

/// A queueing discipline of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct QueueDiscipline {
    pub kind: String,
    pub root: bool,
    pub dropped: u64,
    pub overlimits: u64,
    pub backlog: u64,
}

/// A line of `/proc/net/softnet_stat`; older kernels have fewer columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Softnet {
    pub cpu: u64,
    pub processed: Option<u64>,
    pub dropped: Option<u64>,
    pub time_squeeze: Option<u64>,
    pub received_rps: Option<u64>,
    pub flow_limit: Option<u64>,
    pub backlog: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_protocols_fields() {
        let queue = QueueDiscipline {
            kind: "fq_codel".to_owned(),
            root: true,
            dropped: 1,
            overlimits: 2,
            backlog: 3,
        };
        let interface = InterfaceCounters {
            name: "in0".to_owned(),
            index: 4,
            mac: None,
            statistics: BTreeMap::from([("rx_packets".into(), 5)]),
            queue_disciplines: vec![queue],
            driver_statistics: None,
        };
        let softnet = Softnet {
            cpu: 0,
            processed: Some(6),
            dropped: Some(7),
            time_squeeze: Some(8),
            received_rps: None,
            flow_limit: None,
            backlog: None,
        };
        let udp = Named::from([("InErrors".to_owned(), -1)]);
        let counters = Counters {
            monotonic_ns: 9,
            interfaces: vec![interface],
            softnet: Some(vec![softnet]),
            snmp: Some(BTreeMap::from([("Udp".to_owned(), udp)])),
            snmp6: None,
            processors: Vec::new(),
        };
        assert_eq!(
            serde_json::to_value(counters).unwrap().to_string(),
            r#"{"interfaces":[{"driver_statistics":null,"index":4,"mac":null,"name":"in0","queue_disciplines":[{"backlog":3,"dropped":1,"kind":"fq_codel","overlimits":2,"root":true}],"statistics":{"rx_packets":5}}],"monotonic_ns":9,"processors":[],"snmp":{"Udp":{"InErrors":-1}},"snmp6":null,"softnet":[{"backlog":null,"cpu":0,"dropped":7,"flow_limit":null,"processed":6,"received_rps":null,"time_squeeze":8}]}"#
        );
    }
}
