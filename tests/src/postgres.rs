//! A temporary PostgreSQL for tests of processes, queried by `psql`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use store_postgres::postgres_local::{self, LocalPostgres};

/// This machine's PostgreSQL; without one, reports `test` as skipped.
///
/// # Panics
/// Without one when the variable `CI` requires the test to run.
#[must_use]
pub fn installed(test: &str) -> Option<postgres_local::Binaries> {
    let found = postgres_local::find();
    if found.is_none() {
        let relied_on = std::env::var("CI").is_ok_and(|ci| !["", "false", "0"].contains(&ci.as_str()));
        assert!(!relied_on, "{test} must run under CI, and no PostgreSQL is installed: apt-get install postgresql");
        // Written directly to standard error: the test harness hides the output of passing tests.
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: no PostgreSQL is installed on this machine");
    }
    found
}

/// A temporary server, which stops when this value is dropped.
#[derive(Debug)]
pub struct Postgres {
    server: LocalPostgres,
    psql: PathBuf,
}

impl Postgres {
    /// Starts one from this machine's binaries; without them, reports `test` as skipped.
    ///
    /// # Panics
    /// When an installed PostgreSQL does not start.
    #[must_use]
    pub fn start(test: &str) -> Option<Self> {
        let binaries = installed(test)?;
        let server = LocalPostgres::temporary().expect("a PostgreSQL that is installed starts")?;
        let debian = PathBuf::from(format!("/usr/lib/postgresql/{}/bin/psql", binaries.major));
        let psql = if debian.is_file() { debian } else { PathBuf::from("psql") };
        Some(Self { server, psql })
    }

    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Kills the server; its data stay.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub fn kill(&mut self) {
        self.server.kill().expect("a process that runs can be killed");
    }

    /// Starts the server again, at the same address.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self) {
        self.server.restart().expect("a PostgreSQL that was killed starts again");
    }

    /// Suspends all processes of the server: connections stay, and nothing is answered.
    ///
    /// # Panics
    /// When it does not run.
    pub fn suspend(&self) {
        self.signal_all("-STOP");
    }

    /// Resumes them.
    ///
    /// # Panics
    /// When it does not run.
    pub fn resume(&self) {
        self.signal_all("-CONT");
    }

    /// The postmaster is first: it starts no more processes then. One that ends meanwhile needs no signal.
    fn signal_all(&self, signal: &str) {
        let pid = self.server.pid().expect("the server runs").to_string();
        let script = format!("kill {signal} \"$0\" && {{ kill {signal} $(ps -o pid= --ppid \"$0\") || true; }}");
        let ran = Command::new("sh").args(["-c", &script, &pid]).status().expect("sh");
        assert!(ran.success(), "{script}: {ran}");
    }

    /// Runs a statement and returns its result: one line per row, columns separated by `|`.
    ///
    /// # Panics
    /// When `psql` is missing or fails.
    #[must_use]
    pub fn query(&self, statement: &str) -> String {
        let mut psql = Command::new(&self.psql);
        let ran = psql.args(["-v", "ON_ERROR_STOP=1", "-qAtc", statement, &self.url()]).output();
        let ran = ran.unwrap_or_else(|error| panic!("{}: {error}", self.psql.display()));
        assert!(ran.status.success(), "{statement}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).trim().to_owned()
    }
}
