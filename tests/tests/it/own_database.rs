//! `fleetwright serve` without a configured database: it runs a local PostgreSQL process, whose
//! data survive a kill of the server.

use std::path::{Path, PathBuf};

use e2e::postgres::installed;
use e2e::{Program, RunningProcess, TempDir};

use crate::{SIMULATOR, TIMEOUT, simulator};

fn serve(data: &str) -> RunningProcess {
    let arguments = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--store-data-dir", data];
    Program::new(SIMULATOR, &arguments).env("FLEETWRIGHT_STORE_MEMORY", "false").start()
}

/// Id of the PostgreSQL process that the server started.
fn postmaster(data: &Path) -> Option<u32> {
    let file = std::fs::read_to_string(data.join("postgres/data/postmaster.pid")).ok()?;
    file.lines().next()?.trim().parse().ok()
}

/// A folder for the database of a server.
fn data_in(folder: &TempDir) -> PathBuf {
    folder.path().join("store")
}

/// A server that receives SIGTERM as soon as it has a database, long before it accepts connections.
#[test]
fn a_server_that_is_stopped_while_it_starts_shuts_down_in_order() {
    if installed("a_server_that_is_stopped_while_it_starts_shuts_down_in_order").is_none() {
        return;
    }
    let folder = TempDir::new();
    let data = data_in(&folder);
    let server = serve(&data.display().to_string());
    let _told = server.wait_for_line(&["PostgreSQL"], TIMEOUT);
    assert_eq!(server.stop(TIMEOUT), 0);
    assert_eq!(postmaster(&data), None, "and its PostgreSQL with it");
}

#[test]
fn its_own_database_is_adopted_after_a_kill_started_after_a_crash_and_stopped_in_order() {
    let test = "its_own_database_is_adopted_after_a_kill_started_after_a_crash_and_stopped_in_order";
    if installed(test).is_none() {
        return;
    }
    let folder = TempDir::new();
    let data = data_in(&folder);
    let path = data.display().to_string();
    let up = |server: &RunningProcess, how: &str| {
        let output = server.wait_for_line(&["PostgreSQL"], TIMEOUT);
        assert!(output.contains(how) && !output.contains("error"), "{output}");
        let _addresses = server.wait_for_line(&["dashboard"], TIMEOUT);
    };

    let first = serve(&path);
    up(&first, "started");
    let database = postmaster(&data);
    assert!(database.is_some());
    drop(first); // kills it: no signal handler runs

    let second = serve(&path);
    up(&second, "adopted");
    assert_eq!(postmaster(&data), database, "the same PostgreSQL goes on");
    drop(second);
    let kill = format!("kill -9 {}", database.unwrap());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());

    let third = serve(&path);
    up(&third, "started");
    assert_ne!(postmaster(&data), database);
    assert_eq!(third.stop(TIMEOUT), 0);
    assert_eq!(postmaster(&data), None, "a server that ends in order stops its PostgreSQL");
}

#[test]
fn a_folder_of_another_owner_is_rejected_and_unchanged() {
    if installed("a_folder_of_another_owner_is_rejected_and_unchanged").is_none() {
        return;
    }
    let folder = TempDir::new();
    let theirs = folder.write_file("lock", "theirs");
    let data = folder.path().display().to_string();
    let arguments =
        ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--store-data-dir", &data];
    let ended = Program::new(SIMULATOR, &arguments).env("FLEETWRIGHT_STORE_MEMORY", "false").run(TIMEOUT);
    assert_eq!(ended.status, 3, "{}", ended.stderr);
    assert!(ended.stderr.contains("is not empty and was not created by Fleetwright"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(theirs).unwrap(), "theirs");
}

#[test]
fn no_database_is_made_for_a_server_whose_address_another_process_has() {
    if installed("no_database_is_made_for_a_server_whose_address_another_process_has").is_none() {
        return;
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (address, free) = (taken.local_addr().expect("it listens").to_string(), "127.0.0.1:0");
    let folder = TempDir::new();
    let data = data_in(&folder);
    let path = data.display().to_string();
    for [grpc, http] in [[address.as_str(), free], [free, address.as_str()]] {
        let store = ["serve", "--dev", "--store-memory", "false", "--store-data-dir", &path];
        let listeners = ["--listen-grpc", grpc, "--listen-http", http];
        let ended = simulator(&[&store[..], &listeners[..]].concat());
        assert_eq!(ended.status, 3, "{}", ended.stderr);
        assert!(ended.stderr.contains(&format!("cannot listen on {address}")), "{}", ended.stderr);
        assert!(!ended.stderr.contains("PostgreSQL"), "none is started: {}", ended.stderr);
        assert!(!data.exists(), "nothing is in the folder of its database: {}", ended.stderr);
    }
}
