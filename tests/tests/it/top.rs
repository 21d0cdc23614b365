//! `fleetwright top` against a running server: as text, and in a terminal of tmux.

use std::process::Command;
use std::time::{Duration, Instant};

use e2e::{Program, RunningProcess, Signal, TempDir, authority};

use crate::serve::only_cluster;
use crate::{PROGRAM, SIMULATOR, TIMEOUT, fleetwright};

/// A server at this address, or at a free port: the process and its gRPC address as a URL, its HTTP address.
fn server(grpc: &str) -> (RunningProcess, String, String) {
    let server = Program::new(SIMULATOR, &["serve", "--listen-grpc", grpc, "--listen-http", "127.0.0.1:0"]).start();
    let [grpc, dashboard] = server.wait_for_urls(TIMEOUT);
    (server, grpc, authority(&dashboard).to_owned())
}

/// An agent of the cluster `shop`.
fn agent(grpc: &str) -> RunningProcess {
    let arguments = ["simulated-agent", "--server", grpc, "--cluster-name", "shop", "--seed", "1", "--log", "warn"];
    Program::new(SIMULATOR, &arguments).start()
}

/// Waits until `found` returns a value.
fn wait_until<T>(describe: impl Fn() -> String, found: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(Instant::now() < end, "waited for {}", describe());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn wait_for_machines(http: &str) {
    wait_until(
        || format!("machines of\n{:#}", only_cluster(http)),
        || (only_cluster(http)["machineCount"].as_u64() > Some(0)).then_some(()),
    );
}

#[test]
fn top_prints_one_screen_without_a_terminal() {
    let (server, grpc, http) = server("127.0.0.1:0");
    let none = fleetwright(&["top", "--server", &grpc]);
    assert_eq!(none.status, 0, "{}", none.stderr);
    let empty = [
        "0 clusters, 0 nodes, 0 pods pending",
        "No cluster yet. How to connect one: fleetwright fleet problems",
        "No rows: the list is complete and has none here.",
    ];
    assert!(empty.iter().all(|text| none.stdout.contains(text)), "{}", none.stdout);

    let agent = agent(&grpc);
    wait_for_machines(&http);
    let once = |arguments: &[&str]| fleetwright(&[&["top", "--once", "--server", &grpc], arguments].concat());
    let clusters = once(&[]);
    assert_eq!(clusters.status, 0, "{}", clusters.stderr);
    let lines: Vec<&str> = clusters.stdout.lines().collect();
    assert!(lines[0].starts_with("1 cluster, ") && lines[0].contains("  live, "), "{}", clusters.stdout);
    assert!(lines.iter().any(|line| line.starts_with(" shop  ")), "{}", clusters.stdout);
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{}", clusters.stdout);
    assert!(!clusters.stdout.contains('\u{1b}'), "no escape sequence is text");

    let nodes = once(&["--cluster", "shop"]).stdout;
    assert!(nodes.contains("shop > nodes ") && nodes.contains(" NODE           REQUESTED PODS TYPE "), "{nodes}");
    let pods = once(&["--view", "pods"]).stdout;
    assert!(pods.contains("All clusters > waiting pods (bound pods are not in the API)"), "{pods}");

    let unknown = once(&["--cluster", "shopp"]);
    assert_eq!((unknown.status, unknown.stdout.as_str()), (2, ""), "{}", unknown.stderr);
    assert!(unknown.stderr.contains("did you mean \"shop\"?"), "{}", unknown.stderr);
    let _status = agent.stop(TIMEOUT);
    assert_eq!(server.stop(TIMEOUT), 0);
    let unreachable = once(&[]);
    assert_eq!(unreachable.status, 3);
    assert!(unreachable.stderr.contains("cannot be reached"), "{}", unreachable.stderr);
}

/// A terminal of tmux, with a server of its own that ends with this value.
struct Terminal {
    folder: TempDir,
}

impl Terminal {
    /// A terminal of 80 columns and 24 lines in which the shell runs `command`; `None` without tmux, which is printed.
    fn open(test: &str, command: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("SKIPPED {test}: no tmux is installed on this machine");
            return None;
        }
        let terminal = Self { folder: TempDir::new() };
        terminal.tmux(&["new-session", "-d", "-x", "80", "-y", "24", "sh"]);
        terminal.press(&[command, "Enter"]);
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.folder.path().join("socket")).args(["-f", "/dev/null"]).args(arguments);
        let output = tmux.env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR").output().expect("tmux runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn picture(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn wait_for(&self, text: &str) -> String {
        wait_until(
            || format!("{text:?} in\n{}", self.picture()),
            || Some(self.picture()).filter(|picture| picture.contains(text)),
        )
    }

    /// Whether a program has the whole screen.
    fn is_taken_over(&self) -> bool {
        self.tmux(&["display-message", "-p", "#{alternate_on}"]).trim() == "1"
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// The command in a terminal, whose exit status and terminal settings the shell prints.
fn command(grpc: &str) -> String {
    format!(
        "clear; {PROGRAM} top --server {grpc}; echo \"ended with $?\"; stty -a | tr ';' '\\n' | grep -o '[-]*icanon'"
    )
}

#[test]
fn top_in_a_terminal_goes_from_cluster_to_nodes_and_leaves_the_terminal_as_it_was() {
    let (server, grpc, http) = server("127.0.0.1:0");
    let agent = agent(&grpc);
    wait_for_machines(&http);
    let test = "top_in_a_terminal_goes_from_cluster_to_nodes_and_leaves_the_terminal_as_it_was";
    let Some(terminal) = Terminal::open(test, &command(&grpc)) else { return };
    let clusters = terminal.wait_for(">shop ");
    assert!(clusters.lines().next().unwrap().starts_with("1 cluster, "), "{clusters}");
    assert!(clusters.trim_end().ends_with("q quit") && terminal.is_taken_over(), "{clusters}");
    terminal.press(&["Enter"]);
    let nodes = terminal.wait_for("shop > nodes ");
    assert!(nodes.contains("clusters/shop/nodes/"), "the selected row in full:\n{nodes}");
    terminal.press(&["/", "n", "o", "n", "s", "e", "n", "s", "e"]);
    terminal.wait_for("No row matches the filter.");
    terminal.press(&["Escape"]);
    terminal.wait_for("Enter open  Esc back");
    terminal.press(&["?"]);
    terminal.wait_for("It is not use.");
    terminal.press(&["x", "BSpace"]);
    terminal.wait_for(">shop ");
    terminal.press(&["q"]);
    let ended = terminal.wait_for("icanon");
    assert!(ended.contains("ended with 0") && !ended.contains("-icanon"), "{ended}");
    assert!(!terminal.is_taken_over());
    let _status = agent.stop(TIMEOUT);
    assert_eq!(server.stop(TIMEOUT), 0);
}

#[test]
fn top_says_that_the_connection_is_lost_lists_again_and_ends_on_a_signal() {
    let (server, grpc, http) = server("127.0.0.1:0");
    let agent = agent(&grpc);
    wait_for_machines(&http);
    let test = "top_says_that_the_connection_is_lost_lists_again_and_ends_on_a_signal";
    let Some(terminal) = Terminal::open(test, &command(&grpc)) else { return };
    terminal.wait_for("live, ");
    server.signal(Signal::Kill);
    drop(server);
    let lost = terminal.wait_for("reconnecting, ");
    assert!(lost.contains(">shop "), "the rows stay:\n{lost}");
    // The store of the first server was its memory: the position of the watches is not known to the second one.
    let (server, _, _) = self::server(authority(&grpc));
    terminal.wait_for("live, ");
    terminal.press(&["q"]);
    terminal.wait_for("ended with 0");

    terminal.press(&[&command(&grpc), "Enter"]);
    terminal.wait_for("live, ");
    let pane = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let children = format!("/proc/{0}/task/{0}/children", pane.trim());
    let script = format!("kill -TERM $(cat {children})");
    assert!(Command::new("sh").args(["-c", &script]).status().is_ok_and(|status| status.success()));
    let ended = terminal.wait_for("icanon");
    assert!(ended.contains("ended with 0") && !ended.contains("-icanon"), "{ended}");
    let _status = agent.stop(TIMEOUT);
    assert_eq!(server.stop(TIMEOUT), 0);
}
