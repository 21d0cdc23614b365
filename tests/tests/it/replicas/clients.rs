//! Clients of other makes: the worked examples in Rust and Python, `grpcurl` and `curl`. What needs a program that is not
//! installed is skipped by name.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use e2e::{ExitResult, Program, TempDir};
use serde_json::{Value, json};

use super::FOR_EVER;
use super::environment::{Server, wait_until};
use super::fleet_api::two_clusters;

const RUST_EXAMPLE: &str = env!("CARGO_BIN_EXE_hold_capacity");

/// The folder of the published files.
const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto");

const TIMEOUT: Duration = Duration::from_secs(180);

/// Calls a method by its name, its request as JSON, and prints the answer as JSON.
const PYTHON_CALL: &str = r#"
import importlib, json, sys
import grpc
from google.protobuf import json_format

address, service, method, request = sys.argv[1:]
module = "fleetwright.v1.fleet_service_pb2" if service == "FleetService" else "fleetwright.v1.capacity_service_pb2"
messages, stubs = importlib.import_module(module), importlib.import_module(module + "_grpc")
descriptor = messages.DESCRIPTOR.services_by_name[service].methods_by_name[method]
asked = getattr(messages, descriptor.input_type.name)()
json_format.Parse(request, asked)
with grpc.insecure_channel(address) as channel:
    answer = getattr(getattr(stubs, service + "Stub")(channel), method)(asked)
print(json_format.MessageToJson(answer, always_print_fields_with_no_presence=True))
"#;

/// A program with the search path of this one.
fn program(path: &str, arguments: &[&str]) -> Program {
    Program::new(path, arguments).env("PATH", &std::env::var("PATH").unwrap_or_default())
}

/// Whether `path` runs with these arguments; if not, reports `test` as skipped.
fn is_here(test: &str, path: &str, arguments: &[&str]) -> bool {
    let is_here = std::process::Command::new(path).args(arguments).output().is_ok_and(|ended| ended.status.success());
    if !is_here {
        // Written directly to standard error: the test harness hides the output of passing tests.
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {path} {} does not run here", arguments.join(" "));
    }
    is_here
}

/// Python's stubs of the published files; if Python or its packages are missing, reports `test` as skipped.
fn python_stubs(test: &str) -> Option<TempDir> {
    if !is_here(test, "python3", &["-c", "import grpc, grpc_tools.protoc"]) {
        return None;
    }
    let stubs = TempDir::new();
    let folder = stubs.path().display();
    let (python, grpc) = (format!("--python_out={folder}"), format!("--grpc_python_out={folder}"));
    let mut arguments = vec!["-m", "grpc_tools.protoc", "--proto_path=.", &python, &grpc];
    let files = ["fleetwright/v1", "google/api"].iter().flat_map(|path| {
        let files = std::fs::read_dir(Path::new(PROTO).join(path)).expect("a folder of the published files");
        files.map(move |file| format!("{path}/{}", file.expect("a file").file_name().to_string_lossy()))
    });
    let files: Vec<String> = files.collect();
    arguments.extend(files.iter().map(String::as_str));
    let script = format!("cd '{PROTO}' && exec python3 \"$@\"");
    let generated = program("/bin/sh", &[&["-c", &script, "sh"][..], &arguments].concat()).run(TIMEOUT);
    assert_eq!(generated.status, 0, "{}", generated.stderr);
    Some(stubs)
}

fn python(stubs: &TempDir, arguments: &[&str]) -> ExitResult {
    program("python3", arguments).env("PYTHONPATH", &stubs.path().display().to_string()).run(TIMEOUT)
}

/// What a client of a hold prints, without the cluster, the number of the hold and the prices.
fn steps(ended: &ExitResult) -> Vec<String> {
    assert_eq!(ended.status, 0, "{}{}", ended.stdout, ended.stderr);
    let id = ended.stdout.split("/holds/").nth(1).and_then(|rest| rest.split(':').next()).expect("a hold has a name");
    let lines = ended.stdout.lines().map(|line| {
        let line = line.replace(id, "ID");
        let line = line.split(" price=").next().unwrap_or_default().to_owned();
        line.replace("clusters/shop", "CLUSTER").replace("clusters/bank", "CLUSTER")
    });
    lines.collect()
}

const EXPECTED_STEPS: [&str; 6] = [
    "CLUSTER: fits=true",
    "CLUSTER: fits=true",
    "CLUSTER/holds/ID: HOLD_STATE_ACTIVE",
    "nodeSelector fleetwright.dev/hold=ID",
    "toleration key=fleetwright.dev/hold operator=Equal value=ID effect=NoSchedule",
    "HOLD_STATE_RELEASED",
];

#[test]
fn the_example_in_rust_quotes_holds_and_releases() {
    let Some((environment, agents)) = two_clusters("the_example_in_rust_quotes_holds_and_releases", FOR_EVER) else {
        return;
    };
    let address = format!("http://{}", environment.first.grpc);
    let ended = program(RUST_EXAMPLE, &[&address, "3", "1", "1Gi"]).run(TIMEOUT);
    assert_eq!(steps(&ended), EXPECTED_STEPS);
    drop(agents);
}

