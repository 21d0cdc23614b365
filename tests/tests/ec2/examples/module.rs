//! The examples of Karpenter's AWS provider, from its Go module.

use std::path::{Path, PathBuf};

use e2e::go_module::module_folder;
use fleetwright_proto::v1::ObjectKind;
use serde_json::Value;

/// The version whose examples the expectations are written for.
pub(super) const MODULE: &str = "github.com/aws/karpenter-provider-aws@v1.14.1";

/// The variable that the examples have replaced before they are applied, by their README.
const CLUSTER_NAME: &str = "${CLUSTER_NAME}";

/// A file of the folder `examples`.
#[derive(Debug)]
pub(super) struct Example {
    pub(super) path: String,
    /// NodePools and EC2NodeClasses.
    pub(super) objects: Vec<(ObjectKind, Value)>,
}

/// All files with NodePools or EC2NodeClasses, by path, for the cluster `cluster`.
///
/// # Errors
/// Why the module is not on this machine: no Go, or no network.
pub(super) fn examples(cluster: &str) -> Result<Vec<Example>, String> {
    let folder = module_folder(MODULE)?.join("examples");
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
