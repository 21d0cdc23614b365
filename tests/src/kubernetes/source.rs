//! Source of the control plane, in this order: an existing cluster; binaries in the folder that
//! `KUBEBUILDER_ASSETS` names, the convention of controller tests; the Go program in this
//! repository.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::ensure;

use super::binaries::{ASSETS, Binaries};

/// Variable with the kubeconfig of a cluster that the tests may fill and empty, for example a kind
/// cluster. `KUBECONFIG` is never used: it may name a cluster in use.
pub const EXISTING_CLUSTER: &str = "FLEETWRIGHT_E2E_KUBECONFIG";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A running cluster, by its kubeconfig.
    ExistingCluster(PathBuf),
    Binaries(Binaries),
    /// The program in `tests/control-plane`.
    OwnProgram,
}

/// The first source that `environment` names.
///
/// # Errors
/// When a variable names an unusable source; later sources are not tried.
pub(super) fn find(environment: impl Fn(&str) -> Option<OsString>) -> anyhow::Result<Source> {
    let named = |variable| environment(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(kubeconfig) = named(EXISTING_CLUSTER) {
        ensure!(kubeconfig.is_file(), "{EXISTING_CLUSTER} names {}, which is no file", kubeconfig.display());
        return Ok(Source::ExistingCluster(kubeconfig));
    }
    match named(ASSETS) {
        Some(folder) => Ok(Source::Binaries(Binaries::in_folder(&folder)?)),
        None => Ok(Source::OwnProgram),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempDir;

    /// A folder with programs of these names that do nothing.
    fn folder(programs: &[&str]) -> TempDir {
        let folder = TempDir::new();
        for program in programs {
            let _path = folder.write_file(program, "#!/bin/sh\n");
        }
        folder
    }

    fn found(variables: &[(&str, &str)]) -> anyhow::Result<Source> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        find(value)
    }

    #[test]
    fn an_existing_cluster_precedes_binaries_and_these_precede_the_program() {
        let here = folder(&["etcd", "kube-apiserver", "kubeconfig"]);
        let (path, kubeconfig) = (here.path().display().to_string(), here.path().join("kubeconfig"));
        let given = (EXISTING_CLUSTER, kubeconfig.to_str().unwrap());
        assert_eq!(found(&[given, (ASSETS, &path)]).unwrap(), Source::ExistingCluster(kubeconfig.clone()));
        assert!(matches!(found(&[(ASSETS, &path)]).unwrap(), Source::Binaries(_)));
        // KUBECONFIG is ignored, so that no cluster in use is emptied by accident.
        assert_eq!(found(&[("KUBECONFIG", "/root/.kube/config")]).unwrap(), Source::OwnProgram);
        assert_eq!(found(&[(EXISTING_CLUSTER, ""), (ASSETS, "")]).unwrap(), Source::OwnProgram);
    }

    #[test]
    fn binaries_without_a_scheduler_are_used_and_recognized() {
        let whole = folder(&["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"]);
        for (folder, is_whole) in [
            (whole, true),
            (folder(&["etcd", "kube-apiserver", "kubectl"]), false),
            (folder(&["etcd", "kube-apiserver", "kube-scheduler"]), false),
        ] {
            assert_eq!(Binaries::in_folder(folder.path()).unwrap().has_scheduler(), is_whole);
        }
    }

    #[test]
    fn an_unusable_source_is_an_error_and_no_other_is_tried() {
        let empty = folder(&["etcd"]);
        let path = empty.path().display().to_string();
        let error = found(&[(ASSETS, &path)]).unwrap_err().to_string();
        assert!(error.contains(ASSETS) && error.contains("kube-apiserver") && error.contains(&path), "{error}");
        let error = found(&[(EXISTING_CLUSTER, "/nowhere"), (ASSETS, &path)]).unwrap_err().to_string();
        assert!(error.contains(EXISTING_CLUSTER) && error.contains("/nowhere"), "{error}");
    }
}
