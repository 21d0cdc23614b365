//! A PostgreSQL for tests of processes: the one of `DATABASE_URL`, or a throw-away server from this machine's binaries.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A database server; one that was started here ends, and its folder goes, when this is dropped.
#[derive(Debug)]
pub struct Postgres {
    url: String,
    started: Option<(Child, PathBuf)>,
}

impl Postgres {
    /// The server of `DATABASE_URL`, else one from this machine's binaries, else `None`.
    #[must_use]
    pub fn find_or_start() -> Option<Self> {
        match std::env::var("DATABASE_URL") {
            Ok(url) if !url.is_empty() => Some(Self { url, started: None }),
            _ => start(&binaries()?),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some((process, folder)) = &mut self.started {
            let _ended_already = process.kill();
            let _status = process.wait();
            let _gone_already = fs::remove_dir_all(folder);
        }
    }
}

/// The folder of `postgres` and `initdb`: the newest of Debian's, else one on the `PATH`.
fn binaries() -> Option<PathBuf> {
    let installed = fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten().flatten();
    let version = |name: &str| name.parse::<u32>().ok();
    let mut found: Vec<(u32, PathBuf)> =
        installed.filter_map(|entry| Some((version(entry.file_name().to_str()?)?, entry.path().join("bin")))).collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = found.into_iter().rev().map(|(_, folder)| folder).chain(std::env::split_paths(&path));
    folders.find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
}

fn start(binaries: &Path) -> Option<Postgres> {
    let folder = std::env::temp_dir().join(format!("fleetwright-e2e-postgres-{}", std::process::id()));
    fs::create_dir_all(&folder).ok()?;
    let data = folder.join("data");
    if is_root() {
        // PostgreSQL does not run as root; whom it runs as must own the folder.
        succeeds(Command::new("chown").arg("nobody").arg(&folder))?;
    }
    let create = ["-U", "fleetwright", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
    succeeds(stepped_down(&binaries.join("initdb")).arg("-D").arg(&data).args(create))?;
    let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
    let mut server = stepped_down(&binaries.join("postgres"));
    server.arg("-D").arg(&data).arg("-p").arg(port.to_string());
    for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"] {
        server.args(["-c", setting]);
    }
    let process = server.current_dir(&folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let url = format!("postgres://fleetwright@127.0.0.1:{port}/postgres");
    let started = Postgres { url, started: Some((process, folder)) };
    listens(port).then_some(started)
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Uid:").is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0")))
}

fn stepped_down(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--pdeathsig", "QUIT"]).arg(program);
    command
}

fn succeeds(command: &mut Command) -> Option<()> {
    let status = command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then_some(())
}

fn listens(port: u16) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        thread::park_timeout(Duration::from_millis(20));
    }
    false
}
