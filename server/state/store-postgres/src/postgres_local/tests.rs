//! A local PostgreSQL survives the crashes and restarts of servers.

use std::path::PathBuf;

use super::*;
use crate::conformance::skipped;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone_already = fs::remove_dir_all(&self.0);
    }
}

fn folder(name: &str) -> Folder {
    Folder(std::env::temp_dir().join(format!("fw-own-{name}-{}", data_dir::random_suffix().unwrap())))
}

/// The installed PostgreSQL; reports the test as skipped when there is none.
fn installed(test: &str) -> Option<Binaries> {
    let found = find();
    if found.is_none() {
        skipped(test);
    }
    found
}

async fn rows(server: &LocalPostgres) -> i64 {
    let pool = sqlx::PgPool::connect(&server.url()).await.unwrap();
    sqlx::query("CREATE TABLE IF NOT EXISTS kept (n int)").execute(&pool).await.unwrap();
    sqlx::query("INSERT INTO kept VALUES (1)").execute(&pool).await.unwrap();
    let count = sqlx::query_scalar("SELECT count(*) FROM kept").fetch_one(&pool).await.unwrap();
    pool.close().await;
    count
}

#[tokio::test]
async fn committed_data_survives_a_stop_a_crash_and_an_adoption() {
    let Some(binaries) = installed("committed_data_survives_a_stop_a_crash_and_an_adoption") else {
        return;
    };
    let folder = folder("lasting");
    let start = || LocalPostgres::start(&binaries, &folder.0).unwrap();
    let mut server = start();
    assert_eq!(rows(&server).await, 1);
    server.stop().unwrap();
    server.restart().unwrap();
    assert_eq!(rows(&server).await, 2, "after a stop in order");
    server.kill().unwrap();
    assert!(server.data().join("postmaster.pid").exists(), "a crash leaves its file behind");
    server.restart().unwrap();
    assert_eq!(rows(&server).await, 3, "after a crash");
    assert!(!server.adopted());

    let child = server.child.take().map(|child| child.id());
    // State after a killed server: PostgreSQL without a waiting parent, and no lock.
    server._lock.unlock().unwrap();
    let adopted = start();
    assert!(adopted.adopted());
    assert_eq!(process::postmaster_pid(&adopted.data()), child);
    assert_eq!(rows(&adopted).await, 4, "after an adoption");
    drop(adopted);
    assert_eq!(process::postmaster_pid(&server.data()), None, "the adopting server stops it");
}

#[test]
fn a_folder_serves_one_server() {
    let Some(binaries) = installed("a_folder_serves_one_server") else { return };
    let folder = folder("one");
    let start = || LocalPostgres::start(&binaries, &folder.0);
    let first = start().unwrap();
    assert!(matches!(start(), Err(LocalPostgresError::InUse { .. })));
    drop(first);
    start().unwrap();
}

#[test]
fn data_of_another_version_is_rejected() {
    let Some(binaries) = installed("data_of_another_version_is_rejected") else { return };
    let folder = folder("version");
    let home = data_dir::prepare(&folder.0).unwrap();
    fs::create_dir_all(home.join("data")).unwrap();
    fs::write(home.join("data/PG_VERSION"), "9\n").unwrap();
    let error = LocalPostgres::start(&binaries, &folder.0).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("made by PostgreSQL 9") && message.contains(&binaries.major), "{message}");
}

#[test]
fn a_stale_pid_file_of_another_process_is_ignored() {
    let Some(binaries) = installed("a_stale_pid_file_of_another_process_is_ignored") else { return };
    let folder = folder("stale");
    let mut server = LocalPostgres::start(&binaries, &folder.0).unwrap();
    server.stop().unwrap();
    // The pid of this process: alive, but no PostgreSQL.
    let pid = server.data().join("postmaster.pid");
    fs::write(&pid, format!("{}\n{}\n", std::process::id(), server.data().display())).unwrap();
    fs::write(server.socket().join(".s.PGSQL.5432.lock"), format!("{}\n", std::process::id())).unwrap();
    server.restart().unwrap();
    assert!(!server.adopted());
}

