//! A PostgreSQL of our own survives what happens to servers.

use std::path::PathBuf;

use super::*;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone_already = fs::remove_dir_all(&self.0);
    }
}

fn folder(name: &str) -> Folder {
    Folder(std::env::temp_dir().join(format!("fw-own-{name}-{}", process::unique())))
}

/// The installed PostgreSQL; says so when there is none.
fn installed(test: &str) -> Option<Binaries> {
    let found = find();
    if found.is_none() {
        // Written past the test harness, which shows what a passing test prints only when asked.
        let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("SKIPPED {test}: no postgres binary here\n"));
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
    let start = || OwnServer::start(&binaries, &folder.0, Purpose::Lasting).unwrap();
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
    let start = || OwnServer::start(&binaries, &folder.0, Purpose::Lasting);
    let first = start().unwrap();
    assert!(matches!(start(), Err(OwnError::InUse { .. })));
    drop(first);
    start().unwrap();
}

#[test]
fn data_of_another_version_is_left_alone() {
    let Some(binaries) = installed("data_of_another_version_is_left_alone") else { return };
    let folder = folder("version");
    fs::create_dir_all(folder.0.join("data")).unwrap();
    fs::write(folder.0.join("data/PG_VERSION"), "9\n").unwrap();
    let refused = OwnServer::start(&binaries, &folder.0, Purpose::Lasting).unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("made by PostgreSQL 9") && told.contains(&binaries.major), "{told}");
}

#[test]
fn a_stale_file_with_the_number_of_somebody_else_hinders_nobody() {
    let Some(binaries) = installed("a_stale_file_with_the_number_of_somebody_else_hinders_nobody") else { return };
    let folder = folder("stale");
    let mut server = OwnServer::start(&binaries, &folder.0, Purpose::Lasting).unwrap();
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
    fs::create_dir_all(folder.0.join("data.new/base")).unwrap();
    OwnServer::start(&binaries, &folder.0, Purpose::Lasting).unwrap();
}

#[test]
fn a_path_too_long_for_a_socket_is_refused_with_the_limit() {
    let Some(binaries) = installed("a_path_too_long_for_a_socket_is_refused_with_the_limit") else { return };
    let folder = folder(&"long".repeat(25));
    let refused = OwnServer::start(&binaries, &folder.0, Purpose::Lasting).unwrap_err();
    assert!(refused.to_string().contains("at most 90 bytes"), "{refused}");
}

#[test]
fn a_start_that_finds_its_memory_held_says_so_however_much_is_said_after() {
    let test = "a_start_that_finds_its_memory_held_says_so_however_much_is_said_after";
    let Some(binaries) = installed(test) else { return };
    let folder = folder("held");
    let mut server = OwnServer::start(&binaries, &folder.0, Purpose::Throwaway).unwrap();
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
