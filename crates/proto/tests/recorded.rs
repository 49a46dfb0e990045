//! The exchanges in `tests/recorded/protocol`, which Python's tests read too: each is read into the types of requests and
//! replies, and written back as it was.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv6Addr;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use virtoll_proto::reply::counters::Counters;
use virtoll_proto::reply::facts::Facts;
use virtoll_proto::reply::{self, traffic};
use virtoll_proto::{Operation, Request};

/// One request and what the agent answered with `ok`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    operation: String,
    request: Map<String, Value>,
    reply: Value,
}

fn exchanges() -> Vec<(String, Exchange)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/protocol");
    let files =
        fs::read_dir(&folder).unwrap_or_else(|cause| panic!("{}: {cause}", folder.display()));
    let read = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
    };
    files
        .map(|file| file.unwrap().path())
        .map(|path| (path.file_name().unwrap().display().to_string(), read(&path)))
        .collect()
}

fn parse(request: &Map<String, Value>) -> Operation {
    let mut line = request.clone();
    line.insert("id".to_owned(), json!(1));
    let request = Request::parse(Value::from(line).to_string().as_bytes());
    request.unwrap_or_else(|refusal| panic!("{refusal:?}")).operation
}

/// What is recorded is written back. What is written besides are fields that a request may leave out.
fn assert_holds(written: &Value, recorded: &Value, at: &str) {
    match (written, recorded) {
        (Value::Object(written), Value::Object(recorded)) => {
            for (key, value) in recorded {
                let found = written.get(key).unwrap_or_else(|| panic!("{at}.{key} is lost"));
                assert_holds(found, value, &format!("{at}.{key}"));
            }
        }
        (Value::Array(written), Value::Array(recorded)) => {
            assert_eq!(written.len(), recorded.len(), "{at}");
            for (number, (one, other)) in written.iter().zip(recorded).enumerate() {
                assert_holds(one, other, &format!("{at}[{number}]"));
            }
        }
        // 1 and 1.0 are one number.
        (Value::Number(one), Value::Number(other)) => {
            assert_eq!(one.as_f64(), other.as_f64(), "{at}");
        }
        // An IPv6 address has several texts.
        (Value::String(one), Value::String(other)) if one != other => {
            let [one, other] = [one, other].map(|text| text.parse::<Ipv6Addr>());
            assert!(one.is_ok() && one == other, "{at}: {written} for {recorded}");
        }
        _ => assert_eq!(written, recorded, "{at}"),
    }
}

fn written<T: DeserializeOwned + Serialize>(reply: &Value) -> Value {
    let typed: Result<T, _> = serde_json::from_value(reply.clone());
    serde_json::to_value(typed.unwrap_or_else(|cause| panic!("{cause}: {reply}"))).unwrap()
}

/// The reply, read into the type of its operation and written again.
fn written_reply(operation: &Operation, reply: &Value) -> Value {
    let write = match operation {
        Operation::Hello(_) => written::<reply::Hello>,
        Operation::Clocks {} => written::<reply::Clocks>,
        Operation::Facts {} => written::<Facts>,
        Operation::Network(_) => written::<reply::Network>,
        Operation::Run(_) => written::<reply::Run>,
        Operation::Exec(_) => written::<reply::Exec>,
        Operation::Spawn(_) => written::<reply::Spawn>,
        Operation::Progress(_) => written::<reply::Progress>,
        Operation::End(_) => written::<reply::End>,
        Operation::Marks(_) => written::<reply::Marks>,
        Operation::PathDelay(_) => written::<reply::PathDelay>,
        Operation::Traffic(_) | Operation::TrafficStop {} => written::<traffic::Traffic>,
        Operation::SinkOpen(_) => written::<reply::SinkOpen>,
        Operation::SinkFinish(_) => written::<traffic::SinkFinish>,
        Operation::Send(_) => written::<traffic::Send>,
        Operation::Counters(_) => written::<Counters>,
        Operation::Data(_) => written::<reply::Data>,
        Operation::HttpLoad(_) => written::<traffic::HttpLoad>,
        Operation::Serve(_) => written::<reply::Serve>,
        Operation::ServeFinish(_) => written::<reply::ServeFinish>,
        Operation::Terminal(_)
        | Operation::TerminalInput(_)
        | Operation::TerminalResize(_)
        | Operation::TerminalClose {}
        | Operation::Shutdown {}
        | Operation::TimekeeperStart(_)
        | Operation::TrafficStart(_)
        | Operation::SinkClose {}
        | Operation::ServeClose {} => written::<reply::Empty>,
    };
    write(reply)
}

/// The names of an enumeration, as the refusal of an unknown one lists them.
fn names(request: &Value) -> BTreeSet<String> {
    let refusal = Request::parse(request.to_string().as_bytes()).unwrap_err().error.message;
    let (_, list) = refusal.split_once("expected one of ").unwrap_or_else(|| panic!("{refusal}"));
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Where in a value there are objects, as JSON pointers.
fn objects(value: &Value, at: &str) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            let below =
                fields.iter().flat_map(|(name, value)| objects(value, &format!("{at}/{name}")));
            std::iter::once(at.to_owned()).chain(below).collect()
        }
        Value::Array(parts) => {
            let numbered = parts.iter().enumerate();
            numbered.flat_map(|(number, part)| objects(part, &format!("{at}/{number}"))).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn a_recorded_request_is_read_and_written_whole() {
    for (file, exchange) in exchanges() {
        assert_eq!(exchange.request["op"], exchange.operation.as_str(), "{file}");
        let typed = parse(&exchange.request);
        let written = serde_json::to_value(&typed).unwrap();
        assert_holds(&written, &exchange.request.into(), &file);
        assert_eq!(parse(written.as_object().unwrap()), typed, "{file}");
    }
}

#[test]
fn an_unknown_field_of_a_request_is_refused_at_any_depth() {
    for (file, exchange) in exchanges() {
        let recorded = Value::from(exchange.request);
        // The names of variables are the caller's choice.
        for at in objects(&recorded, "").iter().filter(|at| !at.ends_with("/env")) {
            let mut line = recorded.clone();
            line.pointer_mut(at).unwrap()["no_such_field"] = json!(1);
            line["id"] = json!(1);
            let refusal = Request::parse(line.to_string().as_bytes());
            let refusal = refusal.expect_err(&format!("{file}: {at}/no_such_field is accepted"));
            assert!(refusal.error.message.contains("no_such_field"), "{file}: {refusal:?}");
        }
    }
}

#[test]
fn a_recorded_reply_is_written_back_as_it_was() {
    for (file, exchange) in exchanges() {
        let written = written_reply(&parse(&exchange.request), &exchange.reply);
        assert_eq!(written, exchange.reply, "{file}");
    }
}

#[test]
fn every_operation_and_every_job_is_recorded() {
    let all = exchanges();
    let recorded = all.iter().map(|(_, exchange)| exchange.operation.clone()).collect();
    assert_eq!(names(&json!({"id": 1, "op": "no such"})), recorded);
    let job = |exchange: &Exchange| exchange.request.get("job")?.as_str().map(str::to_owned);
    let jobs = all.iter().filter_map(|(_, exchange)| job(exchange)).collect();
    assert_eq!(names(&json!({"id": 1, "op": "run", "job": "no such"})), jobs);
}
