//! A night in the log: a shortage of capacity, a freeze, a quarantine, a lost database and a lost
//! agent. The log alone says what happened and what to do.
//!
//! `tests/fixtures/night.log` is such a log. `FLEETWRIGHT_WRITE_NIGHT=1` has it written.

use std::cell::RefCell;
use std::path::Path;
use std::time::{Duration, Instant};

use e2e::{Postgres, Program, RunningProcess, authority, urls};

use crate::relists::fake_agent::{FakeAgent, Kind};
use crate::serve::get;
use crate::{PROGRAM, SIMULATOR, TIMEOUT, start_agent};

/// The log in the repository, relative to the tests.
const EXAMPLE: &str = "fixtures/night.log";
/// Variable that has the example written.
const WRITE: &str = "FLEETWRIGHT_WRITE_NIGHT";

/// What the log says, in this order, with other lines between. Each is the text of an event with the
/// fields that tell what to do.
const STORY: [&[&str]; 17] = [
    &["agent connected", "cluster=shop"],
    &["decision recorded", "cluster=shop", "decision=", "summary=\"launch "],
    &["WARN", "launch failed", "cluster=shop", "error=insufficient capacity"],
    &["instance launched", "cluster=shop", "instance_type="],
    &["node ready", "cluster=shop"],
    &[
        "WARN",
        "freeze in effect",
        "scope=cluster/shop",
        "by=kim@",
        "(unverified, 127.0.0.1)",
        "fleetwright thaw --id 1",
    ],
    &["freeze ended", "freeze=1"],
    &["agent connected", "cluster=vault"],
    &["snapshot accepted", "cluster=vault", "nodes=6"],
    &["WARN", "cluster quarantined", "cluster=vault", "pods", "fleetwright quarantine release vault"],
    &["quarantine released by operator", "cluster=vault"],
    &["quarantine ended", "cluster=vault"],
    &["WARN", "agent disconnected", "cluster=vault"],
    &["agent connected", "cluster=vault"],
    &["snapshot accepted", "cluster=vault", "nodes=6 pods=36"],
    &["ERROR", "dependency unavailable", "dependency=store", "reason="],
    &["dependency available again", "dependency=store", "unavailable_s="],
];

/// A server and every line of its log so far.
struct LoggedServer {
    process: RunningProcess,
    log: RefCell<Vec<String>>,
}

impl LoggedServer {
    fn start(database: &str, cloud: &str) -> Self {
        let arguments =
            ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--cloud-address", cloud];
        let program = Program::new(SIMULATOR, &arguments).env("DATABASE_URL", database);
        let program = program.env("FLEETWRIGHT_STORE_MEMORY", "false").env("FLEETWRIGHT_LEASE_OWNER", "server-1");
        Self { process: program.start(), log: RefCell::default() }
    }

    /// The line with all of `words` behind the first `from` lines, and the number of lines up to it.
    fn wait_for(&self, words: &[&str], from: usize) -> (String, usize) {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(found) = self.find(words, from) {
                return found;
            }
            let log = self.log.borrow();
            assert!(Instant::now() < end, "no line with {words:?} behind line {from} of\n{}", log.join("\n"));
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Whether the server knows this many pods of `cluster`.
    fn counts(&self, http: &str, cluster: &str, pods: usize) -> bool {
        get(http, &format!("/v1/clusters/{cluster}")).contains(&format!("\"podCount\":{pods},"))
    }

    fn find(&self, words: &[&str], from: usize) -> Option<(String, usize)> {
        self.log.borrow_mut().extend(self.process.take_stderr_lines());
        find(&self.log.borrow(), words, from)
    }
}

fn find(log: &[String], words: &[&str], from: usize) -> Option<(String, usize)> {
    let mut behind = log.iter().enumerate().skip(from);
    let (at, line) = behind.find(|(_, line)| words.iter().all(|word| line.contains(word)))?;
    Some((line.clone(), at + 1))
}

/// A simulated cloud at `address`, with or without capacity.
pub(crate) fn start_cloud(address: &str, more: &[&str]) -> (RunningProcess, String) {
    let arguments = [&["simulated-cloud", "--listen", address, "--boot", "500ms"], more].concat();
    let cloud = Program::new(SIMULATOR, &arguments).start_with_stdout();
    let address = cloud.next_stdout_line(TIMEOUT);
    (cloud, address)
}

fn run(arguments: &[&str], server: &str) {
    let arguments = &[arguments, &["--server", server]].concat();
    let ended = Program::new(PROGRAM, arguments).env("USER", "kim").run(TIMEOUT);
    assert_eq!(ended.status, 0, "{arguments:?}: {}", ended.stderr);
}

#[test]
fn the_log_tells_what_happened_and_what_to_do() {
    let Some(mut postgres) = Postgres::start("the_log_tells_what_happened_and_what_to_do") else { return };
    let (cloud, cloud_url) = start_cloud("127.0.0.1:0", &["--no-capacity"]);
    let server = LoggedServer::start(&postgres.url(), &cloud_url);
    let (line, at) = server.wait_for(&["serving"], 0);
    let [grpc, dashboard] = urls(&line);
    let http = authority(&dashboard).to_owned();
    let at = RefCell::new(at);
    let told = |events: std::ops::Range<usize>| {
        for words in &STORY[events] {
            at.replace_with(|at| server.wait_for(words, *at).1);
        }
    };

    // No capacity anywhere, and then enough.
    let agent = start_agent(&grpc, "shop");
    told(0..3);
    drop(cloud);
    let (_cloud, _) = start_cloud(cloud_url.trim_start_matches("http://"), &[]);
    told(3..5);

    run(&["freeze", "--cluster", "shop", "--reason", "moving the network"], &grpc);
    told(5..6);
    run(&["thaw", "--id", "1"], &grpc);
    told(6..7);

    // The agent of another cluster loses sight of all pods.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(async {
        let mut vault = FakeAgent::new("vault", "uid-of-vault");
        let told = async |events: std::ops::Range<usize>, vault: &mut FakeAgent| {
            for words in &STORY[events] {
                let found = vault.wait_until(&format!("{words:?}"), |_| server.find(words, *at.borrow())).await;
                at.replace(found.1);
            }
        };
        vault.connect(&grpc).await;
        told(7..9, &mut vault).await;
        vault.relist(&[Kind::Pods]).await;
        told(9..10, &mut vault).await;
        run(&["quarantine", "release", "vault"], &grpc);
        told(10..12, &mut vault).await;
        vault.relist(&[]).await;
        vault.wait_until("all pods again", |_| server.counts(&http, "vault", 36).then_some(())).await;

        vault.disconnect();
        told(12..13, &mut vault).await;
        vault.connect(&grpc).await;
        told(13..15, &mut vault).await;
    });

    postgres.kill();
    told(15..16);
    postgres.restart();
    told(16..17);
    drop(agent);
    let LoggedServer { process, log } = server;
    assert_eq!(process.stop(TIMEOUT), 0);
    keep(&log.into_inner());
}

/// Writes the example, or compares the events that it has with the story.
fn keep(log: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(EXAMPLE);
    if std::env::var_os(WRITE).is_some() {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("the name of this host");
        let log = log.join("\n").replace(&format!("by=kim@{} ", host.trim()), "by=kim@laptop ") + "\n";
        std::fs::write(&path, log).expect("the example is written");
    }
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let example: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut at = 0;
    for words in STORY {
        let found = find(&example, words, at);
        at = found
            .unwrap_or_else(|| panic!("{EXAMPLE} has no line with {words:?} behind line {at}; {WRITE}=1 writes it"))
            .1;
    }
}
