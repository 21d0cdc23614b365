//! A database for tests: a new one on the server of `FLEETWRIGHT_TEST_DATABASE_URL`, else a
//! temporary server. Never the database of `DATABASE_URL`, which holds the state of real servers.

use std::io::Write;

use sqlx::{Connection, PgConnection};

use crate::postgres_local::LocalPostgres;

/// URL of a PostgreSQL on which tests may create databases.
const VARIABLE: &str = "FLEETWRIGHT_TEST_DATABASE_URL";

pub(super) struct TestDatabase {
    pub(super) url: String,
    /// Server URL and database name; `None` when the temporary server is dropped with this value.
    made: Option<(String, String)>,
    _server: Option<LocalPostgres>,
}

impl TestDatabase {
    /// A new database; `None`, with `test` reported as skipped, when there is no PostgreSQL.
    pub(super) async fn new(test: &str) -> Option<Self> {
        if let Some(given) = given(|name| std::env::var(name).ok()) {
            let name = format!("fleetwright_test_{}", std::process::id());
            run(&given, &format!("CREATE DATABASE {name}")).await;
            return Some(Self { url: beside(&given, &name), made: Some((given, name)), _server: None });
        }
        let Some(server) = LocalPostgres::temporary().unwrap() else {
            skipped(test);
            return None;
        };
        Some(Self { url: server.url(), made: None, _server: Some(server) })
    }

    pub(super) async fn remove(self) {
        if let Some((given, name)) = &self.made {
            run(given, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
        }
    }
}

fn given(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    variable(VARIABLE).filter(|url| !url.is_empty())
}

async fn run(url: &str, statement: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    // The name is derived from the pid, not from input.
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// URL of another database on the same server.
fn beside(url: &str, name: &str) -> String {
    let (address, options) = url.split_once('?').map_or((url, String::new()), |(a, o)| (a, format!("?{o}")));
    let host = address.find("://").map_or(0, |scheme| scheme + 3);
    let end = address[host..].find('/').map_or(address.len(), |path| host + path);
    format!("{}/{name}{options}", &address[..end])
}

/// Reports a skipped test on stderr, past the test harness, which hides the output of passing
/// tests. Under CI it fails instead.
pub(crate) fn skipped(test: &str) {
    let relied_on = std::env::var("CI").is_ok_and(|ci| !["", "false", "0"].contains(&ci.as_str()));
    assert!(!relied_on, "{test} must run under CI, and there is no PostgreSQL here: apt-get install postgresql");
    let read_back = format_args!("SKIPPED {test}: no {VARIABLE} and no PostgreSQL is installed here\n");
    let _ = std::io::stderr().write_fmt(read_back);
}

#[test]
fn tests_never_touch_the_database_of_servers() {
    let only = |wanted: &'static str| move |name: &str| (name == wanted).then(|| "postgres://host/db".to_owned());
    assert_eq!(given(only("DATABASE_URL")), None);
    assert_eq!(given(only("FLEETWRIGHT_STORE_DATABASE_URL")), None);
    assert!(given(only(VARIABLE)).is_some());
    assert_eq!(beside("postgres://me@host:1/prod?sslmode=require", "t"), "postgres://me@host:1/t?sslmode=require");
    assert_eq!(beside("postgres://me@localhost", "t"), "postgres://me@localhost/t");
}
