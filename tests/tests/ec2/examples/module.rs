//! The examples of Karpenter's AWS provider, from its Go module.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::TempDir;
use fleetwright_proto::v1::ObjectKind;
use serde_json::Value;

/// The version whose examples the expectations are written for.
pub(super) const MODULE: &str = "github.com/aws/karpenter-provider-aws@v1.14.1";

/// For 2.5 MB; a machine whose network swallows packets must not hold up the other tests.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(120);

/// Where Go's own installer puts it.
const USUAL: &str = "/usr/local/go/bin";

/// The variable that the examples have replaced before they are applied, by their README.
const CLUSTER_NAME: &str = "${CLUSTER_NAME}";

/// A file of the folder `examples`.
#[derive(Debug)]
pub(super) struct Example {
    /// Path below that folder.
    pub(super) path: String,
    /// NodePools and EC2NodeClasses.
    pub(super) objects: Vec<(ObjectKind, Value)>,
}

/// All files with NodePools or EC2NodeClasses, by path, for the cluster `cluster`.
///
/// # Errors
/// Why the module is not on this machine: no Go, or no network.
pub(super) fn examples(cluster: &str) -> Result<Vec<Example>, String> {
    let folder = module_folder()?.join("examples");
    let mut files = Vec::new();
    find(&folder, &mut files);
    files.sort();
    let read = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).unwrap().replace(CLUSTER_NAME, cluster);
        let path = file.strip_prefix(&folder).unwrap().display().to_string();
        Example { objects: objects(&path, &text), path }
    };
    Ok(files.iter().map(read).filter(|example| !example.objects.is_empty()).collect())
}

/// The module in Go's cache, downloaded if it is not there.
fn module_folder() -> Result<PathBuf, String> {
    let (folder, output) = (TempDir::new(), TempDir::new());
    let output = output.path().join("module.json");
    let file = std::fs::File::create(&output).map_err(|error| error.to_string())?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("go");
    // Outside of any module, and with the Go that is installed.
    command.args(["mod", "download", "-json", MODULE]).current_dir(folder.path()).env("GOTOOLCHAIN", "local");
    command.env("PATH", format!("{path}:{USUAL}")).stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("no Go is installed: {error}"))?;
    let deadline = Instant::now() + DOWNLOAD_LIMIT;
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if Instant::now() > deadline {
            let _ended_already = child.kill();
            let _status = child.wait();
            return Err(format!("go mod download {MODULE} has not ended after {DOWNLOAD_LIMIT:?}"));
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let text = std::fs::read_to_string(&output).map_err(|error| error.to_string())?;
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let no_module = || format!("go mod download {MODULE}: {}", answer["Error"].as_str().unwrap_or("no answer"));
    answer["Dir"].as_str().map(PathBuf::from).ok_or_else(no_module)
}

/// Adds the YAML files below `folder`.
fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(path);
        }
    }
}

fn objects(path: &str, text: &str) -> Vec<(ObjectKind, Value)> {
    let documents = text.split("\n---").map(|document| document.trim_start_matches("---"));
    let read = |document: &str| {
        let object: Value = serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{path}: {error}"));
        let kind = match object["kind"].as_str()? {
            "NodePool" => ObjectKind::NodePool,
            "EC2NodeClass" => ObjectKind::Ec2NodeClass,
            _ => return None,
        };
        Some((kind, object))
    };
    documents.filter_map(read).collect()
}
