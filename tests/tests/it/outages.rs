//! What the server depends on fails: it is the first problem within a minute, on each surface, and gone afterwards.

use std::time::{Duration, Instant};

use e2e::{Postgres, Program, RunningProcess, authority};
use serde_json::Value;

use crate::night::start_cloud;
use crate::serve::{get, json};
use crate::{SIMULATOR, TIMEOUT, fleetwright, start_agent, wait_for};

/// Time within which an outage is the first problem everywhere.
const NOTICED: Duration = Duration::from_secs(60);

struct Server {
    process: RunningProcess,
    grpc: String,
    http: String,
    log: Vec<String>,
}

impl Server {
    fn start(database: Option<&str>, cloud: &str) -> Self {
        let listen =
            ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--cloud-address", cloud];
        let program = Program::new(SIMULATOR, &listen).env("FLEETWRIGHT_LEASE_DURATION", "6s");
        let program = match database {
            Some(url) => program.env("DATABASE_URL", url).env("FLEETWRIGHT_STORE_MEMORY", "false"),
            None => program,
        };
        let process = program.start();
        let [grpc, dashboard] = process.wait_for_urls(TIMEOUT);
        Self { process, grpc, http: authority(&dashboard).to_owned(), log: Vec::new() }
    }

    /// Log lines with all of `words`.
    fn lines(&mut self, words: &[&str]) -> Vec<String> {
        self.log.extend(self.process.take_stderr_lines());
        self.log.iter().filter(|line| words.iter().all(|word| line.contains(word))).cloned().collect()
    }

    fn has_metric(&self, line: &str) -> bool {
        get(&self.http, "/metrics").lines().any(|found| found == line)
    }

    fn first_problem(&self) -> Value {
        json(&self.http, "/v1/problems")["problems"][0].clone()
    }

    /// What is wrong with the surfaces on which an outage with this code and words is to be seen; empty if nothing is.
    fn missing(&self, code: &str, words: &str, metric: &str, readiness: &str) -> String {
        let problem = self.first_problem();
        if problem["code"] != code || problem["severity"] != "SEVERITY_CRITICAL" {
            return format!("the first problem is {problem:#}");
        }
        for field in ["startTime", "consequence", "reason"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field} of {problem:#}");
        }
        let notices = json(&self.http, "/v1/serverInfo")["notices"].to_string();
        let listed = fleetwright(&["fleet", "problems", "--server", &self.grpc]).stdout;
        let clusters = fleetwright(&["fleet", "clusters", "--server", &self.grpc]).stderr;
        let top = fleetwright(&["top", "--once", "--server", &self.grpc]).stdout;
        let first = listed.lines().nth(1).unwrap_or_default();
        for (surface, text) in [("notices", &*notices), ("problems", first), ("clusters", &clusters), ("top", &top)] {
            if !text.contains(words) {
                return format!("{surface} lack {words:?}:\n{text}");
            }
        }
        if !self.has_metric(metric) {
            return format!("no metric {metric}");
        }
        let ready = get(&self.http, "/readyz");
        if ready.starts_with(&format!("HTTP/1.1 {readiness}")) { String::new() } else { format!("readiness: {ready}") }
    }

