//! The command line of `wire`.

use std::net::IpAddr;

use lexopt::Parser;
use lexopt::prelude::{Long, Short, ValueExt};
use serde::de::DeserializeOwned;
use virtoll_proto::request::{Backend, FrameKey, MixPart, Sink, SinkBackend, Source, Traffic};
use virtoll_wire::frame::Layout;

use super::error::WireError;
use crate::command_line::{Failure, number, spelling, value};

/// The key without `--key`, which everybody knows.
const PUBLIC_KEY: [u8; 16] = [0; 16];

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub interface: String,
    pub source_mac: Option<String>,
    pub destination_mac: String,
    pub source: Option<IpAddr>,
    pub destination: Option<IpAddr>,
    pub ports: (u16, u16),
    pub flows: u16,
    pub vlan: Option<u16>,
    pub rate_mbit: Option<f64>,
    pub rate_frames: Option<f64>,
    pub sizes: Vec<(u32, u32)>,
    pub rates_mbit: Vec<f64>,
    pub duration_ns: u64,
    pub backend: Backend,
    pub sink: SinkBackend,
    pub batch: Option<u32>,
    pub catch_up_ns: Option<u64>,
    pub cpu: Option<u32>,
    pub trial: u16,
    pub key: FrameKey,
    pub any: bool,
    pub flat_out: bool,
    pub pcap: Option<String>,
    pub pcap_frames: u32,
    pub json: bool,
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            interface: String::new(),
            source_mac: None,
            destination_mac: String::new(),
            source: None,
            destination: None,
            ports: (5_000, 6_000),
            flows: 1,
            vlan: None,
            rate_mbit: None,
            rate_frames: None,
            sizes: Vec::new(),
            rates_mbit: vec![10.0, 100.0, 300.0, 1_000.0],
            duration_ns: 1_000_000_000,
            backend: Backend::Auto,
            sink: SinkBackend::Auto,
            batch: None,
            catch_up_ns: None,
            cpu: None,
            trial: 1,
            key: FrameKey(PUBLIC_KEY),
            any: false,
            flat_out: false,
            pcap: None,
            pcap_frames: 100,
            json: false,
        }
    }
}

impl Arguments {
    /// Reads the words after the command; none if they ask for help.
    ///
    /// # Errors
    /// A sentence that names the word.
    pub fn parse(words: &[String]) -> Result<Option<Self>, lexopt::Error> {
        let mut own = Self::default();
        let mut imix = false;
        let mut parser = Parser::from_args(words);
        while let Some(argument) = parser.next()? {
            let name = spelling(&argument);
            match argument {
                Long("help") | Short('h') => return Ok(None),
                Long("json") => own.json = true,
                Long("any") => own.any = true,
                Long("flat-out") => own.flat_out = true,
                Long("imix") => imix = true,
                Long("interface") => own.interface = parser.value()?.string()?,
                Long("source-mac") => own.source_mac = Some(parser.value()?.string()?),
                Long("destination-mac") => own.destination_mac = parser.value()?.string()?,
                Long("source") => own.source = Some(value(&mut parser, &name, number)?),
                Long("destination") => {
                    own.destination = Some(value(&mut parser, &name, number)?);
                }
                Long("backend") => own.backend = value(&mut parser, &name, named)?,
                Long("pcap") => own.pcap = Some(parser.value()?.string()?),
                Long("ports") => own.ports = value(&mut parser, &name, pair)?,
                Long("flows") => own.flows = value(&mut parser, &name, number)?,
                Long("vlan") => own.vlan = Some(value(&mut parser, &name, number)?),
                Long("rate-mbit") => own.rate_mbit = Some(value(&mut parser, &name, number)?),
                Long("rate-frames") => own.rate_frames = Some(value(&mut parser, &name, number)?),
                Long("rates") => {
                    own.rates_mbit = value(&mut parser, &name, |text| list(text, number))?;
                }
                Long("size") => own.sizes = vec![value(&mut parser, &name, size)?],
                Long("sizes") => own.sizes = value(&mut parser, &name, |text| list(text, size))?,
                Long("mix") => own.sizes = value(&mut parser, &name, |text| list(text, pair))?,
                Long("duration") => own.duration_ns = value(&mut parser, &name, seconds)?,
                Long("catch-up") => {
                    own.catch_up_ns = Some(value(&mut parser, &name, milliseconds)?);
                }
                Long("batch") => own.batch = Some(value(&mut parser, &name, number)?),
                Long("cpu") => own.cpu = Some(value(&mut parser, &name, number)?),
                Long("trial") => own.trial = value(&mut parser, &name, number)?,
                Long("key") => own.key = value(&mut parser, &name, number)?,
                Long("pcap-frames") => own.pcap_frames = value(&mut parser, &name, number)?,
                Long("sink") => own.sink = value(&mut parser, &name, named)?,
                _ => return Err(format!("unknown argument {name}; see --help").into()),
            }
        }
        if imix {
            let layout = Layout {
                tagged: own.vlan.is_some(),
                ipv6: own.source.is_some_and(|address| address.is_ipv6()),
            };
            own.sizes = layout.imix().map(|(size, weight)| (size as u32, weight)).to_vec();
        }
        Ok(Some(own))
    }

