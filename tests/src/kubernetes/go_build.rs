//! Builds the Go control plane from `tests/control-plane` once, and caches it.
//!
//! Only the program is cached, under a hash of its inputs; Go's own build cache is independent.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

use super::Unavailable;

/// The oldest Go that can build the control plane.
const MIN_GO_VERSION: Version = (1, 26, 8);
/// Kubernetes' version. Without these flags the server reports v0.0.0, which clients cannot parse.
const VERSION: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.1 \
                       -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37";
/// Flags of every build; they are part of the key of Go's build cache.
const FLAGS: &str = "-trimpath -buildvcs=false";
/// Timeout of a build: a clean one takes 800 seconds of one core.
const TIMEOUT: Duration = Duration::from_secs(45 * 60);
const PROGRESS: Duration = Duration::from_secs(20);
/// Number of packages in a clean build, for progress messages.
const PACKAGES: usize = 2_530;

/// Major, minor, patch.
type Version = (u32, u32, u32);

/// The cached program, built if necessary.
///
/// # Errors
/// [`Unavailable`] without a recent Go; anything else when the build fails.
pub(super) fn find_or_build() -> anyhow::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("control-plane");
    let go = find_go(&std::env::var_os("PATH").unwrap_or_default(), Path::new("/usr/local/go/bin"))?;
    let cached = cache_folder()?.join(format!("control-plane-{}", fingerprint(&source, &go.version)?));
    if !cached.is_file() {
        build(&go.path, &source, &cached)?;
    }
    Ok(cached)
}

struct Go {
    path: PathBuf,
    version: String,
}

/// The first recent Go in the folders of `path`, then in `usual`, where Go's own installer puts it.
fn find_go(path: &OsStr, usual: &Path) -> Result<Go, Unavailable> {
    let folders = std::env::split_paths(path).chain([usual.to_owned()]);
    let mut found = Vec::new();
    for path in folders.map(|folder| folder.join("go")).filter(|path| path.is_file()) {
        let message = Command::new(&path).arg("version").env("GOTOOLCHAIN", "local").output();
        let Ok(message) = message else { continue };
        let version = String::from_utf8_lossy(&message.stdout).trim().to_owned();
        if parse_version(&version).is_some_and(|version| version >= MIN_GO_VERSION) {
            return Ok(Go { path, version });
        }
        found.push(format!("{}: {version}", path.display()));
    }
    let (major, minor, patch) = MIN_GO_VERSION;
    let found = if found.is_empty() { "no Go on the PATH".to_owned() } else { found.join(", ") };
    Err(Unavailable(format!("building the control plane needs Go {major}.{minor}.{patch} or newer; there is {found}")))
}

/// Parses the output of `go version`, such as `go version go1.26.8 linux/amd64`.
fn parse_version(message: &str) -> Option<Version> {
    let mut numbers = message.split_whitespace().nth(2)?.strip_prefix("go")?.split('.');
    let mut next = || numbers.next().map_or(Some(0), |number| number.parse().ok());
    Some((next()?, next()?, next()?))
}

fn cache_folder() -> anyhow::Result<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")));
    let folder = base
        .context("neither XDG_CACHE_HOME nor HOME is set, so there is no folder for the program")?
        .join("fleetwright");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    Ok(folder)
}

