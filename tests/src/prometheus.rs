//! A real Prometheus (Debian's package), which scrapes a server and evaluates the alerts of `deploy/prometheus`.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::monitoring::read;
use crate::{Program, RunningProcess, TempDir};

/// Times and thresholds of the alerts, and what they are shortened to: Prometheus evaluates once a second. How long each
/// alert waits is tried by `promtool test rules`.
const SHORTENED: [(&str, &str); 12] = [
    ("for: 1h", "for: 1s"),
    ("for: 30m", "for: 1s"),
    ("for: 15m", "for: 1s"),
    ("for: 10m", "for: 1s"),
    ("for: 5m", "for: 1s"),
    ("for: 2m", "for: 1s"),
    ("for: 1m", "for: 1s"),
    ("offset 1h", "offset 5s"),
    ("[15m]", "[5s]"),
    ("[10m]", "[5s]"),
    ("[1h]", "[5s]"),
    ("> 86400", "> 5"),
];

const QUERY_TIMEOUT: Duration = Duration::from_secs(30);

/// The path of a program in `PATH`; if it is not installed, reports `test` as skipped.
#[must_use]
pub fn installed(test: &str, program: &str) -> Option<String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file());
    if found.is_none() {
        // Written directly to standard error: the test harness hides the output of passing tests.
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: no {program} is installed");
    }
    found.map(|path| path.display().to_string())
}

/// A Prometheus that scrapes a server every second.
#[derive(Debug)]
pub struct Prometheus {
    address: String,
    _process: RunningProcess,
    _folder: TempDir,
}

impl Prometheus {
    /// A Prometheus that evaluates the alerts of `deploy/prometheus` for the server at `target`, their times shortened;
    /// `None`, and `test` reported as skipped, if it is not installed.
    ///
    /// # Panics
    /// When the alerts cannot be read, or no alert has one of the times that are shortened.
    #[must_use]
    pub fn with_alerts(test: &str, target: &str) -> Option<Self> {
        let mut rules = read("prometheus/alerts.yaml");
        for (time, shortened) in SHORTENED {
            assert!(rules.contains(time), "no alert has {time}");
            rules = rules.replace(time, shortened);
        }
        Self::start(test, target, "", Some(rules))
    }

    /// A Prometheus that scrapes `target`, with further settings of the job as JSON members, and evaluates `rules`; `None`,
    /// and `test` reported as skipped, if it is not installed.
    ///
    /// # Panics
    /// When no port is free.
    #[must_use]
    pub fn start(test: &str, target: &str, job: &str, rules: Option<String>) -> Option<Self> {
        let program = installed(test, "prometheus")?;
        let folder = TempDir::new();
        let rules: Vec<String> = rules.map(|rules| folder.write_file("alerts.yaml", rules)).into_iter().collect();
        let config = format!(
            "{{\"global\": {{\"scrape_interval\": \"1s\", \"evaluation_interval\": \"1s\"}}, \"rule_files\": {rules:?}, \
             \"scrape_configs\": [{{\"job_name\": \"fleetwright\", {job}\"static_configs\": [{{\"targets\": [\"{target}\"]}}]}}]}}"
        );
        let config = format!("--config.file={}", folder.write_file("prometheus.yml", config));
        let data = format!("--storage.tsdb.path={}", folder.path().join("data").display());
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
        let listen = format!("--web.listen-address={free}");
        let process = Program::new(&program, &[&config, &data, &listen]).start();
        Some(Self { address: free.to_string(), _process: process, _folder: folder })
    }

    #[must_use]
    pub fn firing(&self) -> BTreeSet<String> {
        let series = self.query("ALERTS{alertstate=\"firing\"}");
        series.iter().filter_map(|one| one["metric"]["alertname"].as_str().map(str::to_owned)).collect()
    }

    /// Whether a query has a result.
    #[must_use]
    pub fn has(&self, query: &str) -> bool {
        !self.query(query).is_empty()
    }

    /// The series of an instant query; none while Prometheus does not answer.
    fn query(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = self.get(&format!("/api/v1/query?query={encoded}")).unwrap_or_default();
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        let answer: Value = serde_json::from_str(body).unwrap_or_default();
        answer["data"]["result"].as_array().cloned().unwrap_or_default()
    }

    fn get(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(QUERY_TIMEOUT))?;
        // Answers in HTTP/1.0 are not chunked.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}
