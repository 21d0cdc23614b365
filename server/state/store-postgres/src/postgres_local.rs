//! A local PostgreSQL process, run from the server binaries installed on this host.
//!
//! Two kinds: a durable one, in the data directory of a server without a configured database; and a
//! temporary one for tests and simulations, which ends with its process.
//!
//! Both listen only on a Unix socket in a directory with mode 0700, so they need no password and no
//! TCP port. The durable one survives a crash of the server: the next start adopts it, and a file
//! lock on the directory excludes a second server. PostgreSQL refuses to run as root; started by
//! root, it runs as the user `postgres`.
//!
//! Reading order: [`LocalPostgres`], [`data_dir`] (which directory), [`binaries`] (which
//! installation), [`process`] (which process, as which user).

mod binaries;
mod data_dir;
mod error;
mod process;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use error::{SOCKET_FOLDER_MAX, io_error};

pub use binaries::{Binaries, find, find_for};
pub use error::LocalPostgresError;

/// Timeout of a start: crash recovery replays the WAL since the last checkpoint.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Time for which a released lock may still be held: a child forked in the meantime holds it until
/// its `exec`.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The port is part of the socket name; servers never share a directory.
const SOCKET_PORT: u16 = 5432;

const USER: &str = "fleetwright";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerKind {
    /// Keeps committed data over crashes and restarts.
    Durable,
    /// Fast, without durability; ends with its process.
    Temporary,
}

/// A running PostgreSQL. Dropping it stops the process; a temporary one also deletes its directory.
#[derive(Debug)]
pub struct LocalPostgres {
    binaries: Binaries,
    folder: PathBuf,
    kind: ServerKind,
    /// `None` when it was adopted.
    child: Option<Child>,
    /// Released by the kernel when this process ends.
    _lock: File,
}

impl LocalPostgres {
    /// Starts PostgreSQL below `folder`, or adopts the process that a killed server left running.
    /// Creates directory and data when they are missing. Takes a fraction of a second; a second or
    /// two the first time.
    ///
    /// # Errors
    /// [`LocalPostgresError`].
    pub fn start(binaries: &Binaries, folder: &Path) -> Result<Self, LocalPostgresError> {
        Self::start_in(binaries, data_dir::prepare(folder)?, ServerKind::Durable)
    }

    fn start_in(binaries: &Binaries, folder: PathBuf, kind: ServerKind) -> Result<Self, LocalPostgresError> {
        let lock = lock(&folder)?;
        let mut server = Self { binaries: binaries.clone(), folder, kind, child: None, _lock: lock };
        server.prepare()?;
        server.run()?;
        Ok(server)
    }

    /// A temporary server in a directory of its own; `None` where PostgreSQL is not installed.
    ///
    /// # Errors
    /// [`LocalPostgresError`].
    pub fn temporary() -> Result<Option<Self>, LocalPostgresError> {
        let Some(binaries) = find() else { return Ok(None) };
        Self::start_in(&binaries, data_dir::create_temporary(&std::env::temp_dir())?, ServerKind::Temporary).map(Some)
    }

    /// A durable server in a new temporary directory, which the caller removes: see
    /// [`LocalPostgres::folder`].
    ///
    /// # Errors
    /// [`LocalPostgresError`].
    pub fn durable_temporary(binaries: &Binaries) -> Result<Self, LocalPostgresError> {
        Self::start_in(binaries, data_dir::create_temporary(&std::env::temp_dir())?, ServerKind::Durable)
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{USER}@localhost:{SOCKET_PORT}/postgres?host={}", encoded(&self.socket()))
    }

    /// Whether the process was already running.
    #[must_use]
    pub fn adopted(&self) -> bool {
        self.child.is_none()
    }

