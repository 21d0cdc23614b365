//! A PostgreSQL of our own, from server binaries that are installed on this machine.
//!
//! Two kinds: one that lasts, in the data folder of a server that was given no database; and a throw-away one for tests
//! and simulations, which ends with its process.
//!
//! Both are reached by a Unix socket in a folder that nobody else may enter, so that they need no password; nothing listens
//! on a port. The one that lasts outlives a server that is killed: the next one adopts it, and a lock on the folder keeps a
//! second one away. PostgreSQL refuses to run as root; started by root, it runs as `postgres`, a user that is nobody else's.
//!
//! Reading order: [`OwnServer`], [`home`] (which folder), [`binaries`] (where PostgreSQL is installed), [`process`] (who
//! runs, and as whom).

mod binaries;
mod home;
mod process;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

pub use binaries::{Binaries, find, find_for};

/// What a socket's path may take: 107 bytes on Linux, less the name of the socket in the folder.
const SOCKET_FOLDER_MAX: usize = 90;

/// How long PostgreSQL may take to come up: recovery after a crash reads what was written since the last checkpoint.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// How long a lock that was let go may still be held: a process that was begun meanwhile has it until it runs its own program.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The port names the socket; several servers never share a folder.
const SOCKET_PORT: u16 = 5432;

/// The user that owns everything in it.
const USER: &str = "fleetwright";

/// Why there is no PostgreSQL of our own.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// Another server lives in the folder.
    #[error("{} is in use by another server on this machine; give each server its own store.data-dir", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The data was made by a version that is not installed.
    #[error(
        "the data in {} was made by PostgreSQL {made_by}, and installed are {installed}: install PostgreSQL {made_by}, or move the \
         data with pg_dump", folder.display()
    )]
    Version {
        /// The folder.
        folder: PathBuf,
        /// Major version that made the data.
        made_by: String,
        /// Major versions that are installed.
        installed: String,
    },
    /// The folder holds something that is not ours.
    #[error(
        "{} is not empty and was not made by Fleetwright, which would take it over: choose a folder that is empty or does not \
         exist. If an earlier release made it, move what it holds into {}/postgres and make a file {}/fleetwright-data",
        folder.display(), folder.display(), folder.display()
    )]
    NotOurs {
        /// The folder.
        folder: PathBuf,
    },
    /// This process is root, and there is no user to run PostgreSQL as.
    #[error(
        "PostgreSQL does not run as root, and this machine has no user `postgres` to run it as: make one, or start Fleetwright as \
         another user"
    )]
    NoUser,
    /// The path is too long for a Unix socket.
    #[error("{} is too long a path for a Unix socket: at most {SOCKET_FOLDER_MAX} bytes; choose a shorter store.data-dir", folder.display())]
    TooLong {
        /// The folder of the socket.
        folder: PathBuf,
    },
    /// A file or a program.
    #[error("could not {what} {}: {source}", path.display())]
    System {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A program of PostgreSQL failed.
    #[error("{program} failed: {said}")]
    Failed {
        /// Which.
        program: String,
        /// What it said.
        said: String,
    },
}

/// What it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Keeps everything that was committed, over crashes and restarts.
    Lasting,
    /// Fast, and gone with its process.
    Throwaway,
}

/// A PostgreSQL that runs. Dropping it stops it; a throw-away one takes its folder with it.
#[derive(Debug)]
pub struct OwnServer {
    binaries: Binaries,
    folder: PathBuf,
    purpose: Purpose,
    /// `None` when it was running already.
    child: Option<Child>,
    /// Released by the system when this process ends, however it ends.
    _lock: File,
}

impl OwnServer {
    /// Starts the PostgreSQL below `folder`, or adopts it when a server that was killed has left it running. The folder and
    /// the data are made when they are missing. Takes a fraction of a second; a second or two the first time.
    ///
    /// # Errors
    /// [`OwnError`].
    pub fn start(binaries: &Binaries, folder: &Path) -> Result<Self, OwnError> {
        Self::start_in(binaries, home::claim(folder)?, Purpose::Lasting)
    }

    fn start_in(binaries: &Binaries, folder: PathBuf, purpose: Purpose) -> Result<Self, OwnError> {
        let lock = lock(&folder)?;
        let mut server = Self { binaries: binaries.clone(), folder, purpose, child: None, _lock: lock };
        server.prepare()?;
        server.run()?;
        Ok(server)
    }

