//! Errors of calls as clients of other makes read them: grpcio in Python and grpc-go. tonic and JSON forgive what these do not,
//! such as an error whose headers do not end the stream. What cannot be installed here is skipped by name.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::{Program, RunningProcess, TempDir, authority};

use crate::{SIMULATOR, TIMEOUT};

/// For a few packages; a machine whose network swallows packets must not hold up the other tests.
const INSTALL_LIMIT: Duration = Duration::from_secs(120);

const PYTHON_PACKAGES: [&str; 3] = ["grpcio==1.85.3", "googleapis-common-protos==1.76.0", "grpcio-tools==1.85.1"];

const GENERATOR_OF_GO: &str = "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.10";

/// The folder of the published files.
const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto");

/// A client with the scope `read`; its token is `read`.
const AUTH: &str = "[[clients]]\nname = 'viewer'\nscope = 'read'\n\
    token-sha256 = '3316348dbadfb7b11c7c2ea235949419e23f9fa898ad2c198f999617912a9925'\n";

/// Method, token and name of each call, and the code, the message, the reason and the fields of its error.
const CALLS: [(&str, &str); 6] = [
    ("FleetService/GetCluster read clusters/nope", "NOTFOUND|there is no cluster \"nope\"|CLUSTER_NOT_FOUND|"),
    (
        "FleetService/GetCluster read nope",
        "INVALIDARGUMENT|name is \"nope\"; it has the form clusters/*|INVALID_FIELD|name",
    ),
    (
        "FleetService/ListNodes read clusters",
        "INVALIDARGUMENT|parent is \"clusters\"; it has the form clusters/*|INVALID_FIELD|parent",
    ),
    (
        "FleetService/GetHold read clusters/nope/holds/h-1",
        "NOTFOUND|there is no hold \"clusters/nope/holds/h-1\"; holds are found for a week after their end|NOT_FOUND|",
    ),
    ("FleetService/ConfirmRemovals read clusters/nope", "PERMISSIONDENIED|*|PERMISSION_DENIED|"),
    ("FleetService/GetCluster wrong clusters/nope", "UNAUTHENTICATED|*|UNAUTHENTICATED|"),
];

/// Why something cannot be installed here: the last line of the program that should have.
fn run(program: &str, arguments: &[&str], environment: &[(&str, &str)], folder: &Path) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().copied()).current_dir(folder);
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("{program} cannot be started: {error}"))?;
    let begun = Instant::now();
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if begun.elapsed() > INSTALL_LIMIT {
            child.kill().map_err(|error| error.to_string())?;
            return Err(format!("{program} has not ended after {INSTALL_LIMIT:?}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{program} {}: {last}", arguments.join(" "))),
    }
}

/// Reports `test` as skipped. Written directly to standard error: the test harness hides the output of passing tests.
fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

/// A virtual environment with gRPC, which is complete when its mark exists.
fn python() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grpcio-1.85.3");
    let (mark, here) = (folder.join("complete"), Path::new("."));
    if !mark.exists() {
        run("python3", &["-m", "venv", "--clear", &folder.display().to_string()], &[], here)?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"];
        let arguments = [&pip[..], &PYTHON_PACKAGES].concat();
        run(&folder.join("bin/python").display().to_string(), &arguments, &[], here)?;
        std::fs::write(&mark, "").map_err(|error| format!("{}: {error}", mark.display()))?;
    }
    Ok(folder.join("bin/python"))
}

/// The client in Go, built once.
fn go_client() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grpc-go-1.83.2");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let files = [
        ("go.mod", include_str!("../../fixtures/clients/go.mod.txt")),
        ("main.go", include_str!("../../fixtures/clients/errors.go")),
    ];
    for (name, text) in files {
        std::fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))?;
    }
    run("go", &["build", "-o", "errors", "."], &[("GOFLAGS", "-mod=mod")], &folder)?;
    Ok(folder.join("errors"))
}

