//! The command line of `wire`.

use serde_json::{Value, json};
use virtoll_proto::request::{Traffic, read};
use virtoll_wire::backend_selection::Sink;
use virtoll_wire::frame::Layout;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub interface: String,
    pub source_mac: Option<String>,
    pub destination_mac: String,
    pub source: String,
    pub destination: String,
    pub ports: (u16, u16),
    pub flows: u16,
    pub vlan: Option<u16>,
    pub rate_mbit: Option<f64>,
    pub rate_frames: Option<f64>,
    pub sizes: Vec<(u32, u32)>,
    pub rates_mbit: Vec<f64>,
    pub duration_ns: u64,
    pub backend: String,
    pub sink: Sink,
    pub batch: Option<u32>,
    pub catch_up_ns: Option<u64>,
    pub cpu: Option<u32>,
    pub trial: u16,
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
            source: String::new(),
            destination: String::new(),
            ports: (5_000, 6_000),
            flows: 1,
            vlan: None,
            rate_mbit: None,
            rate_frames: None,
            sizes: Vec::new(),
            rates_mbit: vec![10.0, 100.0, 300.0, 1_000.0],
            duration_ns: 1_000_000_000,
            backend: "auto".to_owned(),
            sink: Sink::Auto,
            batch: None,
            catch_up_ns: None,
            cpu: None,
            trial: 1,
            any: false,
            flat_out: false,
            pcap: None,
            pcap_frames: 100,
            json: false,
        }
    }
}

impl Arguments {
    /// Reads the words after the command.
    ///
    /// # Errors
    /// A sentence that names the word.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let mut own = Self::default();
        let mut imix = false;
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match word.as_str() {
                "--json" => own.json = true,
                "--any" => own.any = true,
                "--flat-out" => own.flat_out = true,
                "--imix" => imix = true,
                name => {
                    let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
                    own.set(name, value)?;
                }
            }
        }
        if imix {
            let layout = Layout { tagged: own.vlan.is_some(), ipv6: own.source.contains(':') };
            own.sizes = layout.imix().map(|(size, weight)| (size as u32, weight)).to_vec();
        }
        Ok(own)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let refuse = || format!("{name} cannot be {value:?}; see --help");
        let seconds = |value: f64| Some((value * 1e9) as u64).filter(|_| value > 0.0);
        match name {
            "--interface" => value.clone_into(&mut self.interface),
            "--source-mac" => self.source_mac = Some(value.to_owned()),
            "--destination-mac" => value.clone_into(&mut self.destination_mac),
            "--source" => value.clone_into(&mut self.source),
            "--destination" => value.clone_into(&mut self.destination),
            "--backend" => value.clone_into(&mut self.backend),
            "--pcap" => self.pcap = Some(value.to_owned()),
            "--ports" => self.ports = pair(value).ok_or_else(refuse)?,
            "--flows" => self.flows = number(value).ok_or_else(refuse)?,
            "--vlan" => self.vlan = Some(number(value).ok_or_else(refuse)?),
            "--rate-mbit" => self.rate_mbit = Some(number(value).ok_or_else(refuse)?),
            "--rate-frames" => self.rate_frames = Some(number(value).ok_or_else(refuse)?),
            "--rates" => self.rates_mbit = list(value, number).ok_or_else(refuse)?,
            "--size" => self.sizes = vec![(number(value).ok_or_else(refuse)?, 1)],
            "--sizes" => {
                self.sizes = list(value, |one| Some((number(one)?, 1))).ok_or_else(refuse)?;
            }
            "--mix" => self.sizes = list(value, pair).ok_or_else(refuse)?,
            "--duration" => {
                self.duration_ns = number(value).and_then(seconds).ok_or_else(refuse)?;
            }
            "--catch-up" => {
                let milliseconds: f64 = number(value).ok_or_else(refuse)?;
                self.catch_up_ns = Some((milliseconds * 1e6) as u64);
            }
            "--batch" => self.batch = Some(number(value).ok_or_else(refuse)?),
            "--cpu" => self.cpu = Some(number(value).ok_or_else(refuse)?),
            "--trial" => self.trial = number(value).ok_or_else(refuse)?,
            "--pcap-frames" => self.pcap_frames = number(value).ok_or_else(refuse)?,
            "--sink" => {
                self.sink = match value {
                    "auto" => Sink::Auto,
                    "xdp" => Sink::Xdp,
                    "tpacket" => Sink::Tpacket,
                    _ => return Err(refuse()),
                }
            }
            _ => return Err(format!("unknown argument {name}; see --help")),
        }
        Ok(())
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
    pub fn request(&self) -> Result<Traffic, String> {
        for (name, value) in [
            ("--interface", &self.interface),
            ("--destination-mac", &self.destination_mac),
            ("--source", &self.source),
            ("--destination", &self.destination),
        ] {
            if value.is_empty() {
                return Err(format!("{name} is missing; see --help"));
            }
        }
        let Value::Object(fields) = self.fields(&self.source_mac()?) else {
            return Err("no request".to_owned());
        };
        read(fields)
    }

    fn source_mac(&self) -> Result<String, String> {
        let own_mac = || virtoll_wire::interface_mac(&self.interface).map(|mac| mac.to_string());
        let source_mac = self.source_mac.clone().map_or_else(own_mac, Ok);
        source_mac.map_err(|cause| format!("{}: {cause}", self.interface))
    }

    fn fields(&self, source_mac: &str) -> Value {
        let mix = |size: &(u32, u32)| json!({"frame_size_bytes": size.0, "weight": size.1});
        json!({
            "trial": self.trial,
            "frame_size_bytes": self.sizes()[0].0,
            "mix": self.sizes().iter().map(mix).collect::<Vec<_>>(),
            "duration_ns": self.duration_ns,
            "backend": self.backend,
            "batch_frames": self.batch,
            "catch_up_ns": self.catch_up_ns,
            "sources": [{
                "interface": self.interface,
                "source_mac": source_mac,
                "destination_mac": self.destination_mac,
                "source_address": self.source,
                "destination_address": self.destination,
                "source_port": self.ports.0,
                "destination_port": self.ports.1,
                "flows": self.flows,
                "vlan": self.vlan,
                "rate_frames_per_second": self.frames_per_second(),
                "cpu": self.cpu,
            }],
            "sink": {"interfaces": [self.interface]},
            "quiet_ns": 50_000_000,
            "residual_ns": 500_000_000,
            "drain_limit_ns": 5_000_000_000_u64,
        })
    }
}

fn number<T: std::str::FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

fn pair<A: std::str::FromStr, B: std::str::FromStr>(value: &str) -> Option<(A, B)> {
    let (first, second) = value.split_once(':')?;
    Some((number(first)?, number(second)?))
}

fn list<T>(value: &str, read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    value.split(',').map(read).collect()
}
