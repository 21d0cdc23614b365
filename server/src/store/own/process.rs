//! Who runs PostgreSQL, and whether it runs.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{OwnError, system};

/// `program`, as a user that PostgreSQL agrees to. `tied`: it ends when the thread that started it ends.
pub(super) fn command(program: &Path, tied: bool) -> Result<Command, OwnError> {
    let user = stand_in()?;
    if user.is_none() && !tied {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("setpriv");
    if let Some(user) = user {
        command.args([&format!("--reuid={}", user.id), &format!("--regid={}", user.group), "--clear-groups"]);
    }
    if tied {
        command.args(["--pdeathsig", "QUIT"]);
    }
    command.arg(program);
    Ok(command)
}

/// Signals for our terminal are not for PostgreSQL, which must outlive our own end.
pub(super) fn apart(command: &mut Command) {
    command.process_group(0);
}

/// Gives the folder to whoever runs PostgreSQL, and to nobody else.
pub(super) fn give(folder: &Path) -> Result<(), OwnError> {
    let private = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o700);
    fs::set_permissions(folder, private).map_err(system("protect", folder))?;
    let Some(user) = stand_in()? else { return Ok(()) };
    for path in [folder.to_owned(), folder.join("socket")] {
        std::os::unix::fs::chown(&path, Some(user.id), Some(user.group)).map_err(system("give away", &path))?;
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct User {
    id: u32,
    group: u32,
}

/// The user in place of root; `None` when this process is not root. It is `postgres` and nobody else: every daemon that runs
/// as `nobody` would be the master of a PostgreSQL that does.
fn stand_in() -> Result<Option<User>, OwnError> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    if ids.and_then(|ids| ids.split_whitespace().nth(1)) != Some("0") {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    postgres(&users).map(Some).ok_or(OwnError::NoUser)
}

fn postgres(users: &str) -> Option<User> {
    users.lines().find_map(|line| user(line, "postgres"))
}

/// From `name:password:id:group:…`.
fn user(line: &str, name: &str) -> Option<User> {
    let mut fields = line.split(':');
    if fields.next() != Some(name) {
        return None;
    }
    Some(User { id: fields.nth(1)?.parse().ok()?, group: fields.next()?.parse().ok()? })
}

/// The process that serves `data`, if one does. Its file alone proves nothing: numbers of processes are used again, soonest
/// in containers.
pub(super) fn postmaster(data: &Path) -> Option<u32> {
    let file = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let pid: u32 = file.lines().next()?.trim().parse().ok()?;
    let works_in = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    (works_in == data).then_some(pid)
}

/// Runs a program to its end.
pub(super) fn succeed(command: &mut Command) -> Result<(), OwnError> {
    let program = command.get_program().to_owned();
    let ended = command.stdin(Stdio::null()).output().map_err(system("run", Path::new(&program)))?;
    if ended.status.success() {
        return Ok(());
    }
    let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = format!("{} {}", program.to_string_lossy(), words.join(" "));
    Err(OwnError::Failed { program, said: String::from_utf8_lossy(&ended.stderr).trim().to_owned() })
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