#[test]
fn the_example_in_python_quotes_holds_and_releases() {
    let test = "the_example_in_python_quotes_holds_and_releases";
    let Some(stubs) = python_stubs(test) else { return };
    let Some((environment, agents)) = two_clusters(test, FOR_EVER) else { return };
    let address = environment.second.grpc.to_string();
    let example = format!("{PROTO}/examples/hold_capacity.py");
    assert_eq!(steps(&python(&stubs, &[&example, &address, "3", "1", "1Gi"])), EXPECTED_STEPS);
    drop(agents);
}

/// A request in the words of each client.
struct Query {
    service: &'static str,
    method: &'static str,
    request: Value,
    path: String,
}

/// When an answer, or a cluster in it, was read: it differs between two answers.
const MOMENTS: [&str; 4] = ["observeTime", "expireTime", "resumeToken", "reportTime"];

/// Without moments, and without the nulls by which one client prints absent messages.
fn normal(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let said = fields.into_iter().filter(|(key, field)| !field.is_null() && !MOMENTS.contains(&key.as_str()));
            Value::Object(said.map(|(key, field)| (key, normal(field))).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(normal).collect()),
        other => other,
    }
}

fn read(ended: &ExitResult) -> Value {
    assert_eq!(ended.status, 0, "{}{}", ended.stdout, ended.stderr);
    normal(serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stdout)))
}

impl Query {
    fn by_grpcurl(&self, server: &Server) -> Value {
        let method = format!("fleetwright.v1.{}/{}", self.service, self.method);
        let (request, address) = (self.request.to_string(), server.grpc.to_string());
        read(&program("grpcurl", &["-plaintext", "-emit-defaults", "-d", &request, &address, &method]).run(TIMEOUT))
    }

    fn by_python(&self, server: &Server, stubs: &TempDir) -> Value {
        let (request, address) = (self.request.to_string(), server.grpc.to_string());
        read(&python(stubs, &["-c", PYTHON_CALL, &address, self.service, self.method, &request]))
    }

    fn by_curl(&self, server: &Server) -> Value {
        let url = format!("http://{}{}", server.http, self.path);
        let body = self.request.to_string();
        let mut arguments = vec!["--silent", "--fail-with-body"];
        if self.service == "CapacityService" {
            arguments.extend(["--json", &body]);
        }
        read(&program("curl", &[&arguments[..], &[&url]].concat()).run(TIMEOUT))
    }
}

#[test]
fn grpcurl_python_and_curl_get_the_same_answers() {
    let test = "grpcurl_python_and_curl_get_the_same_answers";
    if !is_here(test, "grpcurl", &["-version"]) || !is_here(test, "curl", &["--version"]) {
        return;
    }
    let Some(stubs) = python_stubs(test) else { return };
    let Some((environment, agents)) = two_clusters(test, FOR_EVER) else { return };
    let impossible = json!({
        "name": "rack", "namespace": "default", "count": 3,
        "template": {"spec": {
            "nodeSelector": {"example.com/rack": "r1"},
            "containers": [{"name": "main", "resources": {"requests": {"cpu": 1}}}],
        }},
    });
    let fleet =
        |method, request, path: &str| Query { service: "FleetService", method, request, path: format!("/v1/{path}") };
    let all = json!({ "parent": "clusters/-", "pageSize": 1000 });
    let queries = [
        fleet("ListClusters", json!({ "orderBy": "name desc" }), "clusters?orderBy=name%20desc"),
        fleet("ListPools", all.clone(), "clusters/-/pools?pageSize=1000"),
        fleet("ListNodes", all.clone(), "clusters/-/nodes?pageSize=1000"),
        fleet("ListDecisions", all, "clusters/-/decisions?pageSize=1000"),
        fleet(
            "ComputeCost",
            json!({ "parent": "clusters/-", "groupBy": "COST_GROUP_POOL" }),
            "clusters/-:computeCost?groupBy=COST_GROUP_POOL",
        ),
        Query {
            service: "CapacityService",
            method: "QuoteClusters",
            request: json!({ "podSets": [impossible] }),
            path: "/v1/clusters:quote".to_owned(),
        },
    ];
    for query in &queries {
        let (first, second) = (&environment.first, &environment.second);
        // The clusters change all the time.
        let answer = wait_until(
            || {
                let (grpcurl, curl) = (query.by_grpcurl(first), query.by_curl(second));
                format!("one answer to {}: by grpcurl\n{grpcurl:#}\nby curl\n{curl:#}", query.method)
            },
            || {
                let answers = [query.by_grpcurl(first), query.by_python(second, &stubs), query.by_curl(second)];
                answers.iter().all(|answer| *answer == answers[0]).then(|| answers[0].clone())
            },
        );
        assert!(answer.as_object().is_some_and(|fields| !fields.is_empty()), "{}: {answer}", query.method);
    }
    drop(agents);
}
