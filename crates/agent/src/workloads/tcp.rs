//! Traffic over a TCP connection to an agent that serves: netperf's `TCP_STREAM` and `TCP_RR`.
//!
//! The connection is opened before the start mark; between the marks is the exchange, to the last byte that either end
//! has to say.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use serde::Deserialize;
use serde_json::json;
use virtoll_proto::Error;
use virtoll_proto::reply::TcpInformation;
use virtoll_proto::request::{Exchange, Side};

use super::{Done, Outcome, Workload};
use crate::tcp_exchange::{self, Carried};

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// Address of the server.
    address: Ipv4Addr,
    /// At which port.
    port: u16,
    /// What is done; the one who serves was given the same.
    exchange: Exchange,
    /// How long the connection, or a byte on it, is waited for.
    timeout_ns: u64,
}

/// An open connection.
pub struct Connected {
    exchange: Exchange,
    stream: TcpStream,
}

struct Exchanged {
    carried: Carried,
    tcp: Option<TcpInformation>,
}

impl Tcp {
    /// Opens the connection.
    ///
    /// # Errors
    /// `bad-request` for sizes out of range, `system` if the server cannot be reached.
    pub fn open(self) -> Result<Connected, Error> {
        tcp_exchange::check(&self.exchange)?;
        let at = SocketAddr::from((self.address, self.port));
        let stream = tcp_exchange::open(at, self.timeout_ns)
            .map_err(|cause| Error::system(format!("tcp: connect to {at}"), &cause))?;
        Ok(Connected { exchange: self.exchange, stream })
    }
}

impl Workload for Connected {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let carried = tcp_exchange::carry_out(&self.exchange, Side::Opener, &self.stream)
            .map_err(|cause| Error::system("tcp", &cause))?;
        Ok(Box::new(Exchanged { carried, tcp: tcp_exchange::tcp_information(&self.stream) }))
    }
}

impl Done for Exchanged {
    fn check(self: Box<Self>) -> Outcome {
        let mut result = self.carried.result;
        result["tcp"] = json!(self.tcp);
        Outcome { result, check: self.carried.check }
    }
}