    /// Frame sizes with their weights.
    pub fn sizes(&self) -> &[(u32, u32)] {
        if self.sizes.is_empty() { &[(64, 1)] } else { &self.sizes }
    }

    /// Mean frame size of the mix in bytes.
    pub fn mean_bytes(&self) -> f64 {
        let weights: f64 = self.sizes().iter().map(|size| f64::from(size.1)).sum();
        let bytes: f64 =
            self.sizes().iter().map(|size| f64::from(size.0) * f64::from(size.1)).sum();
        bytes / weights
    }

    fn frames_per_second(&self) -> Option<f64> {
        self.rate_frames.or(self.rate_mbit.map(|mbit| mbit * 1e6 / 8.0 / self.mean_bytes()))
    }

    /// As a trial of the protocol.
    ///
    /// # Errors
    /// What is missing or cannot be.
    pub fn request(&self) -> Result<Traffic, Failure> {
        require("--interface", &self.interface)?;
        require("--destination-mac", &self.destination_mac)?;
        let address = |name, address: Option<IpAddr>| address.ok_or_else(|| missing(name));
        let source = Source {
            number: None,
            key: Some(self.key),
            interface: self.interface.clone(),
            source_mac: self.source_mac()?,
            destination_mac: self.destination_mac.clone(),
            vlan: self.vlan,
            source_address: address("--source", self.source)?,
            destination_address: address("--destination", self.destination)?,
            source_port: self.ports.0,
            destination_port: self.ports.1,
            flows: self.flows,
            destinations: None,
            rate_frames_per_second: self.frames_per_second(),
            cpu: self.cpu,
        };
        let part = |&(frame_size_bytes, weight): &(u32, u32)| MixPart { frame_size_bytes, weight };
        Ok(Traffic {
            trial: self.trial,
            frame_size_bytes: self.sizes()[0].0,
            mix: self.sizes().iter().map(part).collect(),
            duration_ns: self.duration_ns,
            backend: self.backend,
            sources: vec![source],
            sink: Sink {
                interfaces: vec![self.interface.clone()],
                backend: SinkBackend::Auto,
                cpu: None,
            },
            quiet_ns: 50_000_000,
            residual_ns: Some(500_000_000),
            drain_limit_ns: 5_000_000_000,
            batch_frames: self.batch,
            catch_up_ns: self.catch_up_ns,
            wake_ns: None,
            bursts: None,
            idle_of: Vec::new(),
            delay_ns: None,
            histograms: false,
            capture: None,
        })
    }

    fn source_mac(&self) -> Result<String, WireError> {
        let own_mac = || virtoll_wire::interface_mac(&self.interface).map(|mac| mac.to_string());
        let source_mac = self.source_mac.clone().map_or_else(own_mac, Ok);
        source_mac.map_err(WireError::on(&self.interface))
    }
}

/// Refuses an option that was left out.
///
/// # Errors
/// The value is empty.
pub fn require(name: &str, value: &str) -> Result<(), Failure> {
    if value.is_empty() {
        return Err(missing(name));
    }
    Ok(())
}

fn missing(name: &str) -> Failure {
    Failure::Usage(format!("{name} is missing; see --help"))
}

fn size(text: &str) -> Option<(u32, u32)> {
    Some((number(text)?, 1))
}

fn seconds(text: &str) -> Option<u64> {
    number(text).filter(|seconds: &f64| *seconds > 0.0).map(|seconds| (seconds * 1e9) as u64)
}

fn milliseconds(text: &str) -> Option<u64> {
    number(text).map(|milliseconds: f64| (milliseconds * 1e6) as u64)
}

/// A value of an enumeration by its name in the protocol.
fn named<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(name.into()).ok()
}

fn pair<A: std::str::FromStr, B: std::str::FromStr>(value: &str) -> Option<(A, B)> {
    let (first, second) = value.split_once(':')?;
    Some((number(first)?, number(second)?))
}

fn list<T>(value: &str, read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    value.split(',').map(read).collect()
}
