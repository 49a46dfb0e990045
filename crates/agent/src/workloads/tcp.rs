//! Traffic over TCP connections to an agent that serves: netperf's `TCP_STREAM` and `TCP_RR`.
//!
//! The connections are opened before the start mark; between the marks is the exchange, to the last byte that either end
//! has to say, by the last connection.

use std::net::SocketAddr;

use virtoll_proto::Error;
use virtoll_proto::reply::figures::{self, Figures};
use virtoll_proto::request::jobs::Tcp;

use super::{Done, Outcome, Workload};
use crate::tcp_exchange::{self, Opened};

/// Opens the connections.
///
/// # Errors
/// `bad-request` for sizes out of range, `system` if the server cannot be reached.
pub fn open(wanted: &Tcp) -> Result<Opened, Error> {
    tcp_exchange::check(&wanted.exchange)?;
    let at = SocketAddr::from((wanted.address, wanted.port));
    Opened::connect(&wanted.exchange, at, wanted.timeout_ns)
        .map_err(|cause| Error::system(format!("tcp: connect to {at}"), &cause))
}

impl Workload for Opened {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let outcome = self.carry_out().map_err(|cause| Error::system("tcp", &cause))?;
        Ok(Box::new(outcome))
    }
}

impl Done for tcp_exchange::Outcome {
    fn check(self: Box<Self>) -> Outcome {
        let own = *self;
        let (exchange, tcp, connections) = (own.result, own.tcp, own.connections);
        let result = figures::Tcp { exchange, tcp, connections };
        Outcome { result: Figures::Tcp(result), check: own.check }
    }
}
