//! Modules of Go, read from Go's cache.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::TempDir;

/// For some megabytes; a machine whose network swallows packets must not hold up other tests.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(120);

/// Where Go's own installer puts it.
const USUAL: &str = "/usr/local/go/bin";

/// The folder of a module, such as `sigs.k8s.io/karpenter@v1.8.0`, in Go's cache, downloaded if it is not there.
///
/// # Errors
/// Why the module is not on this machine: no Go, or no network.
pub fn module_folder(module: &str) -> Result<PathBuf, String> {
    let (folder, output) = (TempDir::new(), TempDir::new());
    let output = output.path().join("module.json");
    let file = std::fs::File::create(&output).map_err(|error| error.to_string())?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("go");
    // Outside of any module, and with the Go that is installed.
    command.args(["mod", "download", "-json", module]).current_dir(folder.path()).env("GOTOOLCHAIN", "local");
    command.env("PATH", format!("{path}:{USUAL}")).stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("no Go is installed: {error}"))?;
    let deadline = Instant::now() + DOWNLOAD_LIMIT;
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if Instant::now() > deadline {
            let _ended_already = child.kill();
            let _status = child.wait();
            return Err(format!("go mod download {module} has not ended after {DOWNLOAD_LIMIT:?}"));
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let text = std::fs::read_to_string(&output).map_err(|error| error.to_string())?;
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let no_module = || format!("go mod download {module}: {}", answer["Error"].as_str().unwrap_or("no answer"));
    answer["Dir"].as_str().map(PathBuf::from).ok_or_else(no_module)
}
