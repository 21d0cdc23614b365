//! A PostgreSQL of our own survives what happens to servers.

use std::path::PathBuf;

use super::*;
use crate::store::conformance::skipped;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone_already = fs::remove_dir_all(&self.0);
    }
}

fn folder(name: &str) -> Folder {
    Folder(std::env::temp_dir().join(format!("fw-own-{name}-{}", home::unguessable().unwrap())))
}

/// The installed PostgreSQL; says so when there is none.
fn installed(test: &str) -> Option<Binaries> {
    let found = find();
    if found.is_none() {
        skipped(test);
    }
    found
}

async fn rows(server: &OwnServer) -> i64 {
    let pool = sqlx::PgPool::connect(&server.url()).await.unwrap();
    sqlx::query("CREATE TABLE IF NOT EXISTS kept (n int)").execute(&pool).await.unwrap();
    sqlx::query("INSERT INTO kept VALUES (1)").execute(&pool).await.unwrap();
    let count = sqlx::query_scalar("SELECT count(*) FROM kept").fetch_one(&pool).await.unwrap();
    pool.close().await;
    count
}

#[tokio::test]
async fn what_was_committed_is_there_after_a_stop_a_crash_and_an_adoption() {
    let Some(binaries) = installed("what_was_committed_is_there_after_a_stop_a_crash_and_an_adoption") else {
        return;
    };
    let folder = folder("lasting");
    let start = || OwnServer::start(&binaries, &folder.0).unwrap();
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
    // What a killed server leaves: PostgreSQL without a parent that waits for it, and no lock.
    server._lock.unlock().unwrap();
    let adopted = start();
    assert!(adopted.adopted());
    assert_eq!(process::postmaster(&adopted.data()), child);
    assert_eq!(rows(&adopted).await, 4, "after an adoption");
    drop(adopted);
    assert_eq!(process::postmaster(&server.data()), None, "whoever adopted it stops it");
}

#[test]
fn a_folder_serves_one_server() {
    let Some(binaries) = installed("a_folder_serves_one_server") else { return };
    let folder = folder("one");
    let start = || OwnServer::start(&binaries, &folder.0);
    let first = start().unwrap();
    assert!(matches!(start(), Err(OwnError::InUse { .. })));
    drop(first);
    start().unwrap();
}

#[test]
fn data_of_another_version_is_left_alone() {
    let Some(binaries) = installed("data_of_another_version_is_left_alone") else { return };
    let folder = folder("version");
    let home = home::claim(&folder.0).unwrap();
    fs::create_dir_all(home.join("data")).unwrap();
    fs::write(home.join("data/PG_VERSION"), "9\n").unwrap();
    let refused = OwnServer::start(&binaries, &folder.0).unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("made by PostgreSQL 9") && told.contains(&binaries.major), "{told}");
}

#[test]
fn a_stale_file_with_the_number_of_somebody_else_hinders_nobody() {
    let Some(binaries) = installed("a_stale_file_with_the_number_of_somebody_else_hinders_nobody") else { return };
    let folder = folder("stale");
    let mut server = OwnServer::start(&binaries, &folder.0).unwrap();
    server.stop().unwrap();
    // This process lives, and is no PostgreSQL.
    let pid = server.data().join("postmaster.pid");
    fs::write(&pid, format!("{}\n{}\n", std::process::id(), server.data().display())).unwrap();
    fs::write(server.socket().join(".s.PGSQL.5432.lock"), format!("{}\n", std::process::id())).unwrap();
    server.restart().unwrap();
    assert!(!server.adopted());
}

#[test]
fn what_an_interrupted_creation_left_is_made_again() {
    let Some(binaries) = installed("what_an_interrupted_creation_left_is_made_again") else { return };
    let folder = folder("interrupted");
    fs::create_dir_all(home::claim(&folder.0).unwrap().join("data.new/base")).unwrap();
    OwnServer::start(&binaries, &folder.0).unwrap();
}

#[test]
fn a_path_too_long_for_a_socket_is_refused_with_the_limit() {
    let Some(binaries) = installed("a_path_too_long_for_a_socket_is_refused_with_the_limit") else { return };
    let folder = folder(&"long".repeat(25));
    let refused = OwnServer::start(&binaries, &folder.0).unwrap_err();
    assert!(refused.to_string().contains("at most 90 bytes"), "{refused}");
}

#[test]
fn a_start_that_finds_its_memory_held_says_so_however_much_is_said_after() {
    let test = "a_start_that_finds_its_memory_held_says_so_however_much_is_said_after";
    let Some(binaries) = installed(test) else { return };
    let fresh = home::fresh(&std::env::temp_dir()).unwrap();
    let mut server = OwnServer::start_in(&binaries, fresh, Purpose::Throwaway).unwrap();
    assert!(!server.still_held());
    let mut dying = File::options().append(true).open(server.log()).unwrap();
    let lines = format!("FATAL:  pre-existing shared memory block is still in use\n{}", "LOG:  more\n".repeat(9));
    io::Write::write_all(&mut dying, lines.as_bytes()).unwrap();
    assert!(server.still_held());
    server.kill().unwrap();
    server.restart().unwrap();
    io::Write::write_all(&mut dying, lines.as_bytes()).unwrap();
    assert!(!server.still_held(), "what sessions of the killed one say is not in the log of the next");
}

fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions()) & 0o777
}

#[test]
fn a_folder_that_holds_something_else_is_refused_and_left_as_it_is() {
    let folder = folder("foreign");
    fs::create_dir_all(folder.0.join("www")).unwrap();
    fs::write(folder.0.join("lock"), "somebody's").unwrap();
    let before = mode(&folder.0);
    let refused = home::claim(&folder.0).unwrap_err();
    assert!(matches!(&refused, OwnError::NotOurs { .. }) && refused.to_string().contains("not empty"), "{refused}");
    assert_eq!(fs::read_to_string(folder.0.join("lock")).unwrap(), "somebody's");
    assert_eq!(mode(&folder.0), before);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2, "nothing was added");
}

#[test]
fn an_empty_folder_keeps_its_permissions_and_is_ours_from_then_on() {
    let folder = folder("empty");
    fs::create_dir_all(&folder.0).unwrap();
    let before = mode(&folder.0);
    let home = home::claim(&folder.0).unwrap();
    assert_eq!((mode(&folder.0), mode(&home)), (before, 0o700));
    fs::write(home.join("something"), "").unwrap();
    assert_eq!(home::claim(&folder.0).unwrap(), home);
}

#[test]
fn a_throw_away_server_listens_on_no_port_in_a_folder_that_only_its_user_enters() {
    let test = "a_throw_away_server_listens_on_no_port_in_a_folder_that_only_its_user_enters";
    if installed(test).is_none() {
        return;
    }
    let server = OwnServer::throwaway().unwrap().unwrap();
    assert_eq!(mode(&server.folder), 0o700);
    let options = fs::read_to_string(server.data().join("postmaster.opts")).unwrap();
    assert!(options.contains("\"listen_addresses=\""), "{options}");
    let rules = fs::read_to_string(server.data().join("pg_hba.conf")).unwrap();
    let host = rules.lines().filter(|line| line.starts_with("host"));
    assert!(host.clone().count() > 0 && host.clone().all(|line| line.ends_with("reject")), "{rules}");
}