    /// Pid of the postmaster, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        process::postmaster_pid(&self.data())
    }

    /// Stops the server cleanly: sessions are ended and a checkpoint is written, so the next start
    /// needs no recovery.
    ///
    /// # Errors
    /// [`LocalPostgresError::Failed`] when it does not stop.
    pub fn stop(&mut self) -> Result<(), LocalPostgresError> {
        self.stop_with("fast")
    }

    fn stop_with(&mut self, mode: &str) -> Result<(), LocalPostgresError> {
        if process::postmaster_pid(&self.data()).is_some() {
            let mut command = process::command(&self.binaries.program("pg_ctl"), false)?;
            process::run_checked(command.args(["stop", "-m", mode, "-w", "-D"]).arg(self.data()).current_dir("/"))?;
        }
        self.reap();
        Ok(())
    }

    /// Kills the server, as a crash would. For simulations.
    ///
    /// # Errors
    /// [`LocalPostgresError::Failed`].
    pub fn kill(&mut self) -> Result<(), LocalPostgresError> {
        if let Some(pid) = process::postmaster_pid(&self.data()) {
            // The shell's builtin `kill`: minimal images lack the program.
            process::run_checked(Command::new("sh").args(["-c", "kill -9 \"$0\"", &pid.to_string()]))?;
        }
        self.reap();
        Ok(())
    }

    /// Restarts it after [`LocalPostgres::stop`] or [`LocalPostgres::kill`], at the same URL.
    ///
    /// # Errors
    /// As [`LocalPostgres::start`].
    pub fn restart(&mut self) -> Result<(), LocalPostgresError> {
        self.run()
    }

    fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ended_already = child.wait();
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("postgres.log")
    }

    /// Prepares the directory, and initializes the data when there is none.
    fn prepare(&self) -> Result<(), LocalPostgresError> {
        if self.socket().as_os_str().len() > SOCKET_FOLDER_MAX {
            return Err(LocalPostgresError::TooLong { folder: self.socket() });
        }
        fs::create_dir_all(self.socket()).map_err(io_error("create the folder", &self.socket()))?;
        process::hand_over(&self.folder)?;
        match fs::read_to_string(self.data().join("PG_VERSION")) {
            Ok(made_by) if made_by.trim() == self.binaries.major => Ok(()),
            Ok(made_by) => Err(LocalPostgresError::Version {
                folder: self.folder.clone(),
                made_by: made_by.trim().to_owned(),
                installed: binaries::installed(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.init_cluster(),
            Err(source) => Err(io_error("read", &self.data().join("PG_VERSION"))(source)),
        }
    }

    /// Initializes the data in a sibling directory and renames it when complete: an interruption
    /// leaves no partial data.
    fn init_cluster(&self) -> Result<(), LocalPostgresError> {
        let fresh = self.folder.join("data.new");
        if fresh.exists() {
            fs::remove_dir_all(&fresh).map_err(io_error("remove", &fresh))?;
        }
        let mut initdb = process::command(&self.binaries.program("initdb"), false)?;
        initdb.args(["-U", USER, "--auth-local=trust", "--auth-host=reject", "-E", "UTF8", "--locale=C"]);
        if self.kind == ServerKind::Temporary {
            initdb.arg("--no-sync");
        }
        process::run_checked(initdb.arg("-D").arg(&fresh).current_dir("/"))?;
        fs::rename(&fresh, self.data()).map_err(io_error("put in place", &fresh))
    }

    fn run(&mut self) -> Result<(), LocalPostgresError> {
        let data = self.data();
        if process::postmaster_pid(&data).is_some() {
            return self.wait_until_ready();
        }
        self.remove_stale_files()?;
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            self.child = Some(self.spawn()?);
            match self.wait_until_ready() {
                // Sessions of a killed server hold its shared memory until they notice its end.
                Err(error) if self.shared_memory_in_use() && Instant::now() < deadline => {
                    self.reap();
                    tracing::debug!(%error, "retrying local PostgreSQL start");
                    std::thread::park_timeout(Duration::from_millis(200));
                }
                done => return done,
            }
        }
    }

    /// Removes stale files of a stopped server. The pid in them may belong to another process or to
    /// a zombie, and PostgreSQL would mistake either for itself.
    fn remove_stale_files(&self) -> Result<(), LocalPostgresError> {
        let sockets = fs::read_dir(self.socket()).map_err(io_error("read the folder", &self.socket()))?;
        let sockets = sockets.flatten().map(|entry| entry.path());
        for left in sockets.chain([self.data().join("postmaster.pid")]).filter(|path| path.exists()) {
            fs::remove_file(&left).map_err(io_error("remove", &left))?;
        }
        Ok(())
    }

    fn spawn(&self) -> Result<Child, LocalPostgresError> {
        let log = self.fresh_log()?;
        let errors = log.try_clone().map_err(io_error("write", &self.log()))?;
        let mut server = process::command(&self.binaries.program("postgres"), self.kind == ServerKind::Temporary)?;
        server.arg("-D").arg(self.data()).arg("-p").arg(SOCKET_PORT.to_string());
        server.args(self.settings().iter().flat_map(|setting| ["-c", setting.as_str()]));
        process::detach_from_terminal(&mut server);
        let started = server.current_dir(&self.folder).stdin(std::process::Stdio::null()).stdout(log).stderr(errors);
        started.spawn().map_err(io_error("start", &self.binaries.program("postgres")))
    }

    /// Creates a new log file per start: sessions of a killed server still write to the previous
    /// one.
    fn fresh_log(&self) -> Result<File, LocalPostgresError> {
        match fs::remove_file(self.log()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &self.log())(error)),
            _ => File::create(self.log()).map_err(io_error("write", &self.log())),
        }
    }

    fn settings(&self) -> Vec<String> {
        let own: &[&str] = match self.kind {
            // The first change of a page after a checkpoint writes the full page: compression makes
            // it a fifth, and six times the default checkpoint interval makes it rarer. Crash
            // recovery replays half an hour of WAL at 100 KB/s, which takes seconds.
            ServerKind::Durable => &["wal_compression=on", "checkpoint_timeout=30min", "max_wal_size=2GB"],
            ServerKind::Temporary => &["fsync=off", "synchronous_commit=off", "full_page_writes=off"],
        };
        let socket = format!("unix_socket_directories={}", self.socket().display());
        let common = ["max_connections=100", "log_checkpoints=off", "listen_addresses=", &socket];
        common.iter().chain(own).map(|setting| (*setting).to_owned()).collect()
    }

    /// Waits until it accepts connections.
    fn wait_until_ready(&mut self) -> Result<(), LocalPostgresError> {
        let host = self.socket().display().to_string();
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let mut ready = Command::new(self.binaries.program("pg_isready"));
            ready.args(["-q", "-U", USER, "-h", &host, "-p", &SOCKET_PORT.to_string()]);
            let ready = ready.status().map_err(io_error("run", &self.binaries.program("pg_isready")))?;
            if ready.success() {
                return Ok(());
            }
            let ended = self.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
            if ended || Instant::now() > deadline {
                return Err(LocalPostgresError::Failed { program: "postgres".to_owned(), output: self.log_tail() });
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    fn shared_memory_in_use(&self) -> bool {
        self.log_text().contains("shared memory block")
    }

    fn log_text(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn log_tail(&self) -> String {
        let log = self.log_text();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("; ")
    }
}

impl Drop for LocalPostgres {
    fn drop(&mut self) {
        match self.kind {
            ServerKind::Durable => {
                if let Err(error) = self.stop() {
                    tracing::warn!(%error, folder = %self.folder.display(), "could not stop local PostgreSQL");
                }
            }
            ServerKind::Temporary => {
                let _ended_already = self.stop_with("immediate");
                let _gone_already = fs::remove_dir_all(&self.folder);
            }
        }
    }
}

fn lock(folder: &Path) -> Result<File, LocalPostgresError> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(io_error("write", &path))?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => return Err(LocalPostgresError::InUse { folder: folder.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(io_error("lock", &path)(source)),
        }
    }
}

/// Percent-encodes a path for a URL.
fn encoded(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    bytes.map(|byte| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests;
