//! User and processes of a local PostgreSQL.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::error::{LocalPostgresError, io_error};

/// Command for `program`, as a user that PostgreSQL accepts. With `kill_with_parent` it ends with
/// the thread that started it.
pub(super) fn command(program: &Path, kill_with_parent: bool) -> Result<Command, LocalPostgresError> {
    let user = postgres_user()?;
    if user.is_none() && !kill_with_parent {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("setpriv");
    if let Some(user) = user {
        command.args([&format!("--reuid={}", user.id), &format!("--regid={}", user.group), "--clear-groups"]);
    }
    if kill_with_parent {
        command.args(["--pdeathsig", "QUIT"]);
    }
    command.arg(program);
    Ok(command)
}

/// Puts the process into its own group: terminal signals must not reach PostgreSQL, which outlives
/// this process.
pub(super) fn detach_from_terminal(command: &mut Command) {
    command.process_group(0);
}

/// Gives the directory to the user of PostgreSQL, with mode 0700.
pub(super) fn hand_over(folder: &Path) -> Result<(), LocalPostgresError> {
    let private = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o700);
    fs::set_permissions(folder, private).map_err(io_error("protect", folder))?;
    let Some(user) = postgres_user()? else { return Ok(()) };
    for path in [folder.to_owned(), folder.join("socket")] {
        std::os::unix::fs::chown(&path, Some(user.id), Some(user.group)).map_err(io_error("give away", &path))?;
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct User {
    id: u32,
    group: u32,
}

/// The user to run PostgreSQL as; `None` when this process is not root. Only `postgres` is used: as
/// `nobody`, every daemon of that user would control the database.
fn postgres_user() -> Result<Option<User>, LocalPostgresError> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    if ids.and_then(|ids| ids.split_whitespace().nth(1)) != Some("0") {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    postgres(&users).map(Some).ok_or(LocalPostgresError::NoUser)
}

fn postgres(users: &str) -> Option<User> {
    users.lines().find_map(|line| user(line, "postgres"))
}

/// Parses `name:password:id:group:…`.
fn user(line: &str, name: &str) -> Option<User> {
    let mut fields = line.split(':');
    if fields.next() != Some(name) {
        return None;
    }
    Some(User { id: fields.nth(1)?.parse().ok()?, group: fields.next()?.parse().ok()? })
}

/// Pid of the postmaster of `data`. The pid file alone is no proof, because pids are reused,
/// soonest in containers; the working directory is compared as well.
pub(super) fn postmaster_pid(data: &Path) -> Option<u32> {
    let file = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let pid: u32 = file.lines().next()?.trim().parse().ok()?;
    let works_in = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    (works_in == data).then_some(pid)
}

/// Runs a program to its end and checks its status.
pub(super) fn run_checked(command: &mut Command) -> Result<(), LocalPostgresError> {
    let program = command.get_program().to_owned();
    let ended = command.stdin(Stdio::null()).output().map_err(io_error("run", Path::new(&program)))?;
    if ended.status.success() {
        return Ok(());
    }
    let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = format!("{} {}", program.to_string_lossy(), words.join(" "));
    Err(LocalPostgresError::Failed { program, output: String::from_utf8_lossy(&ended.stderr).trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::{User, postgres};

    #[test]
    fn root_hands_over_to_postgres_and_to_nobody_else() {
        let nobody = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";
        assert_eq!(postgres(nobody), None);
        let debian = format!("{nobody}postgres:x:101:104:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash\n");
        assert_eq!(postgres(&debian), Some(User { id: 101, group: 104 }));
    }
}
