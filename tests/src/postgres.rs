//! A PostgreSQL for tests of processes, asked beside them by `psql`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use fleetwright::store::own::{self, OwnServer};

/// The PostgreSQL of this machine; where there is none, `test` is told to have been skipped.
///
/// # Panics
/// When there is none and the variable `CI` says that somebody relies on the answer.
#[must_use]
pub fn installed(test: &str) -> Option<own::Binaries> {
    let found = own::find();
    if found.is_none() {
        let relied_on = std::env::var("CI").is_ok_and(|ci| !["", "false", "0"].contains(&ci.as_str()));
        assert!(!relied_on, "{test} must run under CI, and no PostgreSQL is installed: apt-get install postgresql");
        // Written past the test harness, which shows what a passing test prints only when asked.
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: no PostgreSQL is installed on this machine");
    }
    found
}

/// A throw-away server, which ends with this value.
#[derive(Debug)]
pub struct Postgres {
    server: OwnServer,
    psql: PathBuf,
}

impl Postgres {
    /// Starts one from this machine's binaries; where there are none, `test` is told to have been skipped.
    ///
    /// # Panics
    /// When a PostgreSQL that is installed does not start.
    #[must_use]
    pub fn start(test: &str) -> Option<Self> {
        let binaries = installed(test)?;
        let server = OwnServer::throwaway().expect("a PostgreSQL that is installed starts")?;
        let debian = PathBuf::from(format!("/usr/lib/postgresql/{}/bin/psql", binaries.major));
        let psql = if debian.is_file() { debian } else { PathBuf::from("psql") };
        Some(Self { server, psql })
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Runs a statement and returns what it answers: a line for each row, columns between bars.
    ///
    /// # Panics
    /// When there is no `psql`, or when it fails.
    #[must_use]
    pub fn ask(&self, statement: &str) -> String {
        let mut psql = Command::new(&self.psql);
        let ran = psql.args(["-v", "ON_ERROR_STOP=1", "-qAtc", statement, &self.url()]).output();
        let ran = ran.unwrap_or_else(|error| panic!("{}: {error}", self.psql.display()));
        assert!(ran.status.success(), "{statement}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).trim().to_owned()
    }
}
