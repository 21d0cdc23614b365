//! A PostgreSQL for tests: the one of `DATABASE_URL`, or a throw-away server from the binaries of this machine.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server and where to reach it; one that was started here ends, and its folder goes, when this is dropped.
pub(super) struct Server {
    url: String,
    started: Option<Started>,
}

struct Started {
    process: Child,
    folder: PathBuf,
}

impl Server {
    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(started) = &mut self.started {
            let _ended_already = started.process.kill();
            let _status = started.process.wait();
            let _gone_already = std::fs::remove_dir_all(&started.folder);
        }
    }
}

/// The server of `DATABASE_URL`, else one of this machine's own binaries, else `None`.
pub(super) fn find_or_start() -> Option<Server> {
    match std::env::var("DATABASE_URL") {
        Ok(url) if !url.is_empty() => Some(Server { url, started: None }),
        _ => start(&binaries()?),
    }
}

/// The folder of `postgres` and `initdb`: the newest of Debian's, else one on the `PATH`.
fn binaries() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten().flatten();
    let mut folders: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    folders.sort();
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = folders.into_iter().rev().map(|(_, folder)| folder).chain(std::env::split_paths(&on_path));
    candidates.find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
}

fn start(binaries: &Path) -> Option<Server> {
    let folder = std::env::temp_dir().join(format!("fleetwright-postgres-{}", std::process::id()));
    std::fs::create_dir_all(&folder).ok()?;
    let unprivileged = unprivileged();
    if unprivileged {
        // PostgreSQL refuses to run as root; the folder must belong to whom it runs as.
        run(Command::new("chown").arg("nobody:nogroup").arg(&folder))?;
    }
    let data = folder.join("data");
    let create = ["-U", "fleetwright", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
    run(as_user(unprivileged, &binaries.join("initdb")).arg("-D").arg(&data).args(create))?;
    let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
    let settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "synchronous_commit=off"];
    let mut server = as_user(unprivileged, &binaries.join("postgres"));
    server.arg("-D").arg(&data).arg("-p").arg(port.to_string());
    server.args(settings.iter().flat_map(|setting| ["-c", setting]));
    let process = server.current_dir(&folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let server = Server {
        url: format!("postgres://fleetwright@127.0.0.1:{port}/postgres"),
        started: Some(Started { process, folder }),
    };
    wait_until_ready(port).then_some(server)
}

/// Whether this process is root and must step down to run PostgreSQL.
fn unprivileged() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Uid:").is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0")))
}

fn as_user(unprivileged: bool, program: &Path) -> Command {
    if !unprivileged {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--pdeathsig", "QUIT"]).arg(program);
    command
}

fn run(command: &mut Command) -> Option<()> {
    let status = command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then_some(())
}

/// The server takes connections before it answers queries; the pool's own patience covers the rest.
fn wait_until_ready(port: u16) -> bool {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    false
}