/// Hash of all inputs of the program.
fn fingerprint(source: &Path, go: &str) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    };
    add(go.as_bytes());
    add(FLAGS.as_bytes());
    add(VERSION.as_bytes());
    let entries = fs::read_dir(source).with_context(|| format!("cannot read {}", source.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|file| {
        file.extension().is_some_and(|ending| ["go", "mod", "sum"].iter().any(|known| ending == *known))
    });
    files.sort();
    for file in files {
        add(file.file_name().unwrap_or_default().as_encoded_bytes());
        add(&fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?);
    }
    Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

fn build(go: &Path, source: &Path, cached: &Path) -> anyhow::Result<()> {
    let fresh = cached.with_extension(std::process::id().to_string());
    eprintln!("building the Kubernetes control plane for tests; the first time it takes minutes");
    let mut command = Command::new(go);
    command.args(["build", "-v", "-ldflags", VERSION, "-o"]).arg(&fresh).arg(".").current_dir(source);
    command.env("CGO_ENABLED", "0").env("GOFLAGS", FLAGS).env("GOTOOLCHAIN", "local");
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().context("cannot start Go")?;
    let message = follow_build(&mut child)?;
    let status = child.wait().context("cannot wait for Go")?;
    ensure!(status.success(), "the control plane does not build ({status}); Go's last lines:\n{}", message.join("\n"));
    fs::rename(&fresh, cached).with_context(|| format!("cannot keep the program as {}", cached.display()))
}

/// Follows a build to its end; returns the last lines that it wrote.
fn follow_build(child: &mut Child) -> anyhow::Result<Vec<String>> {
    const LAST: usize = 30;
    let lines = lines(child.stderr.take().context("Go's standard error is not piped")?);
    let (start, mut message, mut packages) = (Instant::now(), Instant::now(), 0);
    let mut last = Vec::new();
    loop {
        match lines.recv_timeout(PROGRESS) {
            Ok(line) => {
                packages += 1;
                last.push(line);
                last.drain(..last.len().saturating_sub(LAST));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(last),
        }
        if message.elapsed() > PROGRESS {
            message = Instant::now();
            let seconds = start.elapsed().as_secs();
            eprintln!("building the control plane: {packages} of at most {PACKAGES} packages after {seconds} s");
        }
        if start.elapsed() > TIMEOUT {
            let _ended_already = child.kill();
            bail!("the control plane has not been built after {TIMEOUT:?}; Go's last lines:\n{}", last.join("\n"));
        }
    }
}

fn lines<R: Read + Send + 'static>(stream: R) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _no_receiver = sender.send(line);
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_go_version_is_read_from_what_go_prints() {
        assert_eq!(parse_version("go version go1.26.8 linux/amd64"), Some((1, 26, 8)));
        assert_eq!(parse_version("go version go1.27 linux/arm64"), Some((1, 27, 0)));
        assert_eq!(parse_version("go version devel"), None);
        assert!(parse_version("go version go1.26.7 linux/amd64") < Some(MIN_GO_VERSION));
    }

    /// A folder with a fake program `go` of this version.
    fn go(version: &str) -> crate::TempDir {
        use std::os::unix::fs::PermissionsExt;
        let folder = crate::TempDir::new();
        let path = folder.write_file("go", format!("#!/bin/sh\necho go version go{version} linux/amd64\n"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    #[test]
    fn a_go_that_is_too_old_is_ignored_and_a_missing_go_is_reported() {
        let (old, fit, none) = (go("1.26.7"), go("1.26.8"), crate::TempDir::new());
        let path = std::env::join_paths([none.path(), old.path(), fit.path()]).unwrap();
        assert_eq!(find_go(&path, none.path()).unwrap().path, fit.path().join("go"));
        assert_eq!(find_go(old.path().as_os_str(), fit.path()).unwrap().path, fit.path().join("go"));
        let message = |path: &Path| find_go(path.as_os_str(), none.path()).err().unwrap().to_string();
        assert!(
            message(old.path()).contains("Go 1.26.8 or newer; there is") && message(old.path()).contains("go1.26.7")
        );
        assert!(message(none.path()).contains("no Go on the PATH"));
    }

    #[test]
    fn the_name_of_a_program_changes_with_any_file_and_with_the_compiler() {
        let folder = crate::TempDir::new();
        let write = |name: &str, content: &str| fs::write(folder.path().join(name), content).unwrap();
        write("go.mod", "module x");
        write("main.go", "package main");
        write("README.md", "one");
        let name = |go: &str| fingerprint(folder.path(), go).unwrap();
        let first = name("go1.26.8");
        assert_ne!(first, name("go1.26.9"));
        write("README.md", "two");
        assert_eq!(first, name("go1.26.8"));
        write("main.go", "package main // changed");
        assert_ne!(first, name("go1.26.8"));
    }
}