#[test]
fn an_interrupted_initialization_is_repeated() {
    let Some(binaries) = installed("an_interrupted_initialization_is_repeated") else { return };
    let folder = folder("interrupted");
    fs::create_dir_all(data_dir::prepare(&folder.0).unwrap().join("data.new/base")).unwrap();
    LocalPostgres::start(&binaries, &folder.0).unwrap();
}

#[test]
fn a_path_too_long_for_a_socket_is_rejected_with_the_limit() {
    let Some(binaries) = installed("a_path_too_long_for_a_socket_is_rejected_with_the_limit") else { return };
    let folder = folder(&"long".repeat(25));
    let error = LocalPostgres::start(&binaries, &folder.0).unwrap_err();
    assert!(error.to_string().contains("at most 90 bytes"), "{error}");
}

#[test]
fn held_shared_memory_is_detected_in_any_line_of_the_log() {
    let test = "held_shared_memory_is_detected_in_any_line_of_the_log";
    let Some(binaries) = installed(test) else { return };
    let fresh = data_dir::create_temporary(&std::env::temp_dir()).unwrap();
    let mut server = LocalPostgres::start_in(&binaries, fresh, ServerKind::Temporary).unwrap();
    assert!(!server.shared_memory_in_use());
    let mut dying = File::options().append(true).open(server.log()).unwrap();
    let lines = format!("FATAL:  pre-existing shared memory block is still in use\n{}", "LOG:  more\n".repeat(9));
    io::Write::write_all(&mut dying, lines.as_bytes()).unwrap();
    assert!(server.shared_memory_in_use());
    server.kill().unwrap();
    server.restart().unwrap();
    io::Write::write_all(&mut dying, lines.as_bytes()).unwrap();
    assert!(!server.shared_memory_in_use(), "output of the killed server's sessions is not in the next log");
}

fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions()) & 0o777
}

#[test]
fn a_folder_with_unknown_contents_is_rejected_and_unchanged() {
    let folder = folder("foreign");
    fs::create_dir_all(folder.0.join("www")).unwrap();
    fs::write(folder.0.join("lock"), "somebody's").unwrap();
    let before = mode(&folder.0);
    let error = data_dir::prepare(&folder.0).unwrap_err();
    assert!(
        matches!(&error, LocalPostgresError::UnknownContents { .. }) && error.to_string().contains("not empty"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(folder.0.join("lock")).unwrap(), "somebody's");
    assert_eq!(mode(&folder.0), before);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2, "nothing was added");
}

#[test]
fn an_empty_folder_keeps_its_permissions_and_gets_the_marker() {
    let folder = folder("empty");
    fs::create_dir_all(&folder.0).unwrap();
    let before = mode(&folder.0);
    let home = data_dir::prepare(&folder.0).unwrap();
    assert_eq!((mode(&folder.0), mode(&home)), (before, 0o700));
    fs::write(home.join("something"), "").unwrap();
    assert_eq!(data_dir::prepare(&folder.0).unwrap(), home);
}

#[test]
fn a_temporary_server_opens_no_port_in_a_private_folder() {
    let test = "a_temporary_server_opens_no_port_in_a_private_folder";
    if installed(test).is_none() {
        return;
    }
    let server = LocalPostgres::temporary().unwrap().unwrap();
    assert_eq!(mode(&server.folder), 0o700);
    let options = fs::read_to_string(server.data().join("postmaster.opts")).unwrap();
    assert!(options.contains("\"listen_addresses=\""), "{options}");
    let rules = fs::read_to_string(server.data().join("pg_hba.conf")).unwrap();
    let host = rules.lines().filter(|line| line.starts_with("host"));
    assert!(host.clone().count() > 0 && host.clone().all(|line| line.ends_with("reject")), "{rules}");
}