    /// A throw-away server in a folder of its own; `None` where PostgreSQL is not installed.
    ///
    /// # Errors
    /// [`OwnError`].
    pub fn throwaway() -> Result<Option<Self>, OwnError> {
        let Some(binaries) = find() else { return Ok(None) };
        Self::start_in(&binaries, home::fresh(&std::env::temp_dir())?, Purpose::Throwaway).map(Some)
    }

    /// A server that keeps what was committed, in a folder of its own that whoever starts it removes: see
    /// [`OwnServer::folder`].
    ///
    /// # Errors
    /// [`OwnError`].
    pub fn temporary(binaries: &Binaries) -> Result<Self, OwnError> {
        Self::start_in(binaries, home::fresh(&std::env::temp_dir())?, Purpose::Lasting)
    }

    /// What it keeps its files in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where it is reached.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{USER}@localhost:{SOCKET_PORT}/postgres?host={}", encoded(&self.socket()))
    }

    /// Whether it was found running.
    #[must_use]
    pub fn adopted(&self) -> bool {
        self.child.is_none()
    }

    /// Its first process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        process::postmaster(&self.data())
    }

    /// Stops it in order: sessions are cut, everything is written, nothing is to be recovered at the next start.
    ///
    /// # Errors
    /// [`OwnError::Failed`] when it does not stop.
    pub fn stop(&mut self) -> Result<(), OwnError> {
        self.end("fast")
    }

    fn end(&mut self, mode: &str) -> Result<(), OwnError> {
        if process::postmaster(&self.data()).is_some() {
            let mut command = process::command(&self.binaries.program("pg_ctl"), false)?;
            process::succeed(command.args(["stop", "-m", mode, "-w", "-D"]).arg(self.data()).current_dir("/"))?;
        }
        self.reap();
        Ok(())
    }

    /// Ends it without a warning, as a crash would. For simulations.
    ///
    /// # Errors
    /// [`OwnError::Failed`].
    pub fn kill(&mut self) -> Result<(), OwnError> {
        if let Some(pid) = process::postmaster(&self.data()) {
            // The shell's own `kill`: a bare machine has no program of that name.
            process::succeed(Command::new("sh").args(["-c", "kill -9 \"$0\"", &pid.to_string()]))?;
        }
        self.reap();
        Ok(())
    }

    /// Starts it again after [`OwnServer::stop`] or [`OwnServer::kill`], at the same address.
    ///
    /// # Errors
    /// As [`OwnServer::start`].
    pub fn restart(&mut self) -> Result<(), OwnError> {
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

    /// Makes the folder fit for use, and the data when there is none.
    fn prepare(&self) -> Result<(), OwnError> {
        if self.socket().as_os_str().len() > SOCKET_FOLDER_MAX {
            return Err(OwnError::TooLong { folder: self.socket() });
        }
        fs::create_dir_all(self.socket()).map_err(system("create the folder", &self.socket()))?;
        process::give(&self.folder)?;
        match fs::read_to_string(self.data().join("PG_VERSION")) {
            Ok(made_by) if made_by.trim() == self.binaries.major => Ok(()),
            Ok(made_by) => Err(OwnError::Version {
                folder: self.folder.clone(),
                made_by: made_by.trim().to_owned(),
                installed: binaries::installed(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(),
            Err(source) => Err(system("read", &self.data().join("PG_VERSION"))(source)),
        }
    }

    /// Makes the data beside its place and puts it there when it is complete: one that was interrupted leaves no half of it.
    fn create(&self) -> Result<(), OwnError> {
        let fresh = self.folder.join("data.new");
        if fresh.exists() {
            fs::remove_dir_all(&fresh).map_err(system("remove", &fresh))?;
        }
        let mut initdb = process::command(&self.binaries.program("initdb"), false)?;
        initdb.args(["-U", USER, "--auth-local=trust", "--auth-host=reject", "-E", "UTF8", "--locale=C"]);
        if self.purpose == Purpose::Throwaway {
            initdb.arg("--no-sync");
        }
        process::succeed(initdb.arg("-D").arg(&fresh).current_dir("/"))?;
        fs::rename(&fresh, self.data()).map_err(system("put in place", &fresh))
    }

    fn run(&mut self) -> Result<(), OwnError> {
        let data = self.data();
        if process::postmaster(&data).is_some() {
            return self.wait();
        }
        self.clear()?;
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            self.child = Some(self.spawn()?);
            match self.wait() {
                // Sessions of a server that was killed need a moment to notice, and hold its memory until then.
                Err(error) if self.still_held() && Instant::now() < deadline => {
                    self.reap();
                    tracing::debug!(%error, "starting PostgreSQL again");
                    std::thread::park_timeout(Duration::from_millis(200));
                }
                done => return done,
            }
        }
    }

    /// Removes what a server that is gone has left. The number in its files may belong to somebody else since, or to a dead
    /// process that nobody has buried, and PostgreSQL would take either for itself.
    fn clear(&self) -> Result<(), OwnError> {
        let sockets = fs::read_dir(self.socket()).map_err(system("read the folder", &self.socket()))?;
        let sockets = sockets.flatten().map(|entry| entry.path());
        for left in sockets.chain([self.data().join("postmaster.pid")]).filter(|path| path.exists()) {
            fs::remove_file(&left).map_err(system("remove", &left))?;
        }
        Ok(())
    }

    fn spawn(&self) -> Result<Child, OwnError> {
        let log = self.fresh_log()?;
        let errors = log.try_clone().map_err(system("write", &self.log()))?;
        let mut server = process::command(&self.binaries.program("postgres"), self.purpose == Purpose::Throwaway)?;
        server.arg("-D").arg(self.data()).arg("-p").arg(SOCKET_PORT.to_string());
        server.args(self.settings().iter().flat_map(|setting| ["-c", setting.as_str()]));
        process::apart(&mut server);
        let started = server.current_dir(&self.folder).stdin(std::process::Stdio::null()).stdout(log).stderr(errors);
        started.spawn().map_err(system("start", &self.binaries.program("postgres")))
    }

    /// A file of its own for each start: sessions of a server that was killed still write into the one before.
    fn fresh_log(&self) -> Result<File, OwnError> {
        match fs::remove_file(self.log()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(system("remove", &self.log())(error)),
            _ => File::create(self.log()).map_err(system("write", &self.log())),
        }
    }

    fn settings(&self) -> Vec<String> {
        let own: &[&str] = match self.purpose {
            // The first change of a page after a checkpoint writes the whole page: packed, pages are a fifth; and with six times
            // the usual time between checkpoints there are far fewer of them. A crash reads what was written since the last one,
            // which at 100 KB/s for half an hour are seconds.
            Purpose::Lasting => &["wal_compression=on", "checkpoint_timeout=30min", "max_wal_size=2GB"],
            Purpose::Throwaway => &["fsync=off", "synchronous_commit=off", "full_page_writes=off"],
        };
        let socket = format!("unix_socket_directories={}", self.socket().display());
        let common = ["max_connections=100", "log_checkpoints=off", "listen_addresses=", &socket];
        common.iter().chain(own).map(|setting| (*setting).to_owned()).collect()
    }

    /// Waits until it takes connections.
    fn wait(&mut self) -> Result<(), OwnError> {
        let host = self.socket().display().to_string();
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            let mut ready = Command::new(self.binaries.program("pg_isready"));
            ready.args(["-q", "-U", USER, "-h", &host, "-p", &SOCKET_PORT.to_string()]);
            let ready = ready.status().map_err(system("run", &self.binaries.program("pg_isready")))?;
            if ready.success() {
                return Ok(());
            }
            let ended = self.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
            if ended || Instant::now() > deadline {
                return Err(OwnError::Failed { program: "postgres".to_owned(), said: self.last_words() });
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    fn still_held(&self) -> bool {
        self.words().contains("shared memory block")
    }

    fn words(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn last_words(&self) -> String {
        let log = self.words();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("; ")
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        match self.purpose {
            Purpose::Lasting => {
                if let Err(error) = self.stop() {
                    tracing::warn!(%error, "PostgreSQL goes on running in {}", self.folder.display());
                }
            }
            Purpose::Throwaway => {
                let _ended_already = self.end("immediate");
                let _gone_already = fs::remove_dir_all(&self.folder);
            }
        }
    }
}

fn lock(folder: &Path) -> Result<File, OwnError> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(system("write", &path))?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => return Err(OwnError::InUse { folder: folder.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(system("lock", &path)(source)),
        }
    }
}

fn system(what: &'static str, path: &Path) -> impl Fn(io::Error) -> OwnError {
    let path = path.to_owned();
    move |source| OwnError::System { what, path: path.clone(), source }
}

/// A path as part of an address: everything but letters, digits and a few signs by its code.
fn encoded(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    bytes.map(|byte| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests;