    fn wait_for_outage(&self, code: &str, words: &str, metric: &str, readiness: &str) {
        let end = Instant::now() + NOTICED;
        loop {
            let missing = self.missing(code, words, metric, readiness);
            if missing.is_empty() {
                return;
            }
            assert!(Instant::now() < end, "{missing}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until the outage is no problem any more.
    fn wait_for_end(&self, code: &str, metric: &str) {
        wait_for(&format!("the end of {code}"), || {
            let problems = json(&self.http, "/v1/problems")["problems"].clone();
            let is_there = |problem: &Value| problem["code"] == code;
            self.has_metric(metric) && !problems.as_array().is_some_and(|all| all.iter().any(is_there))
        });
        assert!(get(&self.http, "/readyz").starts_with("HTTP/1.1 200"));
    }
}

#[test]
fn a_cloud_that_is_killed_is_the_first_problem_and_one_line_of_the_log() {
    let (cloud, url) = start_cloud("127.0.0.1:0", &[]);
    let mut server = Server::start(None, &url);
    let agent = start_agent(&server.grpc, "shop");
    let up = "fleetwright_cloud_up{account=\"default\",region=\"us-east-1\"} 1";
    wait_for("a cloud that answers", || server.has_metric(up));
    assert_ne!(server.first_problem()["code"], "CloudUnavailable");

    drop(cloud);
    let down = up.replace(" 1", " 0");
    // It goes on to serve: nothing else would answer better.
    server.wait_for_outage("CloudUnavailable", "has not answered since", &down, "200");
    let consequence = server.first_problem()["consequence"].as_str().unwrap_or_default().to_owned();
    assert!(
        consequence.starts_with("nothing can be launched or removed; last listing of the instances: "),
        "{consequence}"
    );
    let address = url.trim_start_matches("http://").to_owned();
    let (cloud, _) = start_cloud(&address, &[]);
    server.wait_for_end("CloudUnavailable", up);
    let lines = server.lines(&["dependency=cloud, region us-east-1"]);
    let said = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
    assert_eq!(
        (said("dependency unavailable"), said("dependency available again"), lines.len()),
        (1, 1, 2),
        "{lines:#?}"
    );
    drop((agent, cloud));
}

/// A database that answers and takes no writes between `begin` and `end`, for a reason with these words.
fn refused_writes(test: &str, begin: impl Fn(&Postgres), end: impl Fn(&Postgres), why: &str) {
    let Some(postgres) = Postgres::start(test) else { return };
    let (cloud, url) = start_cloud("127.0.0.1:0", &[]);
    let server = Server::start(Some(&postgres.url()), &url);
    let agent = start_agent(&server.grpc, "shop");
    wait_for("the cluster", || json(&server.http, "/v1/clusters/shop")["connected"] == true);
    begin(&postgres);
    server.wait_for_outage(
        "StoreUnavailable",
        "has not answered, or taken writes, since",
        "fleetwright_store_up 0",
        "503",
    );
    let reason = server.first_problem()["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains(why), "{reason}");
    end(&postgres);
    server.wait_for_end("StoreUnavailable", "fleetwright_store_up 1");
    drop((agent, cloud));
}

#[test]
fn a_database_that_refuses_writes_is_the_first_problem_and_the_server_is_not_ready() {
    let test = "a_database_that_refuses_writes_is_the_first_problem_and_the_server_is_not_ready";
    let set = |postgres: &Postgres, value: &str| {
        let _done = postgres.query(&format!("ALTER SYSTEM SET default_transaction_read_only = {value}"));
        assert_eq!(postgres.query("SELECT pg_reload_conf()"), "t");
    };
    refused_writes(test, |postgres| set(postgres, "on"), |postgres| set(postgres, "off"), "read-only transaction");
}

/// Every statement that would write fails as PostgreSQL has it fail without space on the device.
const FILL: &str = "CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'could not extend file: No \
                    space left on device' USING ERRCODE = 'disk_full'; END $$; DO $$ DECLARE one text; BEGIN FOR one IN \
                    SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', \
                    'information_schema') LOOP EXECUTE 'CREATE TRIGGER disk_full BEFORE INSERT OR UPDATE ON ' || one || \
                    ' EXECUTE FUNCTION disk_full()'; END LOOP; END $$";

#[test]
fn a_database_that_is_full_is_the_first_problem_and_the_server_is_not_ready() {
    let test = "a_database_that_is_full_is_the_first_problem_and_the_server_is_not_ready";
    let run = |postgres: &Postgres, statements: &str| drop(postgres.query(statements));
    let clear = "DROP FUNCTION disk_full CASCADE";
    refused_writes(test, |postgres| run(postgres, FILL), |postgres| run(postgres, clear), "No space left on device");
}

#[test]
fn a_database_that_is_suspended_is_the_first_problem_and_readiness_and_problems_answer_soon() {
    let test = "a_database_that_is_suspended_is_the_first_problem_and_readiness_and_problems_answer_soon";
    let Some(postgres) = Postgres::start(test) else { return };
    let (cloud, url) = start_cloud("127.0.0.1:0", &[]);
    let server = Server::start(Some(&postgres.url()), &url);
    let agent = start_agent(&server.grpc, "shop");
    wait_for("the cluster", || json(&server.http, "/v1/clusters/shop")["connected"] == true);
    postgres.suspend();
    let answers_within = |path: &str, limit: Duration| {
        let asked = Instant::now();
        let _answer = get(&server.http, path);
        let took = asked.elapsed();
        assert!(took < limit, "{path} took {took:?}");
    };
    for _ in 0..4 {
        answers_within("/readyz", Duration::from_secs(3));
        answers_within("/v1/problems", Duration::from_secs(10));
    }
    server.wait_for_outage(
        "StoreUnavailable",
        "has not answered, or taken writes, since",
        "fleetwright_store_up 0",
        "503",
    );
    postgres.resume();
    server.wait_for_end("StoreUnavailable", "fleetwright_store_up 1");
    drop((agent, cloud));
}