/// A server that authenticates, and the address of its gRPC listener.
fn guarded(folder: &TempDir) -> (RunningProcess, String) {
    let file = folder.write_file("auth.toml", AUTH);
    let listeners = ["--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
    let server = Program::new(SIMULATOR, &[&["serve", "--dev", "--auth-file", &file], &listeners[..]].concat()).start();
    let [grpc, _http] = server.wait_for_urls(TIMEOUT);
    let address = authority(&grpc).to_owned();
    (server, address)
}

fn assert_read(printed: &str) {
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), CALLS.len(), "{printed}");
    for (line, (call, expected)) in lines.into_iter().zip(CALLS) {
        let [found, wanted] = [line, expected].map(|text| text.split('|').collect::<Vec<_>>());
        assert_eq!((found.len(), wanted.len()), (4, 4), "{call}: {line}");
        for (found, wanted) in found.into_iter().zip(wanted) {
            assert!(wanted == found || (wanted == "*" && !found.is_empty()), "{call}: {line}, not {expected}");
        }
    }
}

fn calls<'c>() -> impl Iterator<Item = &'c str> {
    CALLS.iter().map(|(call, _)| *call)
}

#[test]
fn grpcio_reads_errors_of_a_server_that_authenticates() {
    let python = match python() {
        Ok(python) => python.display().to_string(),
        Err(why) => return skip("grpcio_reads_errors_of_a_server_that_authenticates", &why),
    };
    let folder = TempDir::new();
    let (server, address) = guarded(&folder);
    let script = folder.write_file("errors.py", include_str!("../../fixtures/clients/errors.py"));
    let arguments: Vec<&str> = [&*script, &*address].into_iter().chain(calls()).collect();
    assert_read(&run(&python, &arguments, &[], folder.path()).expect("the client runs"));
    assert_eq!(server.stop(TIMEOUT), 0);
}

#[test]
fn grpc_go_reads_errors_of_a_server_that_authenticates() {
    let client = match go_client() {
        Ok(client) => client.display().to_string(),
        Err(why) => return skip("grpc_go_reads_errors_of_a_server_that_authenticates", &why),
    };
    let folder = TempDir::new();
    let (server, address) = guarded(&folder);
    let arguments: Vec<&str> = [&*address].into_iter().chain(calls()).collect();
    assert_read(&run(&client, &arguments, &[], folder.path()).expect("the client runs"));
    assert_eq!(server.stop(TIMEOUT), 0);
}

#[test]
fn protoc_makes_go_of_the_published_files() {
    let test = "protoc_makes_go_of_the_published_files";
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).join("protoc-gen-go-1.36.10");
    let tools = tools.display().to_string();
    let installed = run("go", &["install", GENERATOR_OF_GO], &[("GOBIN", &tools)], Path::new("."));
    let python = match installed.and_then(|_| python()) {
        Ok(python) => python.display().to_string(),
        Err(why) => return skip(test, &why),
    };
    let folder = TempDir::new();
    let (out, plugin) = (format!("--go_out={}", folder.path().display()), format!("{tools}/protoc-gen-go"));
    let plugin = format!("--plugin=protoc-gen-go={plugin}");
    let files = std::fs::read_dir(Path::new(PROTO).join("fleetwright/v1")).expect("a folder of the published files");
    let files: Vec<String> =
        files.map(|file| format!("fleetwright/v1/{}", file.expect("a file").file_name().to_string_lossy())).collect();
    let mut arguments = vec!["-m", "grpc_tools.protoc", "--proto_path=.", &plugin, &out];
    arguments.extend(files.iter().map(String::as_str));
    run(&python, &arguments, &[], Path::new(PROTO)).expect("every file has a package of Go");
    let made = std::fs::read_dir(folder.path().join("fleetwright.dev/api/fleetwright/v1")).expect("the package");
    assert_eq!(made.count(), files.len());
}
