//! Drives the real binary over its standard input and output.
#![allow(dead_code)] // each test program uses a part

pub mod traffic;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub const BINARY: &str = env!("CARGO_BIN_EXE_virtoll-agent");

/// Longer than anything takes on a machine that is busy: it only bounds what would never come.
pub const LONG_NS: u64 = 120_000_000_000;

/// Looks until something is there.
pub fn wait(mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_nanos(LONG_NS), "it never came");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A running agent.
pub struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next_id: u64,
    /// The first line that it sent.
    pub ready: Value,
    /// Events that came before an answer.
    pub events: Vec<Value>,
}

impl Agent {
    /// An ordinary process.
    pub fn start(role: &str) -> Self {
        let mut command = Command::new(BINARY);
        command.args(["--role", role]);
        Self::spawn(command)
    }

    /// One that may have so many files open.
    pub fn with_files(role: &str, most: u32) -> Self {
        let mut command = Command::new("prlimit");
        command.args([&format!("--nofile={most}:{most}"), BINARY, "--role", role]);
        Self::spawn(command)
    }

    /// In a user and network namespace of its own.
    pub fn in_namespace(role: &str) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", BINARY, "--role", role]);
        Self::spawn(command)
    }

    /// As root in a network namespace of its own, where XDP programs may be loaded; none, and said so, without root.
    pub fn as_root(role: &str) -> Option<Self> {
        if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
            println!("NOT TESTED: XDP programs need root; run this test as root");
            return None;
        }
        let mut command = Command::new("unshare");
        command.args(["--net", BINARY, "--role", role]);
        Some(Self::spawn(command))
    }

    /// In a network namespace of its own within the user namespace of `other`.
    pub fn beside(other: &Self, role: &str) -> Self {
        let mut command = other.enter(&["--user"]);
        command.args(["unshare", "--net", BINARY, "--role", role]);
        Self::spawn(command)
    }

    /// A command in the agent's user and network namespaces.
    pub fn inside(&self, program: &str) -> Command {
        let mut command = self.enter(&["--user", "--net"]);
        command.arg(program);
        command
    }

    /// A Python program in the agent's namespaces that has said its first line, by which it stands ready; and what it
    /// says from then on.
    pub fn python(&self, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
        let mut program = self
            .inside("python3")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut said = BufReader::new(program.stdout.take().unwrap());
        said.read_line(&mut String::new()).unwrap();
        (program, said)
    }

    fn enter(&self, namespaces: &[&str]) -> Command {
        // A process may not enter the user namespace that it is in.
        let own = std::fs::read_link("/proc/self/ns/user").unwrap();
        let its = std::fs::read_link(format!("/proc/{}/ns/user", self.pid())).unwrap();
        let namespaces = namespaces.iter().filter(|name| **name != "--user" || own != its);
        let mut command = Command::new("nsenter");
        // An ordinary user's PATH lacks the folders of ethtool and nft.
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
        command
            .env("PATH", path)
            .args(["--preserve-credentials", "--target", &self.pid().to_string()])
            .args(namespaces);
        command
    }

    /// As this command starts it.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut agent =
            Self { child, input, output, next_id: 0, ready: Value::Null, events: Vec::new() };
        agent.ready = agent.line().unwrap_or_else(|| {
            panic!(
                "NOT TESTED: the agent did not start. Namespace tests need util-linux and the right to make user \
                 namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces>0)"
            )
        });
        agent
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs `ip` in the agent's network namespace.
    pub fn ip(&self, arguments: &str) {
        let status = self
            .inside("ip")
            .args(arguments.split_whitespace())
            .status()
            .unwrap_or_else(|cause| panic!("NOT TESTED: ip (iproute2): {cause}"));
        assert!(status.success(), "ip {arguments}");
    }

    /// Waits until an interface lets frames out: some time after it has a carrier.
    pub fn await_up(&self, interface: &str) {
        wait(|| {
            let reported =
                self.inside("ip").args(["-o", "link", "show", interface]).output().unwrap();
            String::from_utf8_lossy(&reported.stdout).contains("state UP")
        });
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    /// The next line; none at the end of the stream.
    pub fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        let count = self.output.read_line(&mut line).unwrap();
        (count > 0).then(|| serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}")))
    }

    pub fn send(&mut self, operation: &str, fields: Value) -> u64 {
        self.next_id += 1;
        let mut request = fields;
        request["id"] = json!(self.next_id);
        request["op"] = json!(operation);
        self.send_raw(format!("{request}\n").as_bytes());
        self.next_id
    }

    /// The answer to a request, either `ok` or `error`; events before it are kept.
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let line = self.line().expect("an answer");
            if line.get("event").is_some() {
                self.events.push(line);
                continue;
            }
            assert_eq!(line["id"], json!(id), "{line}");
            return line;
        }
    }

    pub fn call(&mut self, operation: &str, fields: Value) -> Value {
        let id = self.send(operation, fields);
        let mut answer = self.answer(id);
        assert!(answer.get("ok").is_some(), "{operation}: {answer}");
        answer["ok"].take()
    }

    pub fn refused(&mut self, operation: &str, fields: Value) -> (String, String) {
        let id = self.send(operation, fields);
        let answer = self.answer(id);
        let text = |name: &str| answer["error"][name].as_str().unwrap_or_default().to_owned();
        assert!(answer.get("error").is_some(), "{operation}: {answer}");
        (text("kind"), text("message"))
    }

    /// The next event, kept or new.
    pub fn event(&mut self) -> Value {
        if self.events.is_empty() { self.line().expect("an event") } else { self.events.remove(0) }
    }

    /// Closes the stream; the exit status.
    pub fn close(mut self) -> Option<i32> {
        self.input = None;
        self.child.wait().unwrap().code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
