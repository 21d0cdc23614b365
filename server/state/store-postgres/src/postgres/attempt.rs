//! The first connection to a database: waits for a server that does not answer yet, and names the
//! cause and the remedy of a failure.

use std::io;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use store::{StoreError, StoreResult};

const PAUSE: Duration = Duration::from_millis(500);

const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

const CHECK_SERVER: &str = "check that PostgreSQL runs there, and the address in store.database-url (DATABASE_URL)";
const CHECK_USER: &str = "check the user and the password in store.database-url (DATABASE_URL)";
const CHECK_TLS: &str = "check sslmode and sslrootcert in store.database-url (DATABASE_URL), and the TLS of the server";

/// Whether `url` has a scheme of PostgreSQL. The driver accepts every scheme.
fn is_url(url: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme))
}

/// The connection options in `url`.
///
/// # Errors
/// [`StoreError::Connection`], without the URL: it may have a password.
pub(super) fn options(url: &str) -> StoreResult<PgConnectOptions> {
    let invalid = |why: String| StoreError::Connection {
        target: "PostgreSQL".to_owned(),
        why,
        remedy: "write store.database-url (DATABASE_URL) as postgres://user@host:5432/database",
    };
    if !is_url(url) {
        return Err(invalid("the URL of the database does not begin with postgres://".to_owned()));
    }
    url.parse().map_err(|error: sqlx::Error| match error {
        sqlx::Error::Configuration(cause) => invalid(format!("the URL of the database is invalid: {cause}")),
        other => invalid(other.to_string()),
    })
}

/// Opens and closes a connection. A server that does not answer yet is tried again for `wait`.
///
/// # Errors
/// [`StoreError::Connection`].
pub(super) async fn wait_for(options: &PgConnectOptions, wait: Duration) -> StoreResult<()> {
    let (target, begun) = (describe(options), Instant::now());
    let mut is_waiting = false;
    loop {
        let failure = match timeout(ATTEMPT_TIMEOUT, open(options)).await {
            Ok(Ok(())) if is_waiting => {
                info!(database = target, waited_s = begun.elapsed().as_secs(), "database available");
                return Ok(());
            }
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => Failure::of(&error),
            Err(_) => Failure {
                why: format!("no answer within {} s", ATTEMPT_TIMEOUT.as_secs()),
                remedy: CHECK_SERVER,
                is_transient: true,
            },
        };
        if !failure.is_transient || begun.elapsed() + PAUSE >= wait {
            return Err(StoreError::Connection { target, why: failure.why, remedy: failure.remedy });
        }
        if !is_waiting {
            warn!(database = target, reason = failure.why, wait_s = wait.as_secs(), "waiting for the database");
            is_waiting = true;
        }
        sleep(PAUSE).await;
    }
}

async fn open(options: &PgConnectOptions) -> Result<(), sqlx::Error> {
    let connection: PgConnection = options.connect().await?;
    connection.close().await
}

/// Address, database and user.
fn describe(options: &PgConnectOptions) -> String {
    let address = match options.get_socket() {
        Some(socket) => format!("{}, port {}", socket.display(), options.get_port()),
        None if options.get_host().contains(':') => format!("[{}]:{}", options.get_host(), options.get_port()),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    let user = options.get_username();
    let database = options.get_database().unwrap_or(user);
    format!("PostgreSQL at {address}, database {database}, as user {user}")
}

struct Failure {
    why: String,
    remedy: &'static str,
    /// Whether a later attempt may succeed.
    is_transient: bool,
}

impl Failure {
    fn of(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Io(error) => Self { why: cause_of(error), remedy: CHECK_SERVER, is_transient: true },
            sqlx::Error::Tls(error) => Self { why: error.to_string(), remedy: CHECK_TLS, is_transient: false },
            sqlx::Error::Database(error) => {
                let (code, message) = (error.code().unwrap_or_default(), error.message());
                let (remedy, is_transient) = of_code(&code, message);
                Self { why: message.to_owned(), remedy, is_transient }
            }
            other => Self { why: other.to_string(), remedy: CHECK_SERVER, is_transient: false },
        }
    }
}

/// The cause in lower case, without the number of the operating system.
fn cause_of(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such socket".to_owned(),
        kind @ (io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::TimedOut) => kind.to_string(),
        _ => error.to_string(),
    }
}

/// Remedy for an SQLSTATE code, and whether a later attempt may succeed (PostgreSQL: appendix A).
fn of_code(code: &str, message: &str) -> (&'static str, bool) {
    match code {
        "3D000" => ("create it (createdb), or correct the name in store.database-url (DATABASE_URL)", false),
        // The rejection by pg_hba.conf has the code of an unknown user, and this end.
        "28000" if message.ends_with("no encryption") => {
            ("add ?sslmode=verify-full to store.database-url (DATABASE_URL): the server requires TLS", false)
        }
        "28000" | "28P01" => (CHECK_USER, false),
        "53300" => ("raise max_connections of PostgreSQL, or lower store.connections of the servers", true),
        // The server starts, stops or recovers.
        "57P01" | "57P02" | "57P03" => ("wait until PostgreSQL has started", true),
        _ => (CHECK_SERVER, false),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn closed_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    #[tokio::test]
    async fn an_unreachable_server_is_named_with_the_cause_and_without_the_password() {
        let port = closed_port();
        let options = options(&format!("postgres://ann:hunter2@127.0.0.1:{port}/fleet")).unwrap();
        let error = wait_for(&options, Duration::ZERO).await.unwrap_err();
        let expected = format!(
            "cannot connect to PostgreSQL at 127.0.0.1:{port}, database fleet, as user ann: connection refused; check that \
             PostgreSQL runs there, and the address in store.database-url (DATABASE_URL)"
        );
        assert_eq!(error.to_string(), expected);
    }

    #[tokio::test]
    async fn an_unreachable_server_is_tried_again_after_a_pause() {
        let options = options(&format!("postgres://ann@127.0.0.1:{}/fleet", closed_port())).unwrap();
        let begun = Instant::now();
        wait_for(&options, PAUSE * 2).await.unwrap_err();
        // The second attempt begins after the first pause; a third one would begin after the wait.
        assert!(begun.elapsed() >= PAUSE, "{:?}", begun.elapsed());
    }

    #[test]
    fn a_url_of_another_database_is_refused_without_the_password() {
        for (url, part) in [
            ("mysql://root:hunter2@db/x", "does not begin with postgres://"),
            ("postgres://root:hunter2@db:port/x", "the URL of the database is invalid: invalid port number"),
        ] {
            let error = options(url).unwrap_err().to_string();
            assert!(error.contains(part) && error.ends_with("postgres://user@host:5432/database"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn each_refusal_of_a_server_has_its_remedy() {
        for (code, message, remedy, is_transient) in [
            ("3D000", "database \"nope\" does not exist", "create it", false),
            ("28P01", "password authentication failed for user \"ann\"", "the user and the password", false),
            ("28000", "role \"ann\" does not exist", "the user and the password", false),
            ("28000", "no pg_hba.conf entry for host \"::1\", user \"a\", database \"b\", no encryption", "TLS", false),
            ("53300", "sorry, too many clients already", "max_connections", true),
            ("57P03", "the database system is starting up", "has started", true),
        ] {
            let found = of_code(code, message);
            assert!(found.0.contains(remedy), "{message}: {}", found.0);
            assert_eq!(found.1, is_transient, "{message}");
        }
    }
}
